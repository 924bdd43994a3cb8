import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { accessSink, openHistory, openSink } from '../../../src/sinks/registry.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { Sink } from '../../../src/sinks/sink.ts';
import {
  counts,
  entityReport,
  hourMs,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  partition,
  sealed,
  report,
  start,
  type Bench,
  type Started,
} from '../../contracts/sink/fixture.ts';
import { isLong } from '../trials.ts';
import { schemaVersion } from '../../../src/sinks/sqlite/schema.ts';
import type { FileSinkKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { lastPartition, makeOlder, type OlderVersion } from './older-file.ts';
import { testProgram } from '../ensure-built.ts';

/** The way from the first one leads through all. */
export const olderVersions: readonly OlderVersion[] = isLong ? [1, 2, 3, 4, 5, 6] : [1, 6];

const nothingDeleted = {
  incremental: 0,
  deleted: 0,
  withheld: 0,
  pending: 0,
  withdrawn: 0,
  withheldBecause: null,
  withholding: null,
  proofs: { single: 1, seam: 0, token: 0, keyset: 0 },
};

const program = testProgram('support/sinks/migrating-process.mjs');

/** What becomes of a file sink that an older version has written. */
export function migrating(kind: FileSinkKind, older: OlderVersion): void {
  const bench = useBench(kind);
  const children: ChildProcess[] = [];
  const file = (): string => kind.ledgerFile(bench().folder);

  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  /** Another process that is ready to open the sink. */
  async function opener(...more: readonly string[]): Promise<ChildProcess> {
    const options = JSON.stringify(kind.options(bench().folder));
    const child = fork(program, [options, ...more]);
    children.push(child);
    await once(child, 'message');
    return child;
  }

  it('is read as it is, and not a byte of it is written', async () => {
    await fillOlder(bench(), file(), older);
    const before = readFileSync(file());
    await using history = await openHistory(kind.options(bench().folder));
    expect(await history.pauses()).toEqual([]);
    expect(await history.isCancelRequested('r3' as Started['run'])).toBe(false);
    expect(await history.finishedWindows(news, 'b1')).toEqual([]);
    expect(await history.missing(news, 5)).toEqual([]);
    // Version 3 knows its rows.
    expect((await history.explain(news, membersTable, '["a","1"]')) === null).toBe(older < 3);
    expect(await history.fileFailures(news, 5)).toEqual([]);
    expect(await history.drift(news)).toEqual([]);
    expect((await history.connectors())[0]).toMatchObject({
      lastRun: { run: 'r3', kind: 'sync' },
      entities: [
        { rows: 0 },
        { entity: members, files: null, rows: 1, deleted: 0, missing: 0, partitions: 1, due: 1 },
      ],
    });
    expect(await history.failures(news, 5)).toEqual([]);
    expect(await history.freshness(news)).toEqual([
      { entity: 'member_opens', asOf: null },
      { entity: members, asOf: instant(start) },
    ]);
    expect(
      (await history.runs({ connector: news, kind: 'sync', limit: 5 })).map(({ run, state, report }) => ({
        run,
        state,
        report,
      })),
    ).toMatchObject([
      { run: 'r3', state: 'running', report: null },
      {
        run: 'r2',
        state: 'failed',
        report: {
          kind: 'sync',
          error: { code: 'UPSTREAM', recovery: older === 1 ? 'stop' : 'retry', message: 'down' },
          resumeAt: null,
          left: [],
          files: [],
          entities: [{ entity: members, ...nothingDeleted, isWhole: older > 1 }],
        },
      },
      { run: 'r1', state: 'ok', report: { error: null, entities: [{ entity: members, isWhole: true }] } },
    ]);
    expect(await history.overview()).toMatchObject([
      {
        connector: news,
        paused: null,
        lastRun: { run: 'r3', kind: 'sync', state: 'running' },
        lastEnded: { run: 'r2', state: 'failed' },
        freshness: await history.freshness(news),
        missing: [],
      },
    ]);
    expect(await history.pause(news)).toBeNull();
    expect(await history.runs({ kind: 'backfill', limit: 5 })).toEqual([]);
    expect(readFileSync(file()).equals(before)).toBe(true);
    expect(version(file())).toBe(older);
  });

  it('is migrated under a reader that has it open', async () => {
    await fillOlder(bench(), file(), older);
    await using history = await openHistory(kind.options(bench().folder));
    const asOf = await history.freshness(news);
    await using records = await accessSink(kind.options(bench().folder)).openRecords();
    expect(await records.tableId(news, members)).toBe(records.sinkId);
    const sink = await bench().open();
    await sink.pause(news, { since: instant(start), reason: 'too expensive' });
    expect(await history.pauses()).toHaveLength(1);
    expect(await history.freshness(news)).toEqual(asOf);
    expect((await history.connectors())[0]).toMatchObject({
      entities: [{ rows: 0 }, { rows: 1, deleted: 0 }],
    });
    expect(await history.runs({ kind: 'sync', limit: 1 })).toMatchObject([{ run: 'r3', kind: 'sync' }]);
    await using later = await accessSink(kind.options(bench().folder)).openRecords();
    expect(await later.tableId(news, members)).toBe(later.sinkId);
  });

  it('becomes what a new one is when it is opened for writing, and its last run is gone on with', async () => {
    await fillOlder(bench(), file(), older);
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r4');
    expect(await sink.history.run(started.run)).toMatchObject({ continues: 'r3' });
    const { id, position, mode, watermark } = await onlyPartition(sink, started.lease);
    expect(position).toEqual({ kind: 'offset', offset: 7 });
    expect([mode, watermark]).toEqual(['full', null]);
    const [committed] = await sink.commit(started.lease, [
      page(started, id, [member('1'), member('2')], {
        children: [partition(members, { n: 1 })],
        seal: sealed,
      }),
    ]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 2, inserted: 1, duplicate: 1 }));
    expect(await bench().rows()).toHaveLength(2);
    expect((await onlyPartition(sink, started.lease)).id).toBe(lastPartition + 1);

    const elsewhere = join(bench().folder, 'new');
    mkdirSync(elsewhere);
    const other = await openSink(kind.options(elsewhere), { clock: bench().clock });
    await other[Symbol.asyncDispose]();
    expect(tables(file())).toMatchObject(tables(kind.ledgerFile(elsewhere)));
    expect(indexes(file())).toMatchObject(indexes(kind.ledgerFile(elsewhere)));
  });

  it('is migrated once by several processes that open it at the same time', async () => {
    await fillOlder(bench(), file(), older);
    const openers = await Promise.all(Array.from({ length: isLong ? 4 : 2 }, () => opener()));
    const other = new Database(file());
    other.exec('BEGIN IMMEDIATE');
    const inspected = openers.map((child) => heard(child));
    for (const child of openers) child.send('go');
    expect(await Promise.all(inspected)).toEqual(openers.map(() => 'inspected'));
    const ends = openers.map((child) => heard(child));
    // Until now all of them have seen the older version and none could write.
    other.close();
    expect(await Promise.all(ends)).toEqual(openers.map(() => 'opened'));
    expect(version(file())).toBe(schemaVersion);
  });

  it('is whole and as old as before after a kill in the middle of its migration, and migrated by the next one', async () => {
    await fillOlder(bench(), file(), older);
    const before = tables(file());
    const child = await opener('killed');
    const exit = once(child, 'exit');
    child.send('go');
    expect(await exit).toEqual([null, 'SIGKILL']);
    expect({ version: version(file()), tables: tables(file()) }).toEqual({ version: older, tables: before });
    await bench().open();
    expect(version(file())).toBe(schemaVersion);
  });
}

