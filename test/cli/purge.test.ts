import { createHmac, randomBytes } from 'node:crypto';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { filesWith } from '../support/files-with.ts';
import { file, openFileWorld } from '../support/file-world.ts';
import { contentsOf, openSearchFor } from '../support/masks/find-values.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';
import { isLong, repeats, triedSinks } from '../support/trials.ts';

let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

/** A member of the sample account. */
async function aMember(): Promise<{ readonly list: string; readonly id: string; readonly email: string }> {
  const [first] = jsonLines(await world.cli('export', 'newsletter/list_members'));
  return {
    list: String(first?.['list_id']),
    id: String(first?.['id']),
    email: String(first?.['email_address']),
  };
}

describe('purge', () => {
  // Proves promise 21, 21.1
  it.each(['sqlite', 'jsonl'] as const)(
    'leaves no byte of a person in the files of a %s sink, and keeps the person away',
    async (sink) => {
      world = await openCliWorld({ sink, isWhole: true });
      await world.json('sync', 'newsletter');
      const { email } = await aMember();
      expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
      const where = JSON.stringify({ eq: { email_address: email } });
      const purge = ['purge', 'newsletter', '--where', where];
      const [look] = await world.json(...purge, '--dry-run');
      const [done] = await world.json(...purge);
      const report = done as Record<string, unknown>;
      expect(look).toMatchObject({ entities: report['entities'], notAsked: report['notAsked'] });
      const entities = (of: string): readonly string[] =>
        (report[of] as { readonly entity: string; readonly rows?: number }[]).flatMap(
          ({ entity, rows = 1 }) => (rows > 0 ? [entity] : []),
        );
      expect(entities('entities')).toEqual(
        expect.arrayContaining([
          'list_members',
          'segment_members',
          'email_activity',
          'email_activity_events',
        ]),
      );
      expect(entities('notAsked')).toEqual(expect.arrayContaining(['lists', 'campaigns']));
      expect(filesWith(world.folder, email)).toEqual([]);
      const end = (await world.json('sync', 'newsletter', '--full')).at(-1);
      expect(end).toMatchObject({ report: { outcome: 'ok' } });
      expect(filesWith(world.folder, email)).toEqual([]);
      expect((await world.cli('audit', 'newsletter/list_members')).code).toBe(0);
    },
    120_000,
  );

  it('shows what it would remove, then removes it with a report that names no record, and explains it later', async () => {
    world = await openCliWorld();
    await world.json('sync', 'newsletter', '--select', 'list_members');
    const { list, id, email } = await aMember();
    const key = ['--key', `list_id=${list}`, '--key', `id=${id}`];
    const path = ['--key', `list_members/${list}/${id}`];
    const [look] = await world.json('purge', 'newsletter', ...path, '--dry-run');
    expect(look).toMatchObject({ isDone: false, records: 1 });
    expect(filesWith(world.folder, email).length).toBeGreaterThan(0);
    const [done] = await world.json('purge', 'newsletter/list_members', ...key);
    const removed = [expect.objectContaining({ entity: 'list_members', rows: 1 })] as unknown[];
    expect(done).toMatchObject({
      isDone: true,
      records: 1,
      entities: expect.arrayContaining(removed) as unknown,
      left: [],
    });
    for (const value of [email, id]) expect(JSON.stringify(done)).not.toContain(value);
    const explained = await world.cli('explain', 'newsletter/list_members', ...path);
    expect(explained).toMatchObject({ code: 0, stdout: expect.stringContaining('was purged at') as string });
  });

  // Proves promise 21.4
  it.each(triedSinks)(
    'is refused while a sync runs into a %s sink, which ends as without it',
    async (sink) => {
      let onListed: () => void = () => undefined;
      world = await openCliWorld({
        sink,
        wrap: (account) => ({
          ...account,
          list: (entity, params) => {
            if (entity === 'list_members') onListed();
            return account.list(entity, params);
          },
        }),
      });
      await world.json('sync', 'newsletter', '--select', 'list_members');
      const before = (await world.cli('export', 'newsletter/list_members')).stdout;
      const { list, id, email } = await aMember();
      const purge = ['purge', 'newsletter/list_members', '--key', `list_id=${list}`, `id=${id}`];
      const listed = new Promise<void>((resolve) => (onListed = resolve));
      const sync = startCli(
        ['sync', 'newsletter', '--select', 'list_members', '--full', '--config', world.config],
        {
          cwd: world.folder,
          env: world.env,
        },
      );
      await listed;
      sync.child.kill('SIGSTOP');
      const refused = await world.cli(...purge);
      sync.child.kill('SIGCONT');
      expect(refused).toMatchObject({
        code: 5,
        stderr: expect.stringMatching(/held by process \d+ .*Wait for that run to end/) as string,
      });
      expect((await sync.result).code).toBe(0);
      expect((await world.cli('export', 'newsletter/list_members')).stdout).toBe(before);
      await world.json(...purge);
      await world.json('sync', 'newsletter', '--select', 'list_members', '--full');
      expect((await world.cli('export', 'newsletter/list_members')).stdout).not.toContain(email);
    },
  );

  // Proves promise 21.1
  it('removes downloaded files of what lies below a record, and fetches none again', async () => {
    world = await openCliWorld();
    await using library = await openFileWorld();
    library.files.set('a1', file('the letter of ann')).set('a2', file('another letter of ann'));
    const config = join(library.folder, 'sync.yaml');
    writeFileSync(
      config,
      `api: { baseUrl: "${library.server.baseUrl}", clientId: me, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  library: { definition: document-library, id: c1, sink: main, downloads: { directory: ./files } }
`,
    );
    const cli = (...args: readonly string[]) =>
      callCli([...args, '--json', '--config', config], { cwd: library.folder, env: { SECRET: 'hush-hush' } });
    expect((await cli('sync', 'library')).code).toBe(0);
    expect(filesWith(library.folder, 'letter of ann')).toHaveLength(2);
    const purged = await cli('purge', 'library/documents', '--key', 'id=d1');
    expect(purged.code, purged.stderr).toBe(0);
    expect(jsonLines(purged)[0]).toMatchObject({
      entities: expect.arrayContaining([
        expect.objectContaining({ entity: 'attachments', rows: 2, files: 2 }),
      ]) as unknown,
    });
    expect(filesWith(library.folder, 'letter of ann')).toEqual([]);
    expect((await cli('sync', 'library', '--full')).code).toBe(0);
    expect(filesWith(library.folder, 'letter of ann')).toEqual([]);
    expect(library.asked()).toHaveLength(2);
  });

  // Proves promise 21.1
  it('removes refused records by a condition, and all of an entity', async () => {
    const mail = (name: string): string => `${name}@erase.example`;
    const refused = [{ email_address: mail('ann') }, { id: { a: 1 }, email_address: mail('bob') }];
    world = await openCliWorld({
      settings: '    include: [lists, list_members]\n',
      wrap: (account) => ({
        ...account,
        list: (entity, params) => {
          const listing = account.list(entity, params);
          if (entity !== 'list_members') return listing;
          return { ...listing, slice: (from, limit) => [...listing.slice(from, limit), ...refused] };
        },
      }),
    });
    await world.cli('sync', 'newsletter');
    const held = (): readonly string[] =>
      ['ann', 'bob'].filter((name) => filesWith(world.folder, mail(name)).length > 0);
    const members = 'newsletter/list_members';
    expect(held()).toEqual(['ann', 'bob']);
    const [dry] = await world.json('purge', members, '--quarantine', '--dry-run');
    expect(dry).toMatchObject({ entities: [{ rows: 0, quarantined: 2 }] });
    await world.json('purge', members, '--where', JSON.stringify({ eq: { email_address: mail('ann') } }));
    expect(held()).toEqual(['bob']);
    await world.json('purge', members, '--quarantine');
    expect(held()).toEqual([]);
    await world.cli('sync', 'newsletter', '--full');
    expect(held()).toEqual([]);
  });

  it('says what was expected instead of a choice that it cannot take', async () => {
    world = await openCliWorld();
    const all = await world.cli('purge', 'newsletter', '--where', '{}');
    expect(all).toMatchObject({ code: 2, stderr: expect.stringContaining('finds every record') as string });
    const file = await world.cli('purge', 'newsletter', '--where', '@none.json');
    expect(file).toMatchObject({ code: 2, stderr: expect.stringMatching(/--where: .*none\.json/) as string });
    const none = await world.cli('purge', 'newsletter/lists');
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('--where') as string });
    const short = await world.cli('purge', 'newsletter', '--key', 'list_members/a1');
    expect(short).toMatchObject({ code: 2, stderr: expect.stringContaining('missing: id') as string });
    const long = await world.cli('purge', 'newsletter', '--key', 'list_members/a1/b/c');
    expect(long).toMatchObject({ code: 2, stderr: expect.stringContaining('got "a1/b/c"') as string });
    const empty = await world.cli('purge', 'newsletter/lists', '--key', 'id=a1');
    expect(empty).toMatchObject({ code: 2, stderr: expect.stringContaining('holds nothing') as string });
  });
});

