import { randomBytes, randomUUID } from 'node:crypto';
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, onTestFinished, describe } from 'vitest';
import Database from 'better-sqlite3';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { file, openFileWorld } from '../support/file-world.ts';
import { apiError } from '../support/hostile/replies.ts';
import { openSearchFor, contentsOf } from '../support/masks/find-values.ts';
import {
  foundIn,
  marked,
  markedAccount,
  maskAll,
  maskWithout,
  maskedMembers,
  openMarks,
  type Marks,
  openClearWorld,
} from '../support/masks/marked-world.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { redisContents } from '../support/redis-contents.ts';
import { startRedis } from '../support/redis.ts';
import { newFolder, openProgram } from '../support/program.ts';
import { callCli, jsonLines } from '../support/run-cli.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong, triedSinks } from '../support/trials.ts';
import { openDirectWorld } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import type { DuckDBValue } from '@duckdb/node-api';
import { openMcpClient } from '../support/mcp-client.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { askPostgres, sharedPostgres } from '../support/postgres.ts';
import { duckdb, identifier, literal, askDuckdbFile } from '../support/publish/read-tables.ts';
import { fakeBucket, fakeKey, startFakeS3 } from '../support/publish/fake-s3.ts';

const textOf = (seen: readonly Seen[]): string => seen.map(({ text }) => text).join('\n');

/** One long list has no campaigns, and so no exploded rows and no refusal. */
const sizes: readonly SampleSize[] = isLong ? ['tiny', { members: marked }] : ['tiny'];

// Proves promise 10.5
it.each(triedSinks.flatMap((sink) => sizes.map((size) => ({ sink, size }))))(
  'stores and shows no masked value anywhere ($sink, $size)',
  { timeout: 1_200_000 },
  async ({ sink, size }) => {
    const marks = openMarks();
    await using world = await openMaskedWorld(sink, marks, maskWithout(null), { size, hasServers: true });
    const seen = await useEverything(world);
    expect(marks.values().length).toBeGreaterThan(size === 'tiny' ? 200 : 8_000);
    const found = await foundIn(world, sink, textOf(seen), marks.values());
    expect([...found]).toEqual([]);
    if (isLong) console.log(`${sink}: ${marks.values().length} values, ${found.size} found`);
  },
);

const paths = [
  ...Object.keys(maskedMembers).filter((path) => !path.startsWith('merge_fields')),
  'activity.ip',
];

it.each(isLong ? paths : ['contacts.email'])(
  'has all values of it found, and no others, where the mask leaves out %s',
  { timeout: 300_000 },
  async (left) => {
    const marks = openMarks();
    await using world = await openMaskedWorld('sqlite', marks, maskWithout(left));
    const { stdout } = await world.cli('sync', 'newsletter');
    const found = await foundIn(world, 'sqlite', stdout, marks.values());
    expect([...found.keys()].toSorted()).toEqual(marks.at(left).toSorted());
  },
);

// Proves promise 10.5
it.each(isLong ? [null, 'nickname'] : [null])(
  'lets no masked value into Redis, a log of a worker or a message (left out of the mask: %s)',
  { timeout: 300_000 },
  async (left) => {
    await using redis = await startRedis();
    await using receiver = await startReceiver();
    const marks = openMarks();
    const more = `allowNotifyHosts: ["${receiver.host}"]\nnotify:\n  ops: { type: webhook, url: "${receiver.url}" }\n`;
    await using world = await openMaskedWorld(
      'sqlite',
      marks,
      `${maskWithout(left)}    schedule: { every: 1h }\n`,
      { redisUrl: redis.url, more },
    );
    const worker = startWorkerProcess(world);
    await worker.until(({ msg }) => msg === 'published');
    await receiver.arrived(1);
    const contents = await redisContents(redis.url);
    expect(contents).toContain('newsletter');
    worker.child.kill('SIGTERM');
    await worker.ended;
    const seen = [contents, JSON.stringify(worker.lines), ...worker.stray, JSON.stringify(receiver.received)];
    expect(receiver.bodies()).toMatchObject([{ kind: 'incomplete', connector: 'newsletter' }]);
    // No record goes there, whatever is masked: a value that is not masked is in the sink alone.
    const search = openSearchFor(marks.values());
    expect([...search(Buffer.from(seen.join('\n')))]).toEqual([]);
    const found = await foundIn(world, 'sqlite', '', marks.values());
    expect([...found.keys()].toSorted()).toEqual(left === null ? [] : marks.at(left).toSorted());
  },
);

const key = `mask: { key: "${randomBytes(32).toString('base64')}" }\n`;

