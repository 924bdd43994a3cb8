import { openSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { it } from '../../support/it.ts';
import { SyncError } from '../../../src/core/errors.ts';
import { toSinkError } from '../../../src/sinks/sqlite/sink-error.ts';

function failureOf(act: () => unknown): unknown {
  try {
    act();
    return null;
  } catch (error) {
    return toSinkError(error, '/data/warehouse.db');
  }
}

it('a database that another writer keeps locked is SINK_FAILED for now, and the message says who to look for', ({
  folder,
}) => {
  const first = new Database(join(folder, 'a.db'));
  const second = new Database(join(folder, 'a.db'), { timeout: 0 });
  first.exec('BEGIN IMMEDIATE');
  const failure = failureOf(() => second.exec('BEGIN IMMEDIATE'));
  first.close();
  second.close();
  expect(failure).toMatchObject({
    code: 'SINK_FAILED',
    recovery: 'retry',
    context: { cause: 'SQLITE_BUSY' },
  });
  expect(String(failure)).toContain('another program holds its write lock');
});

it('a database that may not grow is SINK_FULL for now', ({ folder }) => {
  const db = new Database(join(folder, 'a.db'));
  db.pragma('max_page_count = 2');
  const failure = failureOf(() => db.exec('CREATE TABLE a (x); CREATE TABLE b (x)'));
  db.close();
  expect(failure).toMatchObject({ code: 'SINK_FULL', recovery: 'retry' });
});

it('a full disk is SINK_FULL, and the message says where, what is free there, and what to do', ({
  folder,
}) => {
  const file = join(folder, 'not-there', 'a.db');
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC', syscall: 'write' });
  expect(String(toSinkError(full, file))).toMatch(
    /No space is left for \S+\/not-there\/a\.db \(ENOSPC; [\d.]+ [KMGT]iB free on its disk\); .*Free space and sync again\.$/,
  );
});

it('a failed system call is SINK_FAILED and keeps its cause', ({ folder }) => {
  const failure = failureOf(() => openSync(join(folder, 'none', 'a'), 'r'));
  expect(failure).toMatchObject({ code: 'SINK_FAILED', recovery: 'stop', cause: { code: 'ENOENT' } });
  expect(String(failure).match(/ENOENT/g)).toHaveLength(1);
});

it('a SyncError and a programming error stay what they are', () => {
  const known = new SyncError('known', { code: 'ACCOUNTING', recovery: 'stop' });
  const bug = new TypeError('undefined is not a function');
  expect([toSinkError(known, 'x'), toSinkError(bug, 'x')]).toEqual([known, bug]);
});