const marked = repeats('TRIALS', { share: 40, full: 1_000 });

/**
 * An account with marked records: a marked list with its members, and marked members of another list. Each of their
 * values can be guessed from nothing that is not a marked value itself.
 */
function marking() {
  const secret = randomBytes(16);
  const values = new Set<string>();
  let revision = 0;
  const canary = (...of: readonly (string | number)[]): string => {
    const value = `cn${createHmac('sha256', secret).update(of.join(' ')).digest('hex').slice(0, 20)}`;
    values.add(value);
    return value;
  };
  const list = canary('list');
  const member = (like: JsonObject, listId: string, at: number): JsonObject => ({
    ...like,
    id: canary('id', listId, at),
    list_id: listId,
    email_address: `${canary('email', listId, at, revision)}@canary.example`,
    full_name: `${canary('name', listId, at, revision)} "Ünïcode"`,
    merge_fields: { NOTE: canary('note', listId, at) },
    tags: [{ id: 1, name: canary('tag', listId, at) }],
    // A new field: where such records are refused, they are in quarantine, whole.
    ...(revision > 0 && at % 50 === 7 ? { surprise: canary('surprise', listId, at) } : {}),
  });
  const wrap = (account: SampleAccount): SampleAccount => {
    const lists = account.list('lists', {}).slice(0, 1_000);
    const [first = {}] = lists;
    const all = (entity: string, params: JsonObject): readonly JsonObject[] =>
      account.list(entity, params).slice(0, 100_000);
    const firstId = typeof first['id'] === 'string' ? first['id'] : '';
    const [like = {}] = all('list_members', { list_id: firstId });
    const members = (id: string, count: number): readonly JsonObject[] =>
      Array.from({ length: count }, (_, at) => member(like, id, at));
    return {
      get: (entity, params) =>
        entity === 'list_members' &&
        typeof params['subscriber_hash'] === 'string' &&
        values.has(params['subscriber_hash'])
          ? member(like, firstId, 0)
          : account.get(entity, params),
      list: (entity, params) => {
        // Its parameters are in the report of the run, and in what is known of the listing.
        if (entity === 'tags' && params['list_id'] === list && revision > 0) {
          throw new ApiError(400, 'the tags of this list are locked');
        }
        if (entity === 'lists') {
          return listingOf([
            ...all(entity, params),
            { ...first, id: list, name: canary('list name', revision) },
          ]);
        }
        if (params['list_id'] === list) return listingOf(entity === 'list_members' ? members(list, 5) : []);
        if (entity !== 'list_members' || params['list_id'] !== firstId) return account.list(entity, params);
        return listingOf([...all(entity, params), ...members(firstId, marked)]);
      },
    };
  };
  /** Of a member that is asked for by its key. */
  const key = (): Key => {
    const [{ id: first = null } = {}] = world.newsletter.list('lists', {}).slice(0, 1);
    const firstId = typeof first === 'string' ? first : '';
    return { list_id: firstId, id: canary('id', firstId, 0) };
  };
  return { wrap, list, values, key, change: () => void (revision += 1) };
}

