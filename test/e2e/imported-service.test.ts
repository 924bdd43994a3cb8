import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { loadDefinition } from '../../src/definitions/load-definitions.ts';
import { serviceText, type Listing } from '../support/import/miniature.ts';
import { it } from '../support/it.ts';
import { callCli } from '../support/run-cli.ts';
import { sqliteRows } from '../support/stored-rows.ts';
import {
  startThirdParty,
  type ReceivedRequest,
  type Reply,
} from '../support/third-party/start-third-party.ts';

const total = 23;
const largest = 5;
const records = Array.from({ length: total }, (_, at) => ({
  id: `r${String(at).padStart(2, '0')}`,
  displayName: `Number ${at}`,
}));
const record = { id: { type: 'string' }, displayName: { type: 'string' } };
const size = { schema: { type: 'integer', maximum: largest } };
const nullable = { type: ['string', 'null'] };
const token = { meta: { next: '$.next' }, answer: { next: nullable } } as const;
const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };

/** The service's own description: how it pages is written a second time below, by hand. */
const listings: Readonly<Record<string, Listing>> = {
  by_cursor: {
    record,
    params: { cursor: 'string', limit: size },
    meta: { c: '$.next_cursor' },
    answer: { next_cursor: nullable },
  },
  by_body: {
    record,
    method: 'post',
    ...token,
    meta: { next_token: '$.nextToken' },
    answer: { nextToken: nullable },
    more: {
      requestBody: {
        content: {
          'application/json': {
            schema: {
              properties: { nextToken: { type: 'string' }, limit: { type: 'integer', maximum: largest } },
            },
          },
        },
      },
    },
  },
  by_page: {
    record,
    extractor: '$',
    params: { page: { schema: { type: 'integer', default: 1 } }, per_page: size },
    meta: { next: '@link.next' },
  },
  by_offset: {
    record,
    params: { offset: { schema: { type: 'integer', default: 0 } }, count: size },
    answer: { total_items: { type: 'integer' } },
  },
  by_address: {
    record,
    params: { 'page[cursor]': 'string' },
    meta: { next: '$.links.next' },
    answer: { links: { properties: { next: nullable } } },
  },
  by_header: { record, extractor: '$', params: { cursor: 'string' }, meta: { next: '@link.next' } },
  by_last: {
    record,
    params: { starting_after: { description: 'An object id', schema: { type: 'string' } }, limit: size },
    meta: { has_more: '$.has_more' },
    answer: { has_more: { type: 'boolean' } },
  },
  wrapped: {
    extractor: '$.items[*].thing',
    more: onePage,
    answer: {},
    record: { thing: { type: 'object', properties: record } },
  },
  children: { record, path: '/by_cursor/{parent}/children', more: onePage },
};

/** How the made-up service answers, whatever its description says. */
function answer({ path, query, body }: ReceivedRequest, origin: string): Reply {
  const given = body === '' ? {} : (JSON.parse(body) as Record<string, unknown>);
  const most = (name: string): number => Math.min(largest, Number(query.get(name) ?? given[name] ?? 3));
  const from = (at: number, count: number) => records.slice(at, at + count);
  const after = (at: number): string | null => (at < total ? String(at) : null);
  if (path.endsWith('/children')) return { body: { items: from(0, 2) } };
  switch (path) {
    case '/by_cursor': {
      const at = Number(query.get('cursor') ?? 0);
      const count = most('limit');
      return { body: { items: from(at, count), next_cursor: after(at + count) } };
    }
    case '/by_body': {
      const at = Number(given['nextToken'] ?? 0);
      const next = after(at + most('limit'));
      return { body: { items: from(at, most('limit')), ...(next === null ? {} : { nextToken: next }) } };
    }
    case '/by_page':
      return { body: from((Number(query.get('page') ?? 1) - 1) * most('per_page'), most('per_page')) };
    case '/by_offset':
      return { body: { items: from(Number(query.get('offset') ?? 0), most('count')), total_items: total } };
    case '/by_address': {
      const at = Number(query.get('page[cursor]') ?? 0);
      const next = at + 4 < total ? `${origin}/by_address?page%5Bcursor%5D=${at + 4}&sort=x` : null;
      return { body: { items: from(at, 4), links: { next } } };
    }
    case '/by_header': {
      const at = Number(query.get('cursor') ?? 0);
      const link = at + 4 < total ? { Link: `<${origin}/by_header?cursor=${at + 4}>; rel="next"` } : {};
      return { headers: link, body: from(at, 4) };
    }
    case '/by_last': {
      const last = query.get('starting_after');
      const at = last === null ? 0 : records.findIndex(({ id }) => id === last) + 1;
      return { body: { items: from(at, most('limit')), has_more: at + most('limit') < total } };
    }
    case '/wrapped':
      return { body: { items: records.map((thing) => ({ thing })) } };
    default:
      return { status: 404, body: { error: `there is no ${path}` } };
  }
}