// Proves promise 10.5
it.each(isLong ? [null, 'nickname', 'email_address', 'activity.ip'] : [null])(
  'stores and shows no masked value of a service that is read directly (left out of the mask: %s)',
  { timeout: 240_000 },
  async (left) => {
    const marks = openMarks();
    const service = await mailchimpWorld({ as: 'own-mailing', wrap: markedAccount(marks) });
    onTestFinished(() => service[Symbol.asyncDispose]());
    await using world = openDirectWorld(service, { settings: maskWithout(left), more: key });
    const printed: string[] = [];
    const run = async (...args: readonly string[]): Promise<string> => {
      const { code, stdout, stderr } = await world.cli(...args);
      printed.push(`${args.join(' ')}: ${code}`, stdout, stderr);
      return stdout;
    };
    await run('sync', 'mine', '--max-calls', '4', '--verbose');
    await run('sync', 'mine', '--verbose');
    service.moveTo(2);
    await run('sync', 'mine', '--full', '--allow-deletes', '--json');
    const members = await run('export', 'mine/list_members');
    const list = /"list_id":"([^"]+)"/.exec(members)?.[1] ?? '';
    const id = /"id":"([^"]+)"/.exec(members)?.[1] ?? '';
    const ofList = ['--param', `list_id=${list}`];
    await run('list', 'mine/list_members', ...ofList);
    await run('get', 'mine/list_members', ...ofList, '--param', `subscriber_hash=${id}`);
    await run('explain', 'mine/list_members', '--key', `list_id=${list}`, '--key', `id=${id}`, '--json');
    await run('refetch', 'mine/list_members', '--key', `list_id=${list}`, '--key', `id=${id}`);
    const tried = ['try', 'own-mailing', 'list_members', ...ofList, '--connector', 'mine'];
    await run('definitions', ...tried, '--verbose');
    await run('status', '--json', '--verbose');
    expect(printed.join('\n')).toContain('the entity has a mask');
    expect(marks.values().length).toBeGreaterThan(100);
    const found = await foundIn(world, 'sqlite', printed.join('\n'), marks.values());
    expect([...found.keys()].toSorted()).toEqual(left === null ? [] : marks.at(left).toSorted());
  },
);

