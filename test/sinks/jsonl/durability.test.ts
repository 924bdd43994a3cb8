import type * as Fs from 'node:fs';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openSink } from '../../../src/sinks/registry.ts';
import {
  entityReport,
  identity,
  manualClock,
  member,
  members,
  membersTable,
  onlyPartition,
  opensTable,
  page,
  report,
  rootOf,
  type Started,
} from '../../contracts/sink/fixture.ts';

/** Called at every fdatasync of a change file. */
const synced = vi.hoisted(() => ({ listener: (): void => undefined }));

vi.mock('node:fs', async (importOriginal) => {
  const fs = await importOriginal<typeof Fs>();
  const fdatasyncSync = (descriptor: number): void => {
    fs.fdatasyncSync(descriptor);
    synced.listener();
  };
  return { ...fs, fdatasyncSync };
});

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'durability-'));
});
afterEach(() => {
  synced.listener = () => undefined;
  rmSync(folder, { recursive: true });
});

/** Commits two pages and finishes; gives, for every sync, how many files the ledger knew and how long they were. */
async function syncsOfARun(durability: 'full' | 'normal'): Promise<readonly string[]> {
  const clock = manualClock();
  await using sink = await openSink(
    { type: 'jsonl', name: 'lake', directory: folder, durability },
    { clock },
  );
  const started = { lease: await sink.acquire(identity()), run: 'r1' as Started['run'] };
  await sink.startRun(started.lease, {
    run: started.run,
    startedAt: '2026-03-01T10:00:00.000Z',
    tables: [membersTable, opensTable],
    entities: [members],
    roots: [rootOf(members)],
    choices: '',
    leaves: [],
    continueAfter: '2026-01-01T00:00:00.000Z',
  });
  const { id } = await onlyPartition(sink, started.lease);
  const syncs: string[] = [];
  synced.listener = () => {
    const ledger = new Database(join(folder, '_ledger.db'), { readonly: true });
    const known =
      ledger.prepare<[], number>('SELECT count(*) FROM _sync_files WHERE length > 0').pluck().get() ?? 0;
    const keys =
      ledger.prepare<[], number>('SELECT count(*) FROM _sync_keys_news__members').pluck().get() ?? 0;
    ledger.close();
    syncs.push(`${known} files, ${keys} keys`);
  };
  await sink.commit(started.lease, [page(started, id, [member('1')])]);
  await sink.commit(started.lease, [page(started, id, [member('2')])]);
  await sink.commit(started.lease, [page(started, id, [member('2')])]);
  const entities = [entityReport(members, { fetched: 3, inserted: 2, duplicate: 1 })];
  await sink.finish(started.lease, started.run, report(started, { entities }));
  return syncs;
}

test('with durability full, lines are on the disk before the ledger knows of them', async () => {
  expect(await syncsOfARun('full')).toEqual(['0 files, 0 keys', '1 files, 1 keys', '1 files, 2 keys']);
});

test('with durability normal, a file is synced only when it is closed', async () => {
  expect(await syncsOfARun('normal')).toEqual(['1 files, 2 keys']);
});
