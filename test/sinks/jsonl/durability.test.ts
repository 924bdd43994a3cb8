import type * as Fs from 'node:fs';
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, it, vi } from 'vitest';
import { jsonlKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { member, members, news, resetScope } from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';

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

const bench = useBench(jsonlKind);
afterEach(() => {
  seen.listener = () => undefined;
});

const name = '000000000001.jsonl';

function inLedger(sql: string): readonly unknown[] {
  const ledger = new Database(jsonlKind.ledgerFile(bench().folder), { readonly: true });
  const rows = ledger.prepare(sql).all();
  ledger.close();
  return rows;
}

// Proves promise 1.4
it('a file is listed by a commit that is on the disk before it gets its name', async () => {
  const steps: string[] = [];
  const { commit, finish } = await bench().walking();
  await commit([member('1'), member('2')]);
  seen.listener = (what) =>
    void steps.push(`${what}, ${inLedger('SELECT * FROM _sync_files').length} listed`);
  await finish();
  expect(steps.slice(steps.indexOf('_ledger.db-wal synced, 1 listed'))).toEqual([
    '_ledger.db-wal synced, 1 listed',
    `${name}.next renamed, 1 listed`,
    'members synced, 1 listed',
  ]);
});

// Proves promise 1.5
it('files of dropped records go when the commit that drops them is on the disk', async () => {
  await bench().read('r1', [member('1'), member('2')]);
  await bench().closeSinks();
  const sink = await bench().open();
  const steps: string[] = [];
  seen.listener = (what) => void steps.push(what);
  await sink.repair.reset(news, resetScope({ entity: members }));
  expect(steps).toEqual(['_ledger.db-wal synced', `${name} removed`, 'members synced', 'news synced']);
  expect(inLedger('SELECT * FROM _sync_files')).toEqual([]);
  expect(readdirSync(bench().folder).map((one) => basename(one))).not.toContain('news');
});