/** A library with two files and one whose download is refused, in words with its name. */
async function openNamedFiles() {
  const service = await openFileWorld();
  onTestFinished(() => service[Symbol.asyncDispose]());
  const marks = openMarks();
  const name = (): string => `${marks.value('name', 'email').split('.')[0] ?? ''}.txt`;
  service.files.set('a1', file('one', { name: name() }));
  service.files.set('a2', file('two', { name: name() }));
  const refused = name();
  service.files.set(
    'a3',
    file('three', { name: refused, reply: () => apiError(400, `${refused} is locked`) }),
  );
  const names = [...service.files.values()].map((one) => one.name.replace('.txt', ''));
  const folder = mkdtempSync(join(tmpdir(), 'masked-files-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = join(folder, 'sync.yaml');
  const { clientId, clientSecret } = testCredentials;
  const printed: string[] = [];
  return {
    service,
    names,
    stored: join(folder, 'files', 'library', 'attachments'),
    /** The rule for names of files; null: there is no mask. */
    mask: (rule: string | null) => {
      const mask = `    mask: { attachments: { fields: { file_name: ${rule} } } }\n`;
      writeFileSync(
        config,
        `api: { baseUrl: "${service.server.baseUrl}", clientId: ${clientId}, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  library:
    definition: document-library
    id: c1
    sink: main
    downloads: { directory: ./files }
${rule === null ? '' : mask}${key}`,
      );
    },
    run: async (...args: readonly string[]) => {
      const env = { SECRET: clientSecret };
      const ended = await callCli([...args, '--config', config], { cwd: folder, env });
      printed.push(ended.stdout, ended.stderr);
      return ended;
    },
    /** Names that are in a file, in the name of one, or (`isShown`) in what was printed. */
    found: async ({ isShown }: { readonly isShown: boolean }) => {
      const text = isShown ? printed.join('\n') : '';
      return [...(await foundIn({ folder }, 'sqlite', text, names)).keys()].toSorted();
    },
  };
}

// Proves promise 10.5
it.each(['hash', 'drop', '{ truncate: 1 }', 'keep'])(
  'gives downloaded files no masked name, and shows none where a download fails (%s)',
  { timeout: 60_000 },
  async (rule) => {
    const { service, names, mask, run, found } = await openNamedFiles();
    mask(rule);
    expect((await run('sync', 'library', '--verbose')).stdout).toContain('attachments');
    await run('status', '--json');
    expect(await found({ isShown: true })).toEqual(rule === 'keep' ? names.toSorted() : []);
    expect(service.asked().length).toBeGreaterThan(2);
  },
);

// Proves promise 10.6
it.each(['hash', 'drop'])(
  'gives files that were downloaded before a mask names as it has them (%s)',
  { timeout: 60_000 },
  async (rule) => {
    const { service, names, stored, mask, run, found } = await openNamedFiles();
    mask(null);
    await run('sync', 'library');
    service.files.delete('a1');
    await run('sync', 'library', '--full', '--allow-deletes');
    mask(rule);
    await run('sync', 'library');
    expect(await found({ isShown: false })).toContain(names[0]);
    expect((await run('purge', 'library', '--unmasked')).code).toBe(0);
    expect(await found({ isShown: false })).toEqual([]);
    const texts = readdirSync(stored).map((name) => readFileSync(join(stored, name), 'utf8'));
    expect(texts.toSorted()).toEqual(['one', 'two']);
  },
);

const mask = (rule: string): string =>
  `    mask: { list_members: { fields: { email_address: ${rule}, ip_signup: { truncate: 3 } } } }\n`;

/** Puts the masks into the config; null: none. */
function setMask(world: CliWorld, rule: string | null, key: string): void {
  const [config = ''] = readFileSync(world.config, 'utf8').split('\nmask:');
  const without = config.replace(/^ {4}mask: .*\n/m, '');
  const text = rule === null ? without : without.replace('  wiki:\n', `${mask(rule)}  wiki:\n`);
  writeFileSync(world.config, `${text}\nmask: { key: "${key}" }\n`);
}

const newKey = (): string => randomBytes(32).toString('base64');

function addresses(world: CliWorld, where: string): readonly string[] {
  const db = new Database(join(world.folder, 'main.db'), { readonly: true });
  try {
    const sql = `SELECT email_address FROM newsletter__list_members WHERE ${where}`;
    return db.prepare<[], string>(sql).pluck().all();
  } finally {
    db.close();
  }
}

/** What `status` says about masks. */
async function maskLines(world: Program): Promise<string> {
  const { stdout } = await world.cli('status', 'newsletter');
  const lines = stdout.replaceAll(/\n {4,}/g, ' ').split('\n');
  return lines.filter((line) => line.includes('mask of')).join('\n');
}

// Proves promise 10.5
it('reads in full and rewrites what it masks in another way than before, and says what is as before', async () => {
  await using world = await openCliWorld({
    settings: '    include: [lists, list_members, tags, segments]\n',
  });
  const key = newKey();
  setMask(world, null, key);
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  world.moveTo(3);
  expect((await world.cli('sync', 'newsletter', '--full', '--allow-deletes')).code).toBe(0);
  const deleted = addresses(world, '_deleted_at IS NOT NULL');
  expect(deleted.length).toBeGreaterThan(0);
  expect(await maskLines(world)).toBe('');

  setMask(world, '{ hash: { as: email } }', key);
  const open = '! mask of newsletter/list_members: id is stored in clear and gives email_address away';
  expect((await world.cli('check')).stdout).toContain(open);
  expect(await maskLines(world)).toContain('not in use yet, all that is stored is as before');
  expect((await world.cli('sync', 'newsletter', '--max-calls', '2')).code).toBe(0);
  expect(await maskLines(world)).toContain('rows that no read has reached since are as before');
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const hashed = addresses(world, '_deleted_at IS NULL');
  expect(hashed.every((address) => /^hmac-[0-9a-f]{8}-[0-9a-f]{64}$/.test(address))).toBe(true);
  expect(addresses(world, '_deleted_at IS NOT NULL')).toEqual(deleted);
  expect(await maskLines(world)).toContain(`deleted rows (of ${deleted.length} those deleted before)`);

  const [again = {}] = await world.json('sync', 'newsletter').then((lines) => lines.slice(-1));
  expect(JSON.stringify(again)).not.toContain('"updated":1');
  expect(addresses(world, '_deleted_at IS NULL')).toEqual(hashed);

  // Another key: all hashes are others, and say so.
  setMask(world, '{ hash: { as: email } }', newKey());
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const rotated = addresses(world, '_deleted_at IS NULL');
  expect(new Set([...rotated, ...hashed]).size).toBe(new Set(hashed).size * 2);
  expect(rotated[0]?.slice(0, 14)).not.toBe(hashed[0]?.slice(0, 14));

  setMask(world, 'drop', key);
  expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  expect(addresses(world, '_deleted_at IS NULL').filter((address) => address !== null)).toEqual([]);
});

// Proves promise 10.5
it('shows tokens of pages of a masked entity sealed, and takes them back', async () => {
  await using world = await openCliWorld();
  const list = ['list', 'wiki/users', '--param', 'page_size=2'];
  const nextToken = async (): Promise<string> => {
    const [shown] = (await world.json(...list)) as readonly { readonly next: { readonly token: string } }[];
    return shown?.next.token ?? '';
  };
  const clear = await nextToken();
  const config = readFileSync(world.config, 'utf8');
  const masked = config.replace(
    'id: c-wiki\n',
    'id: c-wiki\n    mask: { users: { fields: { name: drop } } }\n',
  );
  writeFileSync(world.config, `${masked}mask: { key: "${newKey()}" }\n`);
  const token = await nextToken();
  expect(token).toMatch(/^sealed:/);
  const ids = async (given: string): Promise<readonly unknown[]> => {
    const [page] = await world.json(...list, '--param', `start_cursor=${given}`);
    return ((page?.['records'] ?? []) as readonly { readonly id: string }[]).map(({ id }) => id);
  };
  expect(await ids(token)).toEqual(await ids(clear));
  const tried = await world.cli(
    'definitions',
    'try',
    'workspace-notes',
    'users',
    '--connector',
    'wiki',
    '--json',
  );
  const printed = [await world.cli(...list), await world.cli(...list, '--json'), tried];
  for (const { stdout, stderr } of printed) expect(stdout + stderr).not.toContain(clear);
  const other = await world.cli(...list, '--param', `start_cursor=${token.slice(0, -8)}AAAAAAA=`);
  expect(other).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('begin with the first page') as string,
  });
});