describe('a service whose definition was imported', () => {
  it('is read in full, however it pages', async ({ folder }) => {
    const service: { origin: string } = { origin: '' };
    const { origin, port } = await startThirdParty((request) => answer(request, service.origin));
    service.origin = origin;
    writeFileSync(join(folder, 'connector.yaml'), serviceText({ listings, servers: [{ url: origin }] }));
    const imported = await callCli(
      ['definitions', 'import', 'connector.yaml', '--mode', 'direct', '-o', 'definitions'],
      { cwd: folder },
    );
    expect(imported.stdout).toContain(`${Object.keys(listings).length} converted, 0 with a TODO, 0 refused`);
    const file = join(folder, 'definitions', 'corner-shop-direct.yaml');
    // What the file does not say of this service: it has no limits.
    writeFileSync(
      file,
      readFileSync(file, 'utf8').replaceAll('requestsPerSecond: 2', 'requestsPerSecond: 1000'),
    );
    writeFileSync(
      join(folder, 'sync.yaml'),
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${port}']
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine: { definition: corner-shop-direct, credentials: { api_key: key }, sink: main }
`,
      { mode: 0o600 },
    );
    const synced = await callCli(['sync', '--config', 'sync.yaml'], { cwd: folder });
    expect(synced.code, synced.stdout + synced.stderr).toBe(0);
    const { entities } = loadDefinition(file);
    const counts = [...entities.values()].map(({ name, table }) => {
      const rows = [...sqliteRows(join(folder, 'main.db'), 'mine', table).values()];
      const names = rows.map(({ columns }) => columns['display_name']);
      expect(names).toEqual(names.map(() => expect.stringMatching(/^Number \d/) as string));
      return [name, rows.length];
    });
    expect(Object.fromEntries(counts)).toEqual({
      ...Object.fromEntries(Object.keys(listings).map((name) => [name, total])),
      children: 2 * total,
    });

    const text = readFileSync(file, 'utf8');
    const withTodo = async (above: string, ...args: readonly string[]) => {
      const at = text.indexOf(`\n${above}`) + 1;
      expect(at).toBeGreaterThan(0);
      writeFileSync(file, `${text.slice(0, at)}# TODO write it down: who knows?\n${text.slice(at)}`);
      const { code, stderr } = await callCli(['sync', 'mine', ...args, '--config', 'sync.yaml'], {
        cwd: folder,
      });
      return { code, stderr, line: text.slice(0, at).split('\n').length };
    };
    const open = await withTodo('  by_page:\n', '--select', 'by_cursor', 'by_page');
    expect(open).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        `mine cannot sync by_page: line ${open.line} of the definition corner-shop-direct is a TODO: write it down: who knows?`,
      ) as string,
    });
    expect((await withTodo('  by_page:\n', '--select', 'by_cursor')).code).toBe(0);
    const parent = /^ {4}parents:\n(?:.*\n)*? {8}entity: (?<parent>\w+)|entity: (?<flow>\w+)/m.exec(
      text,
    )?.groups;
    const above = await withTodo(
      `  ${parent?.['parent'] ?? parent?.['flow'] ?? ''}:\n`,
      '--select',
      'children',
    );
    expect(above.code).toBe(2);
    expect((await withTodo('  baseUrl:', '--select', 'by_cursor')).stderr).toContain(
      'mine cannot sync any entity',
    );
  });
});