const schema = 'purged_canaries';

/** Every row of every table as text, and the files of all that has some. */
async function* serverContents(url: string) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('CHECKPOINT');
    const own = `SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'i')`;
    const { rows } = await client.query<{ name: string; kind: string; bytes: Buffer }>(
      `WITH own AS (${own}), every AS (SELECT oid FROM own UNION SELECT reltoastrelid FROM own WHERE reltoastrelid <> 0
         UNION SELECT i.indexrelid FROM pg_index AS i JOIN own ON own.reltoastrelid = i.indrelid)
       SELECT c.oid::regclass::text AS name, c.relkind AS kind, pg_read_binary_file(pg_relation_filepath(c.oid)) AS bytes
       FROM every JOIN pg_class AS c USING (oid)`,
    );
    for (const { name, kind, bytes } of rows) {
      yield { place: `the file of ${name}`, bytes };
      if (kind !== 'r') continue;
      const texts = (await client.query<{ text: string }>(`SELECT t::text AS text FROM ${name} AS t`)).rows;
      yield { place: name, bytes: Buffer.from(texts.map(({ text }) => text).join('\n')) };
    }
  } finally {
    await client.end();
  }
}

interface Shown {
  readonly place: string;
  readonly bytes: Buffer;
}

/** With `<key>` for what names a record. */
const commands: readonly (readonly string[])[] = [
  ['runs', '--json'],
  ['export', 'newsletter/list_members'],
  ['search', 'newsletter/list_members', '--all'],
];
const moreCommands: typeof commands = [
  ['status'],
  ['status', '--json'],
  ['runs'],
  ['actions', '--json'],
  ['check'],
  ['schema', 'diff'],
  ['prune'],
  ['audit', 'newsletter/list_members', '--json'],
  ['explain', 'newsletter/list_members', '<key>'],
  ['explain', 'newsletter/list_members', '<key>', '--json'],
  ['export', 'newsletter/lists'],
  ['purge', 'newsletter/list_members', '--where', '{"like": {"id": "%"}}', '--dry-run'],
  ['publish', 'status', '--json'],
  ['publish', 'check', 'lake', '--json'],
];

