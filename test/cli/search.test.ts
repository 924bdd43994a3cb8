import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { cliSecret, openCliWorld, type CliWorld } from '../support/cli-world.ts';
import {
  startHostileServer,
  type HostileServer,
  type HostileServerOptions,
} from '../support/hostile-server.ts';
import { type Reply, apiError, json, success } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

describe('a sink', () => {
  type Found = Readonly<Record<string, unknown>>;

  let world: CliWorld;
  let database: string;

  beforeAll(async () => {
    world = await openCliWorld();
    database = join(world.folder, 'main.db');
    await world.json('sync', 'newsletter', '--select', 'campaigns', 'list_members', 'email_activity');
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  describe('search', () => {
    it('finds what SQL finds, in the order that was asked for', async () => {
      const expected = ids(
        `SELECT id FROM newsletter__campaigns WHERE status = 'sent' AND _deleted_at IS NULL ORDER BY send_time DESC, _row`,
      );
      expect(expected.length).toBeGreaterThan(2);
      const found = await records('newsletter/campaigns', '--filter', sent, '--sort', 'send_time:desc');
      expect(found.map(({ id }) => id)).toEqual(expected);
    });

    it('pages with the cursor of the page before, and --all goes to the end', async () => {
      const search = ['search', 'newsletter/campaigns', '--sort', 'create_time:asc,id', '--limit', '3'];
      const paged: unknown[] = [];
      let cursor: string | null = null;
      let pages = 0;
      do {
        const page = await document(...search, ...(cursor === null ? [] : ['--cursor', cursor]));
        paged.push(...page.data.map(({ id }) => id));
        ({ cursor } = page.meta);
        pages += 1;
      } while (cursor !== null);
      const everything = ids('SELECT id FROM newsletter__campaigns ORDER BY create_time, id');
      expect(paged).toEqual(everything);
      expect(pages).toBe(Math.ceil(everything.length / 3));
      const all = await world.cli(...search, '--all');
      expect(jsonLines(all).map(({ id }) => id)).toEqual(everything);
      expect(all.stderr).toContain(`${everything.length} records`);
    });

    it('shows a table for people, and says how to get the next page and what had no room', async () => {
      const result = await world.cli(
        'search',
        'newsletter/campaigns',
        '--limit',
        '2',
        '--fields',
        'id,status',
      );
      expect(result.stdout).toMatch(/^id +status\n\S+ +\S+\n\S+ +\S+\n$/);
      expect(result.stderr).toMatch(/^2 records in .*; next page: the same with --cursor \S+\n$/);
    });

    it('writes members of objects, and JSON lines to the letter', async () => {
      const [record] = jsonLines(
        await world.cli('search', 'newsletter/campaigns', '--all', '--fields', 'id,settings.title'),
      );
      expect(Object.keys(record ?? {}).sort()).toEqual(['id', 'settings']);
      expect(record).toMatchObject({ settings: { title: expect.any(String) as string } });
    });

    it('takes the filter from a file and from standard input', async () => {
      writeFileSync(join(world.folder, 'filter.json'), sent);
      const fromFile = await records('newsletter/campaigns', '--filter', '@filter.json');
      const fromInput = await withInput(sent, 'search', 'newsletter/campaigns', '--filter', '-', '--json');
      expect(fromFile.length).toBeGreaterThan(0);
      expect(jsonLines(fromInput)[0]?.['data']).toEqual(fromFile);
    });

    it.each<[string, readonly string[], string]>([
      ['an unknown field', ['--filter', '{"and":[{"eq":{"statuss":"x"}}]}'], 'query.filter.and[0]'],
      ['an unknown operator', ['--filter', '{"equals":{"status":"x"}}'], 'query.filter'],
      ['a value of another type', ['--filter', '{"gt":{"emails_sent":"many"}}'], 'emails_sent'],
      ['an unknown sort field', ['--sort', 'statuss:desc'], 'query.sort[0]'],
      ['a cursor of another search', ['--cursor', 'bm90IGEgY3Vyc29y'], 'cursor'],
      ['no JSON', ['--filter', '{eq}'], '--filter: expected JSON'],
      ['another direction', ['--sort', 'id:down'], '--sort: expected <field>:asc or <field>:desc'],
      ['too large a page', ['--limit', '1001'], '--limit: expected a whole number from 1 to 1000'],
      ['a file that is not there', ['--filter', '@none.json'], 'none.json cannot be read'],
    ])('refuses %s with 2, and says where and what was expected', async (_title, flags, said) => {
      const result = await world.cli('search', 'newsletter/campaigns', ...flags);
      expect(result.code).toBe(2);
      expect(result.stderr).toContain(said);
      expect(result.stderr).toMatch(/expected|unknown|cannot be read/i);
    });

    it('says that nothing is stored yet, and that files of lines cannot be searched', async () => {
      const nothing = await world.cli('search', 'wiki/pages');
      expect(nothing).toMatchObject({ code: 2 });
      expect(nothing.stderr).toContain(
        'Nothing of wiki/pages is stored in sink main yet. Run "npx --no-install connector-sync sync wiki"',
      );
      await using lake = await openCliWorld({ sink: 'jsonl' });
      const lines = await lake.cli('search', 'newsletter/campaigns');
      expect(lines.code).toBe(2);
      expect(lines.stderr).toContain('expected one of type sqlite');
    });
  });

  const sent = '{"eq":{"status":"sent"}}';

  interface FoundDocument {
    readonly data: readonly Found[];
    readonly meta: { readonly has_more: boolean; readonly cursor: string | null };
  }

  /** The one document of `--json`. */
  async function document(...args: readonly string[]): Promise<FoundDocument> {
    const [found] = await world.json(...args);
    // `as`: what the command promises; the tests look at what is in it.
    return found as unknown as FoundDocument;
  }

  async function records(...args: readonly string[]): Promise<readonly Found[]> {
    return (await document('search', ...args)).data;
  }

  function ids(sql: string): readonly string[] {
    const db = new Database(database, { readonly: true });
    try {
      return (db.prepare(sql).all() as { id: string }[]).map(({ id }) => id);
    } finally {
      db.close();
    }
  }

  function withInput(stdin: string, ...args: readonly string[]): Promise<CliResult> {
    return callCli([...args, '--config', world.config], { cwd: world.folder, env: world.env, stdin });
  }
});

describe('search --remote', () => {
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
    await serve({
      respond: () => success({ data: [], meta: { has_more: false, cursor: null, took_ms: 3 } }),
    });
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
});
