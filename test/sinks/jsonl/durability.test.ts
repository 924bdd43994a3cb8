import type * as Fs from 'node:fs';
import { existsSync, readFileSync, truncateSync } from 'node:fs';
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
  membersTable,
  onlyPartition,
  page,
  report,
  runPlan,
  type Started,
} from '../../contracts/sink/fixture.ts';

/** `listener` is called at every fdatasync of a change file, `onName` at every other sync and at every removal. */
const synced = vi.hoisted(() => ({
  listener: (): void => undefined,
  onName: (_what: string): void => undefined,
}));

vi.mock('node:fs', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  const pathOf = new Map<number, string>();
  return {
    ...fs,
    openSync: (path: string, ...how: [number, number]): number => {
      const descriptor = fs.openSync(path, ...how);
      pathOf.set(descriptor, path);
      return descriptor;
    },
    fdatasyncSync: (descriptor: number): void => {
      fs.fdatasyncSync(descriptor);
      synced.listener();
    },
    fsyncSync: (descriptor: number): void => {
      fs.fsyncSync(descriptor);
      synced.onName(`${basename(pathOf.get(descriptor) ?? '')} synced`);
    },
    rmSync: (path: string, how: { readonly force?: boolean }): void => {
      fs.rmSync(path, how);
      synced.onName(`${basename(path)} removed`);
    },
  };
});

let folder = '';
it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(() => {
  synced.listener = () => undefined;
  synced.onName = () => undefined;
});

/** Commits two pages and finishes; gives, for every sync, how many files the ledger knew and how long they were. */
async function syncsOfARun(durability: 'full' | 'normal'): Promise<readonly string[]> {
  const clock = manualClock();
  await using sink = await openSink(
    { type: 'jsonl', name: 'lake', directory: folder, durability },
    { clock },
  );
  const started = { lease: await sink.acquire(identity()), run: 'r1' as Started['run'] };
  await sink.startRun(started.lease, runPlan(started.run));
  const { id } = await onlyPartition(sink, started.lease);
  const syncs: string[] = [];
  synced.listener = () => {
    const ledger = new Database(join(folder, '_ledger.db'), { readonly: true });
    const known =
      ledger.prepare<[], number>('SELECT count(*) FROM _sync_files WHERE length > 0').pluck().get() ?? 0;
    const rows = ledger.prepare<[], number>('SELECT count(*) FROM news__members').pluck().get() ?? 0;
    ledger.close();
    syncs.push(`${known} files, ${rows} rows`);
  };
  await sink.commit(started.lease, [page(started, id, [member('1')])]);
  await sink.commit(started.lease, [page(started, id, [member('2')])]);
  await sink.commit(started.lease, [page(started, id, [member('2')])]);
  const entities = [entityReport(members, { fetched: 3, inserted: 2, duplicate: 1 })];
  await sink.finish(started.lease, started.run, report(started, { entities }));
  return syncs;
}

it('with durability full, lines are on the disk before the ledger knows of them', async () => {
  expect(await syncsOfARun('full')).toEqual(['0 files, 0 rows', '1 files, 1 rows', '1 files, 2 rows']);
});

it('with durability normal, a file is synced only when it is closed', async () => {
  expect(await syncsOfARun('normal')).toEqual(['1 files, 2 rows']);
});

/** A run over an empty folder that ends as a power loss ends it: what was appended last has not reached the disk. */
async function deletedAndLost(lostLines: number) {
  const clock = manualClock();
  const open = () =>
    openSink({ type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' }, { clock });
  const sink = await open();
  const started = { lease: await sink.acquire(identity()), run: 'r1' as Started['run'] };
  await sink.startRun(started.lease, runPlan(started.run));
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, [member('1'), member('2'), member('3')])]);
  await sink.repair.tombstoneRecord(started.lease, started.run, members, member('1').keyText);
  await sink.repair.tombstoneRecord(started.lease, started.run, members, member('2').keyText);
  await sink[Symbol.asyncDispose]();
  const file = join(folder, 'news', 'members', '1-1.jsonl.open');
  const lines = readFileSync(file, 'utf8').split('\n');
  truncateSync(file, Buffer.byteLength(lines.slice(0, 5 - lostLines).join('\n')) + 1);
  return open();
}

const linesOf = (name: string): readonly unknown[] =>
  readFileSync(join(folder, 'news', 'members', name), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);

it('a deletion is a line with the key alone', async () => {
  await using sink = await deletedAndLost(0);
  await sink.acquire(identity());
  expect(readFileSync(join(folder, 'news', 'members', '1-1.jsonl'), 'utf8').split('\n')[3]).toBe(
    '{"list_id":"a","id":"1","_op":"delete","_seq":4,"_changed_at":"2026-03-01T10:00:00.000Z","_run_id":"r1"}',
  );
});

// Proves promise 1.4
it('deletions whose lines are lost stay deletions, and their lines are written again', async () => {
  await using sink = await deletedAndLost(1);
  await sink.acquire(identity());
  const [status] = await sink.history.connectors();
  expect(status?.entities.find(({ entity }) => entity === members)).toMatchObject({ rows: 1, deleted: 2 });
  expect(linesOf('1-1.jsonl')).toHaveLength(4);
  expect(linesOf('2-1.jsonl')).toMatchObject([{ id: '2', _op: 'delete', _seq: 5, _run_id: 'r1' }]);
});

it('of lines that are lost the newest of each key comes back, in their order', async () => {
  await using sink = await deletedAndLost(5);
  await sink.acquire(identity());
  expect(linesOf('2-1.jsonl')).toMatchObject([
    { id: '3', _op: 'upsert', _seq: 3 },
    { id: '1', _op: 'delete', _seq: 4 },
    { id: '2', _op: 'delete', _seq: 5 },
  ]);
});

it('files of dropped records that could not be removed in time go when the connector is taken again', async () => {
  await using sink = await deletedAndLost(0);
  await (await sink.acquire(identity()))[Symbol.asyncDispose]();
  const ledger = new Database(join(folder, '_ledger.db'));
  ledger.exec('UPDATE _sync_files SET is_closed = 2');
  ledger.close();
  await sink.acquire(identity());
  expect(existsSync(join(folder, 'news'))).toBe(false);
  const after = new Database(join(folder, '_ledger.db'), { readonly: true });
  expect(after.prepare('SELECT * FROM _sync_files').all()).toEqual([]);
  after.close();
});

// Proves promise 1.5
it('with durability normal, files of dropped records are removed after the commit that dropped them, and are then forgotten', async () => {
  await using sink = await deletedAndLost(0);
  await (await sink.acquire(identity()))[Symbol.asyncDispose]();
  const ledger = new Database(join(folder, '_ledger.db'), { readonly: true });
  const files = ledger.prepare<[], number>('SELECT count(*) FROM _sync_files WHERE is_closed = 2').pluck();
  const done: string[] = [];
  synced.onName = (what) => done.push(`${what}, ${files.get()} to go`);
  const scope = { entity: members, tables: [membersTable], withData: true, now: '2026-03-02T10:00:00.000Z' };
  await sink.repair.reset(identity().connector, scope);
  expect(done).toEqual([
    '_ledger.db-wal synced, 1 to go',
    '1-1.jsonl removed, 1 to go',
    '1-1.jsonl.open removed, 1 to go',
    'members synced, 1 to go',
  ]);
  expect(files.get()).toBe(0);
  ledger.close();
});