type Program = Pick<CliWorld, 'cli'>;

const keyed = { segment_members: 'id', email_activity: 'email_id', unsubscribes: 'email_id' } as const;
/** How many live and deleted records there are of each entity with a hashed key, and how many keys are hashes. */
async function recordsOf(world: Program) {
  const found = Object.entries(keyed).map(async ([entity, field]) => {
    const lines = jsonLines(await world.cli('export', `newsletter/${entity}`));
    const deleted = lines.filter((line) => line['_op'] === 'delete').length;
    const hashed = lines.filter((line) => String(line[field]).startsWith('hmac-')).length;
    return [entity, { live: lines.length - deleted, deleted, hashed }] as const;
  });
  return Object.fromEntries(await Promise.all(found));
}

const lake = `publish:\n  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }\n`;
let cleared: ReturnType<typeof openClearWorld> | null = null;

afterAll(async () => await (await cleared)?.[Symbol.asyncDispose]());

/** A clear world with few members, which publishes: of a SQLite sink a copy of one that was filled once. */
async function openClear(sink: SinkKind) {
  if (sink !== 'sqlite') return await openClearWorld(sink, { more: lake, size: 'tiny' });
  const { world, ...clear } = await (cleared ??= openClearWorld(sink, { more: lake, size: 'tiny' }));
  const folder = newFolder();
  cpSync(world.folder, folder, { recursive: true });
  const copy = openProgram(readFileSync(world.config, 'utf8'), { env: world.env, folder });
  return { ...clear, world: copy, [Symbol.asyncDispose]: () => copy[Symbol.asyncDispose]() };
}

// Proves promise 10.8
it.each(triedSinks)(
  'a sync into a %s sink refuses a mask of a key until what is stored in clear was counted, and removed',
  { timeout: 300_000 },
  async (sink) => {
    await using clear = await openClear(sink);
    const { world } = clear;
    await world.cli('sync', 'newsletter', '--full', '--allow-deletes');
    const before = await recordsOf(world);
    expect(before['segment_members']?.deleted).toBeGreaterThan(0);

    maskAll(world);
    const advice = expect.stringContaining('purge newsletter --unmasked') as string;
    expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 2, stderr: advice });
    const unsure = await world.cli('purge', 'newsletter', '--unmasked', '--json');
    expect(unsure.code).toBe(2);
    const removed = expect.arrayContaining(
      Object.entries(before).map(([entity, { live, deleted }]): unknown =>
        expect.objectContaining({ entity, rows: live + deleted, deleted }),
      ),
    ) as unknown;
    expect(jsonLines(unsure)).toMatchObject([{ isDone: false, removed }]);
    expect(await recordsOf(world)).toEqual(before);

    const sure = await world.cli('purge', 'newsletter', '--unmasked', '--yes', '--json');
    expect(jsonLines(sure)).toMatchObject([{ isDone: true, removed, left: [] }]);
    await world.cli('sync', 'newsletter');
    const after = await recordsOf(world);
    for (const [entity, { live }] of Object.entries(before)) {
      const now = after[entity];
      expect(now, entity).toMatchObject({ deleted: 0, hashed: now?.live });
      // The service refuses one of the campaigns, and has another no longer: what no read brings is not stored again.
      if (entity === 'segment_members') expect(now?.live).toBe(live);
      else expect(now?.live, entity).toSatisfy((rows: number) => rows > 0 && rows < live);
    }
    const status = await world.cli('status', 'newsletter');
    expect(status.stdout).not.toContain('look deleted');
    await world.json('purge', 'newsletter', '--unmasked');
    expect(await recordsOf(world)).toEqual(after);
    expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    if (sink !== 'jsonl') return;
    const lines = [...contentsOf(world.folder)]
      .filter(({ place }) => /^\/.*main.*segment_members.*\.jsonl$/.test(place))
      .flatMap(({ bytes }) => bytes.toString().trim().split('\n'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toHaveLength(before['segment_members']?.live ?? 0);
    expect(lines.filter((line) => !String(line['id']).startsWith('hmac-'))).toEqual([]);
  },
);