/** Three runs: one that went well, one that failed, one that was killed at its first page. */
async function fillOlder(bench: Bench, file: string, older: OlderVersion): Promise<void> {
  const sink = await bench.open();
  await endedRun(bench, sink, 'r1', { outcome: 'ok' });
  bench.clock.advance(hourMs);
  const error = { code: 'UPSTREAM', recovery: 'retry', message: 'down' } as const;
  await endedRun(bench, sink, 'r2', { outcome: 'failed', error });
  bench.clock.advance(hourMs);
  const started = await bench.begin(sink, 'r3');
  const { id } = await onlyPartition(sink, started.lease);
  const position = { kind: 'offset', offset: 7 } as const;
  await sink.commit(started.lease, [page(started, id, [member('1')], { position })]);
  await bench.closeSinks();
  makeOlder(file, older);
}

async function endedRun(bench: Bench, sink: Sink, run: string, change: Partial<RunReport>): Promise<void> {
  const started = await bench.begin(sink, run);
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, [], { seal: sealed })]);
  await sink.finish(
    started.lease,
    started.run,
    report(started, { entities: [entityReport(members, {})], ...change }),
  );
  await started.lease[Symbol.asyncDispose]();
}

async function heard(child: ChildProcess): Promise<unknown> {
  const [message]: unknown[] = await once(child, 'message');
  return message;
}

function version(file: string): unknown {
  return read(file, (db) => db.pragma('user_version', { simple: true }));
}

/** Every table of the ledger with its columns and their types. */
function tables(file: string): Readonly<Record<string, unknown>> {
  return read(file, (db) =>
    Object.fromEntries(
      db
        .prepare<[], { name: string }>(
          "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE '\\_sync\\_%' ESCAPE '\\'",
        )
        .all()
        .map(({ name }) => [name, db.pragma(`table_info('${name}')`)]),
    ),
  );
}

/** Every index of the ledger as it was made. */
function indexes(file: string): Readonly<Record<string, unknown>> {
  return read(file, (db) =>
    Object.fromEntries(
      db
        .prepare<[], { name: string; sql: string }>(
          "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND name LIKE '\\_sync\\_%' ESCAPE '\\'",
        )
        .all()
        .map(({ name, sql }) => [name, sql]),
    ),
  );
}

function read<Result>(file: string, look: (db: Database.Database) => Result): Result {
  const db = new Database(file, { readonly: true });
  try {
    return look(db);
  } finally {
    db.close();
  }
}
