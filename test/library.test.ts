import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openApp, readChanges, status, sync, SyncError, type App, type Progress } from '../src/library.ts';
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
  const config = {
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
  await expect(openApp({ config: { sinks: 1 } })).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  await expect(sync(app, { connectors: ['nothing'] })).rejects.toMatchObject({ code: 'USAGE' });
  await expect(readChanges(app, 'newsletter/nothing')).rejects.toMatchObject({ code: 'USAGE' });
  await expect(readChanges(app, 'newsletter/lists', { since: 1e9 })).rejects.toMatchObject({ code: 'USAGE' });
});

// Proves promise 19
it('starts nothing once its signal is aborted', async () => {
  expect(await sync(app, { signal: AbortSignal.abort() })).toEqual([]);
});

async function changesSince(since: number): Promise<{ nextSeq: number; changes: readonly unknown[] }> {
  await using feed = await readChanges(app, 'newsletter/lists', { since });
  const changes = [];
  for await (const change of feed) changes.push(change);
  return { nextSeq: feed.nextSeq, changes };
}