async function openNewsletter() {
  const world = await openCliWorld({
    settings: '    include: [lists, list_members, segments, segment_members]\n',
  });
  const keyOf = (): string => `mask: { key: "${randomBytes(32).toString('base64')}" }\n`;
  appendFileSync(world.config, keyOf());
  const edit = (change: (config: string) => string): void =>
    writeFileSync(world.config, change(readFileSync(world.config, 'utf8')));
  const mask = `    mask: { segment_members: { fields: { id: hash } }, list_members: { fields: { id: keep } } }\n`;
  return {
    world,
    mask: () => edit((config) => config.replace('  wiki:\n', `${mask}  wiki:\n`)),
    unmask: () => edit((config) => config.replace(mask, '')),
    hashAs: (before: string, after: string) =>
      edit((config) =>
        config.replace(
          `segment_members: { fields: { id: ${before} `,
          `segment_members: { fields: { id: ${after} `,
        ),
      ),
    otherKey: () => edit((config) => config.replace(/^mask: .*\n/m, keyOf())),
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

// Proves promise 10.8
it('a sync refuses keys that are hashes of another key, another rule or a mask that is gone, until they are dropped', async () => {
  await using newsletter = await openNewsletter();
  const { world } = newsletter;
  newsletter.mask();
  await world.json('sync', 'newsletter');
  const refused = (why: string) => ({ code: 2, stderr: expect.stringContaining(why) as string });
  newsletter.hashAs('hash', '{ hash: { as: email } }');
  expect(await world.cli('sync', 'newsletter')).toMatchObject(refused('another rule'));
  newsletter.hashAs('{ hash: { as: email } }', 'hash');
  await world.json('sync', 'newsletter');
  newsletter.otherKey();
  expect(await world.cli('sync', 'newsletter')).toMatchObject(refused('as hashes of another mask.key'));
  newsletter.unmask();
  expect(await world.cli('sync', 'newsletter')).toMatchObject(refused('id is stored as hashes'));
  await world.json('reset', 'newsletter/segment_members', '--data', '--yes');
  expect((await world.json('sync', 'newsletter')).at(-1)).toMatchObject({ report: { outcome: 'ok' } });
});

// Proves promise 10.8
it('a sync refuses a mask of a key of which records were purged: they would be stored again', async () => {
  await using newsletter = await openNewsletter();
  const { world } = newsletter;
  await world.json('sync', 'newsletter');
  const [first] = jsonLines(await world.cli('export', 'newsletter/segment_members'));
  const key = ['segment_id', 'id'].flatMap((name) => ['--key', `${name}=${String(first?.[name])}`]);
  await world.json('purge', 'newsletter/segment_members', ...key);
  newsletter.mask();
  const stderr = expect.stringContaining('1 of its records were purged') as string;
  expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 2, stderr });
  expect(await world.cli('purge', 'newsletter', '--unmasked', '--yes')).toMatchObject({ code: 2, stderr });
  newsletter.unmask();
  await world.json('sync', 'newsletter', '--full');
  const stored = jsonLines(await world.cli('export', 'newsletter/segment_members'));
  expect(stored.map(({ id, segment_id }) => [segment_id, id])).not.toContainEqual([
    first?.['segment_id'],
    first?.['id'],
  ]);
});

