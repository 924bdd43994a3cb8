import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Reply } from '../support/hostile/exchange.ts';
import { apiError, json, success } from '../support/hostile/replies.ts';
import {
  startHostileServer,
  type HostileServer,
  type HostileServerOptions,
} from '../support/hostile-server.ts';
import { cliSecret } from '../support/cli-config.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

let folder: string;
let server: HostileServer | null = null;

it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(async () => {
  await server?.[Symbol.asyncDispose]();
  server = null;
});

it('sends every given part of the query to the indexed store, and always a limit', async () => {
  await serve({ respond: () => success({ data: [], meta: { has_more: false, cursor: null, took_ms: 3 } }) });
  const flags = ['--filter', '{"gt":{"emails_sent":12345678901234567890}}', '--sort', 'send_time:desc,id'];
  await search(...flags, '--fields', 'id,settings.title', '--cursor', 'c1', '--json');
  await search();
  expect(server?.calls.map(({ action, entity }) => `${action} ${entity}`)).toEqual([
    'context_store_search campaigns',
    'context_store_search campaigns',
  ]);
  expect(server?.calls[0]?.params).toMatchObject({
    query: { sort: [{ send_time: 'desc' }, { id: 'asc' }] },
    limit: 1000,
    cursor: 'c1',
    fields: [['id'], ['settings', 'title']],
  });
  expect(server?.calls[1]?.params).toEqual({ query: {}, limit: 20 });
});

it.each<[string, unknown, boolean]>([
  ['{data, meta}', { data: [{ id: 'a' }], meta: { has_more: true, cursor: 'n', took_ms: 5 } }, true],
  ['an array', [{ id: 'a' }], false],
  ['{hits, next_cursor}', { hits: [{ id: 'x', score: 1, data: { id: 'a' } }], next_cursor: 'n' }, true],
])('reads a result that is %s', async (_title, result, hasMore) => {
  await serve({ respond: () => success(result) });
  const found = await search('--json');
  expect(jsonLines(found)).toMatchObject([
    { data: [{ id: 'a' }], meta: { has_more: hasMore, cursor: hasMore ? 'n' : null } },
  ]);
});

it('follows the cursors of --all, and ends in an error where one comes again', async () => {
  const page = (id: string, cursor: string | null): Reply =>
    success({ data: [{ id }], meta: { has_more: cursor !== null, cursor, took_ms: null } });
  await serve({
    respond: ({ index }) => [page('a', 'n1'), page('b', 'n2'), page('c', null)][index] ?? page('x', 'n'),
  });
  const all = await search('--all');
  expect(jsonLines(all).map(({ id }) => id)).toEqual(['a', 'b', 'c']);
  const endless = await search('--all');
  expect(endless).toMatchObject({ code: 1, stdout: '{"id":"x"}\n{"id":"x"}\n' });
  expect(endless.stderr).toContain('returned the same cursor again');
});

it('ends --all in an error after ten pages in a row without a record', async () => {
  await serve({
    respond: ({ index }) =>
      success({ data: [], meta: { has_more: true, cursor: `n${index}`, took_ms: null } }),
  });
  const endless = await search('--all');
  expect(endless).toMatchObject({ code: 1, stdout: '' });
  expect(endless.stderr).toContain('10 pages without a record');
  expect(server?.calls).toHaveLength(10);
});

it('makes hostile text inert in a table', async () => {
  await serve({ respond: () => success([{ id: '\u001b[2J\u202egnp', '\u001b[31m': 'x' }]) });
  const { stdout } = await search();
  expect(stdout).toBe('id        \ufffd[31m\n\ufffd[2J\ufffdgnp  x\n');
});

it.each<[string, Reply, number, string]>([
  [
    'a store that is not ready',
    json(400, { message: 'The context store of this connector is not ready', errors: [] }),
    1,
    'the service is still filling it',
  ],
  [
    'a query that cannot be asked',
    json(400, {
      message: null,
      errors: [{ field: 'query.filter', message: 'expected an operator', error_code: 'search_invalid' }],
    }),
    2,
    'expected an operator',
  ],
  ['a refusal', apiError(403, 'No'), 1, 'answered with 403'],
])(
  'ends with its reason after %s',
  async (_title, reply, code, said) => {
    await serve({ respond: () => reply });
    const result = await search();
    expect(result.stderr).toContain(said);
    expect(result.code).toBe(code);
  },
  60_000,
);

it('refuses an entity that the service has no store for, before any call', async () => {
  await serve();
  const result = await callCli(
    ['search', 'newsletter/tags', '--remote', '--config', join(folder, 'sync.yaml')],
    {
      cwd: folder,
      env: { SECRET: cliSecret },
    },
  );
  expect(result.code).toBe(2);
  expect(result.stderr).toContain('these can: lists, campaigns');
  expect(server?.requests).toEqual([]);
});

async function serve(options: HostileServerOptions = {}): Promise<void> {
  server = await startHostileServer(options);
  writeFileSync(
    join(folder, 'sync.yaml'),
    `api: { baseUrl: "${server.baseUrl}", clientId: me, clientSecret: "\${SECRET}" }
sinks: { main: { type: jsonl, directory: ./main } }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main, rateLimit: { requestsPerSecond: 1000 } }
`,
  );
}

function search(...flags: readonly string[]): Promise<CliResult> {
  const args = ['search', 'newsletter/campaigns', '--remote', '--config', join(folder, 'sync.yaml')];
  return callCli([...args, ...flags], { cwd: folder, env: { SECRET: cliSecret } });
}
