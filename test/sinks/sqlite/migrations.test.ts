import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { beforeEach, expect, it } from 'vitest';
import { ledgerSink } from '../../../src/sinks/ledger/ledger-sink.ts';
import { openReadonlyDatabase } from '../../../src/sinks/sqlite/open-database.ts';
import { openLedgerFile } from '../../../src/sinks/sqlite/open-ledger.ts';
import { sqliteTables } from '../../../src/sinks/sqlite/records/record-tables.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/schema.ts';
import { member, onlyPartition, page, sealed } from '../../contracts/sink/fixture.ts';
import { useBench } from '../../contracts/sink/use-bench.ts';
import { testProgram } from '../../support/ensure-built.ts';
import { startScript } from '../../support/run-cli.ts';
import { lastStep, madeUpMigrations } from '../../support/sinks/made-up-versions.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';

/* No release has migrations yet: version 3 here is made up, and version 1 is what this program writes. */

const newer = { ...sqliteFormat, migrations: madeUpMigrations(() => 'SELECT 0') };
const script = testProgram('sinks/sqlite/migrating-process.mjs');
const bench = useBench(sqliteKind);
let file = '';

/** A sink of version 1 after one run of three members. */
beforeEach(async () => {
  const { sink, started, id } = await bench().walking();
  await sink.commit(started.lease, [
    page(
      started,
      id,
      ['1', '2', '3'].map((one) => member(one)),
      { seal: sealed },
    ),
  ]);
  await bench().closeSinks();
  file = sqliteKind.ledgerFile(bench().folder);
});

interface Stored {
  readonly version: unknown;
  readonly members: readonly unknown[];
  readonly tables: readonly unknown[];
  /** Null: the table is not there. */
  readonly madeUp: readonly unknown[] | null;
  readonly runs: readonly unknown[];
}

function stored(path: string): Stored {
  const db = new Database(path, { readonly: true });
  try {
    expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
    const tables = db.prepare('SELECT name FROM sqlite_schema ORDER BY name').pluck().all();
    return {
      version: db.pragma('user_version', { simple: true }),
      members: db.prepare('SELECT * FROM news__members ORDER BY _row').all(),
      tables: tables.filter(
        (name) => name !== '_sync_made_up' && !String(name).includes('autoindex__sync_made_up'),
      ),
      madeUp: tables.includes('_sync_made_up') ? db.prepare('SELECT * FROM _sync_made_up').all() : null,
      runs: db.prepare('SELECT * FROM _sync_runs').all(),
    };
  } finally {
    db.close();
  }
}

function migrated(before: Stored): Stored {
  return {
    ...before,
    version: 3,
    madeUp: [{ connector: 'news', runs: 2 }],
    runs: before.runs.map((run) => ({ ...(run as object), made_up: 'before' })),
  };
}

// Proves promise 1.7
it('brings version 1 to a later one when it is opened for writing, and the next sync writes only what has changed', async () => {
  const before = stored(file);
  expect(before).toMatchObject({ version: 1, madeUp: null });
  const { clock } = bench();
  await using sink = ledgerSink(
    await openLedgerFile({ file, format: newer, records: sqliteTables, durability: 'full', clock }),
  );
  expect(stored(file)).toEqual(migrated(before));
  const started = await bench().begin(sink, 'r2');
  const { id } = await onlyPartition(sink, started.lease);
  const records = [member('1'), member('2', 'Grace'), member('3')];
  const [counts] = await sink.commit(started.lease, [page(started, id, records)]);
  expect(JSON.stringify(counts)).toContain('"updated":1');
  expect(await bench().ledger('SELECT id, _seq FROM news__members ORDER BY _row')).toEqual([
    { id: '1', _seq: 1 },
    { id: '2', _seq: 4 },
    { id: '3', _seq: 3 },
  ]);
  await expect(bench().open(), 'version 1 of the program').rejects.toMatchObject({
    code: 'SINK_INCOMPATIBLE',
    message: expect.stringContaining('expected tables of version 1, found version 3') as string,
  });
});

// Proves promise 1.7
it.each([...Array.from({ length: lastStep + 1 }, (_, step) => String(step)), 'end'])(
  'is of version 1 or of the newest, and whole, after a SIGKILL at step %s, and the next opening completes it',
  async (step) => {
    const before = stored(file);
    const { child, result } = startScript([script, file, step], bench().folder);
    expect((await result).stderr).toBe('');
    expect(child.signalCode).toBe('SIGKILL');
    expect(stored(file)).toEqual(step === 'end' ? migrated(before) : before);
    expect(await startScript([script, file], bench().folder).result).toMatchObject({ code: 0, stderr: '' });
    expect(stored(file)).toEqual(migrated(before));
  },
);

// Proves promise 1.7
it('is migrated once by several processes that open it at the same time', async () => {
  const before = stored(file);
  const startAtMs = String(Date.now() + 1_000);
  const openers = Array.from({ length: 4 }, () =>
    startScript([script, file, '-1', startAtMs], bench().folder),
  );
  for (const { result } of openers) expect(await result).toMatchObject({ code: 0, stderr: '' });
  expect(stored(file)).toEqual(migrated(before));
});

it('is not read before it is migrated, and says how', () => {
  const copy = join(bench().folder, 'copy.db');
  copyFileSync(file, copy);
  expect(() => openReadonlyDatabase({ file: copy, format: newer })).toThrow(
    `${copy} cannot be used as a sink: it has tables of version 1, and this program reads version 3. Sync into it once, or start the worker`,
  );
});
