import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';

const document = readFileSync(new URL('../../docs/adding-a-connector.md', import.meta.url), 'utf8');
const fixture = readFileSync(new URL('../fixtures/definitions/issue-tracker.yaml', import.meta.url), 'utf8');
const [, example = ''] = /```yaml\n(# An issue tracker[^]*?)```/.exec(document) ?? [];

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
  mkdirSync(path.join(folder, 'my-definitions'));
});

describe('docs/adding-a-connector.md', () => {
  it('shows the definition that the tests run with', () => {
    expect(example).toBe(fixture);
  });

  it('shows a definition that loads', () => {
    write(example);
    expect([...loadDefinitions([path.join(folder, 'my-definitions')]).keys()]).toEqual(['issue-tracker']);
  });

  it('shows a definition that says how the service is asked', () => {
    const helpDesk = readFileSync('docs/examples/help-desk.yaml', 'utf8');
    const [, shown] = /```yaml\n(upstream:[^]*?)```/.exec(document) ?? [];
    expect(helpDesk.endsWith(`\n${shown}`)).toBe(true);
    write(helpDesk);
    const upstream = loadDefinitions([path.join(folder, 'my-definitions')]).get('help-desk')?.upstream;
    expect(upstream?.host.get('company')?.pattern).toBe('[a-z0-9][a-z0-9-]{0,62}');
    const [tickets] = [...(upstream?.entities.values() ?? [])];
    expect(tickets?.list.paging).toEqual({
      kind: 'nextUrl',
      url: ['links', 'next'],
      keep: ['page[after]'],
      isAlone: false,
    });
    expect(tickets?.list.params.get('cursor')).toEqual({ kind: 'paging' });
    expect(tickets?.list.params.get('limit')).toMatchObject({ kind: 'query', name: 'page[size]' });
    expect(tickets?.get?.params.get('ticket_id')).toEqual({ kind: 'path' });
  });
});

function write(text: string): void {
  writeFileSync(path.join(folder, 'my-definitions', 'issue-tracker.yaml'), text);
}