describe('values from before', () => {
  // Proves promise 10.6
  it.each(triedSinks)(
    'rewrites all that a %s sink holds from before a mask, where no read reaches it',
    { timeout: 300_000 },
    async (sink) => {
      // Few members: three records in quarantine are then too many, and the read under the mask ends early.
      await using clear = await openClear(sink);
      const { world, marks } = clear;
      const find = async (): Promise<readonly string[]> => {
        const found = await foundIn(world, sink, '', marks.values(), { isPurged: true });
        return [...found].map(([value, place]) => `${value} in ${place}`);
      };
      expect((await find()).length).toBeGreaterThan(200);

      maskAll(world);
      await world.cli('purge', 'newsletter', '--unmasked', '--yes');
      const early = await world.cli('purge', 'newsletter', '--unmasked');
      expect(early).toMatchObject({ code: 2, stderr: expect.stringContaining('not in use yet') as string });
      expect((await world.cli('sync', 'newsletter', '--allow-deletes')).code).toBe(3);
      expect(await maskLines(world)).toContain('are as before');
      expect((await find()).length).toBeGreaterThan(0);

      const [look] = await world.json('purge', 'newsletter', '--unmasked', '--dry-run');
      const entities = look?.['entities'] as readonly Record<string, unknown>[];
      const members = entities.find(({ entity }) => entity === 'list_members') ?? {};
      for (const count of ['rows', 'quarantined', sink === 'jsonl' ? 'lines' : 'versions']) {
        expect(members[count], count).toBeGreaterThan(0);
      }
      expect((await find()).length).toBeGreaterThan(0);
      const [done] = await world.json('purge', 'newsletter', '--unmasked');
      expect(done).toMatchObject({ entities, left: [], targets: [{ target: 'lake', problem: null }] });
      expect(await find()).toEqual([]);
      expect(await maskLines(world)).toBe('');

      // What was rewritten is as a read would have stored it.
      const { stdout } = await world.cli('sync', 'newsletter', '--full', '--allow-deletes', '--json');
      const counts = stdout
        .trim()
        .split('\n')
        .flatMap((line) => /"entity":"list_members","counts":({[^}]*})/.exec(line)?.[1] ?? []);
      expect(counts.at(-1)).toContain('"updated":0');
      expect(await find()).toEqual([]);
      expect(await world.json('publish', 'check', 'lake')).toMatchObject([{ problems: [] }]);
    },
  );

  // Proves promise 10.6
  it('leaves no byte of what reads under a mask have written over, and names elements that none replaces', async () => {
    await using world = await openCliWorld({ isWhole: true });
    await world.json('sync', 'newsletter');
    const rows = jsonLines(await world.cli('export', 'newsletter/email_activity'));
    const addresses = [...new Set(rows.map((row) => String(row['email_address'])))];
    // Ids are hashes of addresses, which no mask covers here.
    const find = (): readonly string[] =>
      [...contentsOf(world.folder)].flatMap(({ bytes }) => addresses.filter((one) => bytes.includes(one)));
    const hashed = '{ fields: { email_address: hash } }';
    const mask = (entities: readonly string[]): void => {
      const config = readFileSync(world.config, 'utf8').replace(/ {4}mask:\n(?: {6}.*\n)+/, '');
      const lines = entities.map((entity) => `      ${entity}: ${hashed}\n`).join('');
      writeFileSync(world.config, config.replace('  wiki:\n', `    mask:\n${lines}  wiki:\n`));
    };
    appendFileSync(world.config, `mask: { key: "${randomBytes(32).toString('base64')}" }\n`);
    mask(['email_activity']);
    await world.json('sync', 'newsletter');
    expect(await maskLines(world)).toContain('rows of email_activity_events');
    await world.json('purge', 'newsletter', '--unmasked');
    expect(await maskLines(world)).toBe('');

    mask(['email_activity', 'list_members', 'segment_members', 'unsubscribes']);
    await world.json('sync', 'newsletter');
    expect(find()).not.toEqual([]);
    const [end] = await world.json('purge', 'newsletter', '--unmasked');
    expect(end).toMatchObject({ entities: [{ rows: 0 }, { rows: 0 }, { rows: 0 }], texts: 0, left: [] });
    expect(find()).toEqual([]);
  });
});

type SinkKind = (typeof triedSinks)[number];

/** Something that was stored or shown. */
interface Seen {
  readonly place: string;
  readonly text: string;
}

interface MaskedWorldOptions {
  readonly redisUrl?: string;
  /** More of the config. */
  readonly more?: string;
  readonly size?: SampleSize;
  /** Published into a bucket and a PostgreSQL, too. */
  readonly hasServers?: boolean;
}

type MaskedWorld = Awaited<ReturnType<typeof openMaskedWorld>>;

