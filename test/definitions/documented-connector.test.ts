import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { formatWithColumn, ProblemsError } from '../../src/core/problems.ts';
import { definitionFile } from '../../src/definitions/definition-file.ts';
import { loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { upstreamFile } from '../../src/definitions/upstream/upstream-file.ts';

const document = readFileSync(new URL('../../docs/adding-a-connector.md', import.meta.url), 'utf8');
const format = readFileSync(new URL('../../docs/definition-format.md', import.meta.url), 'utf8');
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

  it('shows the errors as the program reports them', () => {
    write(
      example.replace('volatile: [author', 'volatil: [author').replace('entity: projects', 'entity: project'),
    );
    const [, shown = ''] = /```text\n([^]*?)\n```/.exec(document) ?? [];
    expect(problems()).toBe(shown);
  });

  it('names every key of the format', () => {
    const { shape } = definitionFile();
    const { entities } = shape;
    const keys = [...Object.keys(shape), ...Object.keys(entities.valueType.in.shape)];
    expect(keys.filter((key) => !format.includes(`\`${key}\``))).toEqual([]);
  });

  it('names every key of the upstream', () => {
    const { shape } = upstreamFile();
    const requests = shape.entities.valueType.shape;
    const [list, get, download] = [requests.list, requests.get, requests.download].map((one) =>
      Object.keys(one.unwrap().shape),
    );
    const keys = [
      ...Object.keys(shape),
      ...Object.keys(requests),
      ...(list ?? []),
      ...(get ?? []),
      ...(download ?? []),
    ];
    expect(keys.filter((key) => !format.includes(`\`${key}\``))).toEqual([]);
  });
});

function write(text: string): void {
  writeFileSync(path.join(folder, 'my-definitions', 'issue-tracker.yaml'), text);
}

function problems(): string {
  try {
    loadDefinitions([path.join(folder, 'my-definitions')]);
  } catch (error) {
    if (!(error instanceof ProblemsError)) throw error;
    return error.problems.map(formatWithColumn).join('\n').replaceAll(`${folder}/`, '');
  }
  return '';
}
