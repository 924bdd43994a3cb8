import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { file, openFileWorld } from '../support/file-world.ts';
import { apiError } from '../support/hostile/replies.ts';
import { openSearchFor } from '../support/masks/find-values.ts';
import {
  foundIn,
  marked,
  markedAccount,
  maskWithout,
  maskedMembers,
  openMarks,
} from '../support/masks/marked-world.ts';
import { openMaskedWorld, useEverything, type Seen } from '../support/masks/masked-world.ts';
import { startReceiver } from '../support/notify/receiver.ts';
import { redisContents } from '../support/redis-contents.ts';
import { startRedis } from '../support/redis.ts';
import { callCli } from '../support/run-cli.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong, triedSinks } from '../support/trials.ts';
import { openDirectWorld } from '../support/upstream/direct-world.ts';
import { mailchimpWorld } from '../support/upstream/upstream-world.ts';
import { startWorkerProcess } from '../support/worker-process.ts';

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
it.each(isLong ? [null, 'nickname', 'email_address', 'activity.ip'] : [null, 'contacts.email'])(
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