/** The marked account below a mask (YAML of the connector), and a target of each kind. */
async function openMaskedWorld(
  sink: SinkKind,
  marks: Marks,
  mask: string,
  { redisUrl, more = '', size = 'tiny', hasServers = false }: MaskedWorldOptions = {},
) {
  const world = await openCliWorld({
    sink,
    size,
    ...(redisUrl === undefined ? {} : { redisUrl }),
    isWhole: true,
    wrap: markedAccount(marks),
    settings: `${sink === 'jsonl' ? '' : '    history: true\n'}${mask}`,
  });
  const bucket = hasServers ? await startFakeS3() : null;
  const schema = `mart_${randomUUID().replaceAll('-', '')}`;
  const martUrl = hasServers ? (await sharedPostgres()).url : null;
  const { accessKeyId, secretAccessKey } = fakeKey;
  const s3 = { type: 's3', bucket: fakeBucket, endpoint: bucket?.endpoint, accessKeyId, secretAccessKey };
  const byHand = 'connectors: [newsletter], when: by-hand }';
  const servers = `  bucket: ${JSON.stringify({ ...s3, format: 'jsonl', connectors: ['newsletter'], when: 'by-hand' })}
  mart: { type: postgres, url: "${martUrl}", schema: ${schema}, ${byHand}
`;
  const other = ', other: { type: sqlite, path: ./other.db, durability: normal } }';
  writeFileSync(world.config, readFileSync(world.config, 'utf8').replace(/^(sinks: .*) \}$/m, `$1${other}`));
  appendFileSync(
    world.config,
    `mask: { key: "${randomBytes(32).toString('base64')}" }
${more}publish:
  lake: { type: files, directory: ./lake, format: jsonl, connectors: [newsletter] }
  sheets: { type: files, directory: ./sheets, format: csv, ${byHand}
  columns: { type: files, directory: ./columns, format: parquet, ${byHand}
  desk: { type: duckdb, path: ./desk.duckdb, ${byHand}
${hasServers ? servers : ''}`,
  );
  return {
    ...world,
    sink,
    targets: ['lake', 'sheets', 'columns', 'desk', ...(hasServers ? ['bucket', 'mart'] : [])],
    bucket,
    mart: martUrl === null ? null : { url: martUrl, schema },
    [Symbol.asyncDispose]: async () => {
      await bucket?.[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    },
  };
}

/** Runs everything that stores or shows records; gives all that was shown, and what compressed places hold. */
async function useEverything(world: MaskedWorld): Promise<readonly Seen[]> {
  const seen: Seen[] = [];
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await world.cli(...args);
    const place = args[0] === 'definitions' ? 'definitions try' : String(args[0]);
    seen.push({ place, text: `${args.join(' ')}: ${code}\n${stdout}\n${stderr}` });
    return stdout;
  };
  await run('sync', 'newsletter', '--max-calls', '4', '--verbose');
  await run('sync', 'newsletter', '--verbose');
  world.moveTo(3);
  const deleting = await run('sync', 'newsletter', '--full', '--allow-deletes', '--json');
  const entity = 'newsletter/list_members';
  const members = await run('export', entity);
  const list = /"list_id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const id = /"id":"([^"]+)"/.exec(members)?.[1] ?? '';
  const key = ['--key', `list_id=${list}`, '--key', `id=${id}`];
  const ofList = ['--param', `list_id=${list}`];
  await run('explain', entity, ...key, '--json');
  await run('list', entity, ...ofList);
  await run('get', entity, ...ofList, '--param', `subscriber_hash=${id}`);
  await run('search', entity, '--json');
  await run('search', entity, '--filter', '{"like": {"email_address": "%a%"}}', '--json');
  await run('audit', entity, '--json');
  const tried = ['try', 'email-marketing', 'list_members', ...ofList, '--connector', 'newsletter', '--json'];
  await run('definitions', ...tried);
  await run('status', '--json', '--verbose');
  await run('runs', '--json');
  await run('check', '--json');
  for (const target of world.targets) await run('publish', target, '--json');
  await run('schema', 'diff', 'newsletter');
  await run('refetch', entity, ...key);
  const [, deletingRun = ''] = /"run":"([^"]+)"[^\n]*"outcome"/.exec(deleting) ?? [];
  await run('undo', 'newsletter', '--run', deletingRun, '--json');
  await run('purge', 'newsletter', '--unmasked', '--dry-run');
  seen.push({ place: 'pages', text: await pagesOf(world, { list_id: list, id }) });
  seen.push({ place: 'mcp', text: await agentAnswers(world, { list_id: list, id }) });
  await run('copy', '--from', 'main', '--to', 'other', 'newsletter', '--json');
  return [...seen, ...(await compressedRows(world.folder)), ...(await rowsOfServers(world))];
}

