import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { afterEach, expect, test } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { openHistory, openSink } from '../../../src/sinks/registry.ts';
import type { RunReport, Sink } from '../../../src/sinks/sink.ts';
import {
  counts,
  entityReport,
  hourMs,
  member,
  members,
  news,
  onlyPartition,
  page,
  proof,
  report,
  start,
  type Bench,
  type SinkKind,
  type Started,
} from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { makeVersion1 } from './version-1-file.ts';

const program = fileURLToPath(new URL('migrating-process.ts', import.meta.url));

/** What becomes of a file sink that version 1 has written. */
export function migrating(kind: SinkKind): void {
  const bench = useBench(kind);
  const children: ChildProcess[] = [];
  const file = (): string => kind.ledgerFile(bench().folder);

  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  /** Another process that is ready to open the sink. */
  async function opener(...more: readonly string[]): Promise<ChildProcess> {
    const options = JSON.stringify(kind.options(bench().folder));
    const child = fork(program, [options, ...more], { execArgv: ['--import', 'tsx'] });
    children.push(child);
    await once(child, 'message');
    return child;
  }

  test('is read as it is, and not a byte of it is written', async () => {
    await fillVersion1(bench());
    const before = readFileSync(file());
    using history = openHistory(kind.options(bench().folder));
    expect(history.pauses()).toEqual([]);
    expect(history.isCancelRequested('r3' as Started['run'])).toBe(false);
    expect(history.freshness(news)).toEqual([
      { entity: 'member_opens', asOf: null },
      { entity: members, asOf: instant(start) },
    ]);
    expect(
      history.runs({ limit: 5 }).map(({ run, state, report }) => ({ run, state, report })),
    ).toMatchObject([
      { run: 'r3', state: 'running', report: null },
      {
        run: 'r2',
        state: 'failed',
        report: {
          error: { code: 'UPSTREAM', recovery: 'stop', message: 'down' },
          resumeAt: null,
          entities: [{ entity: members, isWhole: false }],
        },
      },
      { run: 'r1', state: 'ok', report: { error: null, entities: [{ entity: members, isWhole: true }] } },
    ]);
    expect(readFileSync(file())).toEqual(before);
    expect(version(file())).toBe(1);
  });

  test('is migrated under a reader that has it open', async () => {
    await fillVersion1(bench());
    using history = openHistory(kind.options(bench().folder));
    const asOf = history.freshness(news);
    const sink = await bench().open();
    await sink.pause(news, { since: instant(start), reason: 'too expensive' });
    expect(history.pauses()).toHaveLength(1);
    expect(history.freshness(news)).toEqual(asOf);
  });

  test('becomes what a new one is when it is opened for writing, and its last run is gone on with', async () => {
    await fillVersion1(bench());
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r4');
    expect(sink.history.run(started.run)).toMatchObject({ continues: 'r3' });
    const { id, position } = await onlyPartition(sink, started.lease);
    expect(position).toEqual({ kind: 'offset', offset: 7 });
    const [committed] = await sink.commit(started.lease, [
      page(started, id, [member('1'), member('2')], { seal: proof }),
    ]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 2, inserted: 1, duplicate: 1 }));
    expect(bench().rows()).toHaveLength(2);

    const elsewhere = join(bench().folder, 'new');
    mkdirSync(elsewhere);
    const other = await openSink(kind.options(elsewhere), { clock: bench().clock });
    await other[Symbol.asyncDispose]();
    expect(tables(file())).toMatchObject(tables(kind.ledgerFile(elsewhere)));
  });

  test('is migrated once by several processes that open it at the same time', async () => {
    await fillVersion1(bench());
    const openers = await Promise.all(Array.from({ length: 4 }, () => opener()));
    const other = new Database(file());
    other.exec('BEGIN IMMEDIATE');
    const inspected = openers.map((child) => heard(child));
    for (const child of openers) child.send('go');
    expect(await Promise.all(inspected)).toEqual(openers.map(() => 'inspected'));
    const ends = openers.map((child) => heard(child));
    // Until now all of them have seen version 1 and none could write.
    other.close();
    expect(await Promise.all(ends)).toEqual(openers.map(() => 'opened'));
    expect(version(file())).toBe(2);
  });

  test('is whole and of version 1 after a kill in the middle of its migration, and migrated by the next one', async () => {
    await fillVersion1(bench());
    const before = tables(file());
    const child = await opener('killed');
    const exit = once(child, 'exit');
    child.send('go');
    expect(await exit).toEqual([null, 'SIGKILL']);
    expect({ version: version(file()), tables: tables(file()) }).toEqual({ version: 1, tables: before });
    await bench().open();
    expect(version(file())).toBe(2);
  });
}

/** Three runs: one that went well, one that failed, one that was killed at its first page. */
async function fillVersion1(bench: Bench): Promise<void> {
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
  makeVersion1(bench.kind.ledgerFile(bench.folder));
}

async function endedRun(bench: Bench, sink: Sink, run: string, change: Partial<RunReport>): Promise<void> {
  const started = await bench.begin(sink, run);
  const { id } = await onlyPartition(sink, started.lease);
  await sink.commit(started.lease, [page(started, id, [], { seal: proof })]);
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

function read<Result>(file: string, look: (db: Database.Database) => Result): Result {
  const db = new Database(file, { readonly: true });
  try {
    return look(db);
  } finally {
    db.close();
  }
}
