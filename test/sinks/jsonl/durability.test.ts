import type * as Fs from 'node:fs';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, vi } from 'vitest';
import { it } from '../../support/it.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import {
  entityReport,
  identity,
  manualClock,
  member,
  members,
  onlyPartition,
  page,
  report,
  runPlan,
  type Started,
} from '../../contracts/sink/fixture.ts';

/** Called after every sync, rename and removal that does not go through the threads of Node.js. */
const seen = vi.hoisted(() => ({ listener: (_what: string): void => undefined }));

vi.mock('node:fs', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  const pathOf = new Map<number, string>();
  const nameOf = (path: string): string => path.split('/').at(-1) ?? '';
  return {
    ...fs,
    openSync: (path: string, ...how: [number, number]): number => {
      const descriptor = fs.openSync(path, ...how);
      pathOf.set(descriptor, path);
      return descriptor;
    },
    fsyncSync: (descriptor: number): void => {
      fs.fsyncSync(descriptor);
      seen.listener(`${nameOf(pathOf.get(descriptor) ?? '')} synced`);
    },
    renameSync: (from: string, to: string): void => {
      fs.renameSync(from, to);
      seen.listener(`${nameOf(from)} renamed`);
    },
    rmSync: (path: string, how: { readonly force?: boolean }): void => {
      fs.rmSync(path, how);
      seen.listener(`${nameOf(path)} removed`);
    },
  };
});

let folder = '';
it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(() => {
  seen.listener = () => undefined;
});

const name = '000000000001.jsonl';

/** A run that stores two records. What is called between their commits and the end of the run is noted. */
async function run(between: () => Promise<void>) {
  const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
  await using sink = await openSink(options, { clock: manualClock() });
  const started = { lease: await sink.acquire(identity()), run: 'r1' as Started['run'] };
  await sink.startRun(started.lease, runPlan(started.run));
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, [member('1'), member('2')])]);
  await between();
  const entities = [entityReport(members, { fetched: 2, inserted: 2 })];
  await sink.finish(started.lease, started.run, report(started, { entities }));
  await started.lease[Symbol.asyncDispose]();
  return sink;
}

// Proves promise 1.4
it('a file is listed by a commit that is on the disk before it gets its name', async () => {
  const steps: string[] = [];
  await run(async () => {
    seen.listener = (what) => {
      const ledger = new Database(join(folder, '_ledger.db'), { readonly: true });
      const listed = ledger.prepare<[], number>('SELECT count(*) FROM _sync_files').pluck().get() ?? 0;
      ledger.close();
      steps.push(`${what}, ${listed} listed`);
    };
    return Promise.resolve();
  });
  expect(steps.slice(steps.indexOf('_ledger.db-wal synced, 1 listed'))).toEqual([
    '_ledger.db-wal synced, 1 listed',
    `${name}.next renamed, 1 listed`,
    'members synced, 1 listed',
  ]);
});

// Proves promise 1.5
it('files of dropped records go when the commit that drops them is on the disk', async () => {
  await run(() => Promise.resolve());
  const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
  await using sink = await openSink(options, { clock: manualClock() });
  const steps: string[] = [];
  seen.listener = (what) => void steps.push(what);
  const scope = { entity: members, tables: [], withData: true, now: '2026-03-02T10:00:00.000Z' };
  await sink.repair.reset(identity().connector, scope);
  expect(steps).toEqual(['_ledger.db-wal synced', `${name} removed`, 'members synced', 'news synced']);
  const ledger = new Database(join(folder, '_ledger.db'), { readonly: true });
  expect(ledger.prepare('SELECT * FROM _sync_files').all()).toEqual([]);
  ledger.close();
  expect(readdirSync(folder).map((one) => basename(one))).not.toContain('news');
});