type Key = Readonly<Record<'list_id' | 'id', string>>;

const keyFlags = (key: Key): readonly string[] =>
  Object.entries(key).flatMap(([name, value]) => ['--key', `${name}=${value}`]);

/** What commands print, and what pages in a browser, agents and readers of the served API are answered. */
async function shown(key: Key, asked = commands): Promise<readonly Shown[]> {
  const answers: Shown[] = [];
  const add = (place: string, text: string): void =>
    void answers.push({
      place: `the answer of ${place}`,
      // The key that was asked for comes back.
      bytes: Buffer.from(text.replaceAll(key.id, 'asked')),
    });
  for (const command of asked) {
    const args = command.flatMap((one) => (one === '<key>' ? keyFlags(key) : [one]));
    const { stdout, stderr } = await world.cli(...args);
    add(command.join(' '), stdout + stderr);
  }
  await using agent = await openMcpClient(world);
  const members = { entity: 'newsletter/list_members' };
  for (const [name, given] of [
    ['list_entities', {}],
    ['freshness', {}],
    ['changes', { ...members, since: 0, limit: 200, fields: ['email_address'] }],
    ['search', { ...members, filter: { like: { email_address: '%' } }, limit: 100 }],
    ['get', { ...members, key }],
    ['explain', { ...members, key }],
  ] as const) {
    const { content } = await agent.client.callTool({ name, arguments: given });
    add(`mcp ${name}`, JSON.stringify(content));
  }
  const ui = startCli(['ui', '--http', '0', '--config', world.config], { cwd: world.folder, env: world.env });
  await ui.until('Ctrl-C stops.');
  const url = /http:\S+/.exec(ui.output().stdout)?.[0] ?? '';
  const record = `record?in=newsletter/list_members&key.list_id=${key.list_id}&key.id=${key.id}`;
  for (const path of ['', 'connectors/newsletter', 'actions', 'targets/lake', record]) {
    const place = path === record ? 'the page of a record' : `the page /${path}`;
    add(place, await (await fetch(new URL(path, url))).text());
  }
  ui.child.kill('SIGTERM');
  const { stdout, stderr } = await ui.result;
  add('ui', stdout + stderr);
  return answers;
}