/** What compressed files of targets hold: their bytes say nothing. */
async function compressedRows(folder: string): Promise<readonly Seen[]> {
  const parquet = readdirSync(join(folder, 'columns'), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.parquet'),
  );
  expect(parquet.length).toBeGreaterThan(0);
  const seen: Seen[] = [];
  const add = (place: string, rows: readonly Readonly<Record<string, DuckDBValue>>[]): void =>
    void seen.push({ place, text: rows.flatMap((row) => Object.values(row).map(String)).join('\n') });
  for (const name of parquet) {
    const file = literal(join(folder, 'columns', name));
    add('rows of columns', await duckdb(`SELECT * FROM read_parquet(${file})`));
  }
  const desk = join(folder, 'desk.duckdb');
  const tablesSql = 'SELECT table_schema AS s, table_name AS t FROM information_schema.tables';
  const tables = await askDuckdbFile(desk, tablesSql);
  expect(tables.length).toBeGreaterThan(0);
  for (const { s, t } of tables) {
    const table = `${identifier(String(s))}.${identifier(String(t))}`;
    add('rows of desk', await askDuckdbFile(desk, `SELECT * FROM ${table}`));
  }
  return seen;
}

/** What a bucket and a PostgreSQL target have got. */
async function rowsOfServers({ bucket, mart }: MaskedWorld): Promise<readonly Seen[]> {
  if (bucket === null || mart === null) return [];
  expect(bucket.objects.size).toBeGreaterThan(0);
  const objects = [...bucket.objects].map(([key, { body }]) => `${key} ${body.toString('latin1')}`);
  const requests = bucket.requests.map((request) => JSON.stringify([request.key, request.headers]));
  const tables = await askPostgres(
    mart.url,
    `SELECT oid::regclass::text AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = '${mart.schema}'::regnamespace`,
  );
  expect(tables.length).toBeGreaterThan(0);
  const rows: string[] = [];
  for (const { name } of tables) {
    const found = await askPostgres(mart.url, `SELECT to_json(t)::text AS row FROM ${String(name)} AS t`);
    rows.push(...found.map(({ row }) => String(row)));
  }
  return [
    { place: 'bucket', text: Buffer.from([...objects, ...requests].join('\n'), 'latin1').toString('utf8') },
    { place: 'rows of mart', text: rows.join('\n') },
  ];
}

/** Answers of the pages about the connector, its runs and a record. */
async function pagesOf(world: CliWorld, key: Readonly<Record<string, string>>): Promise<string> {
  await using ui = await serveUi({ config: world.config, env: world.env });
  const start = await ui.get('/');
  const links = new Set(['/connectors/newsletter', ...hrefsOf(start.body)]);
  const bodies = [start.body];
  for (const link of links) {
    const { body } = await ui.get(link);
    bodies.push(body);
    for (const inner of hrefsOf(body)) if (links.size < 40) links.add(inner);
  }
  expect(bodies.join('\n')).toContain('list_members');
  const query = Object.entries(key).map(([name, value]) => `key.${name}=${value}`);
  const record = await ui.get(`/data/newsletter/list_members?${query.join('&')}`);
  expect(record.body).toContain(key['id'] ?? '-');
  return [...bodies, record.body].join('\n');
}

function hrefsOf(body: string): readonly string[] {
  return [...body.matchAll(/href="(\/[^"#]*)"/g)].flatMap(([, href = '']) =>
    href.includes('.css') || href.includes('.js') ? [] : [href.replaceAll('&amp;', '&')],
  );
}

/** What agents are answered, and what their server logs. */
async function agentAnswers(world: MaskedWorld, key: Readonly<Record<string, string>>): Promise<string> {
  await using mcp = await openMcpClient(world);
  const entity = 'newsletter/list_members';
  // Lines cannot be searched.
  const search = async (asked: Record<string, unknown>): Promise<unknown> =>
    await (world.sink === 'jsonl' ? mcp.refusal('search', asked) : mcp.call('search', asked));
  const answers = [
    await mcp.call('list_entities'),
    await mcp.call('list_entities', { name: entity }),
    await search({ entity, limit: 20 }),
    await search({ entity: 'newsletter/email_activity', limit: 20 }),
    await mcp.call('get', { entity, key }),
    await mcp.call('explain', { entity, key }),
    await mcp.call('changes', { entity, since: 0, limit: 20 }),
    await mcp.call('freshness', { connector: 'newsletter' }),
    await mcp.refusal('get', { entity, key: { id: 'none' } }),
  ];
  return JSON.stringify([answers, mcp.logged()]);
}
