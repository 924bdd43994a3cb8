import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  check,
  copy,
  openApp,
  publish,
  readChanges,
  search,
  status,
  sync,
  SyncError,
  type App,
  type Config,
  type Progress,
} from '../src/library.ts';
import { openCliWorld, type CliWorld } from './support/cli-world.ts';

let world: CliWorld;
let app: App;
beforeAll(async () => {
  world = await openCliWorld({ settings: '    include: [lists]\n' });
  app = await openApp({ config: world.config, env: world.env });
});
afterAll(() => world[Symbol.asyncDispose]());

// Proves promise 19
it('syncs, reports progress, and returns what changed since the last time', async () => {
  const told: Progress[] = [];
  const results = await sync(app, { connectors: ['newsletter'], onProgress: (one) => told.push(one) });
  expect(results).toMatchObject([{ connector: 'newsletter', outcome: 'ok', error: null }]);
  const first = await changesSince(0);
  const written = told.reduce((sum, one) => sum + (one.kind === 'stored' ? one.written : 0), 0);
  expect(written).toBeGreaterThan(0);
  expect(first.changes).toHaveLength(written);
  expect(first.changes[0]).toMatchObject({ kind: 'upsert', record: { _op: 'upsert' } });
  expect((await changesSince(first.nextSeq)).changes).toEqual([]);
  expect(await status(app)).toMatchObject([
    { connector: 'newsletter', lastRun: { state: 'ok' }, entities: [{ entity: 'lists', rows: written }] },
    { connector: 'wiki', lastRun: null, entities: [] },
  ]);
});

// Proves promise 19
it('takes a config as an object, and needs no credentials to read what is stored', async () => {
  const config: Config = {
    api: { baseUrl: 'https://api.example.com', clientId: 'a', clientSecret: '${NOWHERE_SET}' },
    sinks: { main: { type: 'sqlite', path: join(world.folder, 'other.db') } },
    connectors: { news: { definition: 'email-marketing', id: 'c', sink: 'main' } },
  };
  const other = await openApp({ config, env: {} });
  expect(other.connectors).toEqual(['news']);
  await using changes = await readChanges(other, 'news/lists');
  expect(changes).toMatchObject({ sink: null, nextSeq: 0, asOf: null });
  await expect(sync(other)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
});

// Proves promise 19
it('rejects with a SyncError and its code for what does not exist', async () => {
  await expect(openApp({ config: join(world.folder, 'none.yaml') })).rejects.toBeInstanceOf(SyncError);
  await expect(openApp({ config: JSON.parse('{ "sinks": 1 }') as Config })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
  });
  await expect(sync(app, { connectors: ['nothing'] })).rejects.toMatchObject({ code: 'USAGE' });
  await expect(readChanges(app, 'newsletter/nothing')).rejects.toMatchObject({ code: 'USAGE' });
  await expect(readChanges(app, 'newsletter/lists', { since: 1e9 })).rejects.toMatchObject({ code: 'USAGE' });
});

// Proves promise 19
it('starts nothing once its signal is aborted', async () => {
  expect(await sync(app, { signal: AbortSignal.abort() })).toEqual([]);
});

// Proves promise 19
it('calls an API on this machine as fast as it states, and says so', async () => {
  const config = readFileSync(world.config, 'utf8').replace(/^ *rateLimit:.*\n/gm, '');
  const file = join(world.folder, 'no-rate.yaml');
  writeFileSync(file, config);
  const heard: Progress[] = [];
  const options = { connectors: ['newsletter'], full: true, onProgress: (one: Progress) => heard.push(one) };
  const rate = { requestsPerSecond: 1000, by: 'api' };
  expect(await sync(await openApp({ config: file, env: world.env }), options)).toMatchObject([{ rate }]);
  expect(heard).toContainEqual({ kind: 'rate', connector: 'newsletter', requestsPerSecond: 1000 });
  const [set] = await sync(app, options);
  expect(set).not.toHaveProperty('rate');
});

// Proves promise 19
it('searches, publishes, copies and checks what is stored', async () => {
  const { records, cursor } = await search(app, 'newsletter/lists', { sort: [{ id: 'asc' }], limit: 1 });
  expect(records).toHaveLength(1);
  const next = await search(app, 'newsletter/lists', { sort: [{ id: 'asc' }], cursor: cursor ?? '' });
  expect(next.records).not.toContainEqual(records[0]);
  await expect(search(app, 'newsletter/lists', { filter: { eq: { no: 1 } } })).rejects.toMatchObject({
    code: 'SEARCH_INVALID',
  });
  const text = readFileSync(world.config, 'utf8').replace(
    'sinks: {',
    'sinks: { other: { type: sqlite, path: o.db },',
  );
  const more =
    'publish: { lake: { type: files, directory: ./lake }, bad: { type: files, directory: ./sync.yaml } }\n';
  const config = join(world.folder, 'more.yaml');
  writeFileSync(config, text + more);
  const other = await openApp({ config, env: world.env });
  expect(await publish(other)).toMatchObject([
    { target: 'lake', result: 'published', publication: 1, upserts: expect.any(Number), error: null },
    { target: 'bad', result: 'failed', publication: null, error: { code: 'TARGET_INCOMPATIBLE' } },
  ]);
  expect(await publish(other, { targets: ['lake'] })).toMatchObject([{ result: 'unchanged', upserts: 0 }]);
  const copied = { from: 'main', to: 'other' };
  expect(await copy(other, copied)).toMatchObject([
    { connector: 'newsletter', state: 'copied', error: null },
  ]);
  expect(await copy(other, copied)).toMatchObject([{ connector: 'newsletter', state: 'done' }]);
  const { ok, checks } = await check(other);
  expect(ok).toBe(false);
  expect(checks.filter(({ state }) => state === 'failed').map(({ what }) => what)).toEqual([
    'copy of newsletter',
    'target bad',
  ]);
});

async function changesSince(since: number): Promise<{ nextSeq: number; changes: readonly unknown[] }> {
  await using feed = await readChanges(app, 'newsletter/lists', { since });
  const changes = [];
  for await (const change of feed) changes.push(change);
  return { nextSeq: feed.nextSeq, changes };
}