// Proves promise 21.1, 21.2, 21.3
it.each(triedSinks)(
  `purges ${marked} marked records from every byte of a %s sink, what was published, and what commands show`,
  { timeout: isLong ? 600_000 : 120_000 },
  async (sink) => {
    const { wrap, list, values, key: keyIn, change } = marking();
    const server = sink === 'postgres' ? await sharedPostgres() : null;
    await using receiver = await startReceiver();
    world = await openCliWorld({
      ...(server === null
        ? { sink }
        : {
            sinkSettings: `{ type: postgres, url: "${server.url}", schema: ${schema}, durability: normal }`,
          }),
      wrap,
      settings: `    include: [lists, list_members, tags]\n    onSchemaChange: quarantine\n${sink === 'jsonl' ? '' : '    history: true\n'}`,
    });
    appendFileSync(
      world.config,
      `publish:
  lake: { type: files, directory: ./lake, format: jsonl }
${isLong ? '  desk: { type: duckdb, path: ./desk.duckdb }\n' : ''}allowNotifyHosts: ["${receiver.host}"]
notify:
  ops: { type: webhook, url: "${receiver.url}" }
`,
    );
    const key = keyIn();
    await world.json('sync', 'newsletter');
    change();
    await world.cli('sync', 'newsletter', '--full');
    await world.json('refetch', 'newsletter/list_members', ...keyFlags(key));

    const found = async (more: readonly Shown[] = []): Promise<ReadonlyMap<string, number>> => {
      const search = openSearchFor([...values]);
      const places = new Map<string, number>();
      const look = ({ place, bytes }: Shown): void => {
        const { size } = search(bytes);
        if (size > 0) places.set(place, size);
      };
      for (const one of contentsOf(world.folder)) look(one);
      if (server !== null) for await (const one of serverContents(server.url)) look(one);
      for (const one of more) look(one);
      return places;
    };
    const before = [...(await found(await shown(key))).keys()].join('\n');
    const searched = sink === 'jsonl' ? [] : ['answer of search', 'answer of mcp search'];
    const kept = { sqlite: ['main.db'], jsonl: ['.jsonl'], postgres: ['__versions', '_sync_partitions'] };
    for (const place of [
      ...kept[sink],
      ...searched,
      ...(isLong ? ['desk.duckdb'] : []),
      'lake',
      'answer of export newsletter/list_members',
      'answer of runs --json',
      'answer of mcp get',
      'answer of mcp changes',
    ]) {
      expect(before).toContain(place);
    }

    const where = '{"like": {"email_address": "%@canary.example"}}';
    const ends = [
      await world.cli('purge', 'newsletter/lists', '--key', `id=${list}`, '--json'),
      await world.cli('purge', 'newsletter', '--where', where, '--json'),
    ];
    const printed = ends.map(({ stdout, stderr }, at) => ({
      place: `the answer of purge ${at}`,
      bytes: Buffer.from(stdout + stderr),
    }));
    expect(
      ends.map(({ code }) => code),
      ends.map(({ stderr }) => stderr).join('\n'),
    ).toEqual([0, 0]);
    const removed = ends.map((end) => JSON.stringify(jsonLines(end)[0]));
    expect(removed[1]).toContain(`"rows":${marked}`);
    expect(removed[1]).toMatch(/"quarantined":[1-9]/);
    expect(await found(printed)).toEqual(new Map());
    change();
    const again = await world.cli('sync', 'newsletter', '--full');
    const texts = [{ place: 'the answer of sync', bytes: Buffer.from(again.stdout + again.stderr) }];
    expect(again.code).toBe(0);
    expect(await found([...texts, ...(await shown(key, [...commands, ...moreCommands]))])).toEqual(new Map());
  },
);
