import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import { openHistory, openSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { LedgerRow, SinkKind, StoredEntity } from '../sink/fixture.ts';

/** What only file sinks have. */
export interface FileSinkKind extends SinkKind {
  /** The SQLite file that holds the ledger. */
  readonly ledgerFile: (folder: string) => string;
  /** Of its tables. */
  readonly version: number;
}

export interface FileSinkParts {
  readonly options: (folder: string) => SinkOptions;
  readonly ledgerFile: (folder: string) => string;
  /** As for `SinkKind`; file sinks are read at once. */
  readonly readRows?: (folder: string, connector: string, table: EntityTable) => readonly JsonObject[];
  readonly readChanges?: (folder: string, connector: string, table: EntityTable) => readonly JsonObject[];
  /** 1 by default. */
  readonly version?: number;
  /** As of `SinkKind`. */
  readonly ownTables?: readonly string[];
}

/** A file sink as the contract looks at it: its ledger through SQLite, its records as `parts` says. */
export function fileSinkKind({
  options,
  ledgerFile,
  version = 1,
  readRows = () => [],
  readChanges = () => [],
  ownTables = [],
}: FileSinkParts): FileSinkKind {
  return {
    options,
    ledgerFile,
    version,
    open: (folder, how) => openSink(options(folder), how),
    openHistory: (folder) => openHistory(options(folder)),
    readRows: async (...of) => readRows(...of),
    readChanges: async (...of) => readChanges(...of),
    ledgerSql: async (folder, sql) =>
      withLedger(ledgerFile(folder), (db) => {
        const statement = db.prepare<[], LedgerRow>(sql);
        if (statement.reader) return statement.all();
        statement.run();
        return [];
      }),
    ownTables,
    overtake: async (folder) =>
      withLedger(ledgerFile(folder), (db) => {
        db.exec('UPDATE _sync_connectors SET epoch = epoch + 1');
      }),
    refuseUpdates: async (folder, table) =>
      withLedger(ledgerFile(folder), (db) => {
        const fail = "SELECT raise(ABORT, 'written')";
        db.exec(`CREATE TRIGGER watched BEFORE UPDATE ON ${table} BEGIN ${fail}; END`);
      }),
    contents: async (folder, without) => [
      ...tableTexts(ledgerFile(folder), without),
      ...fileHashes(folder, without),
    ],
  };
}

function withLedger<Result>(file: string, work: (db: Database.Database) => Result): Result {
  const db = new Database(file);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Every table of the ledger's file, without the rows of these entities and without what is named after them. */
function tableTexts(file: string, without: readonly StoredEntity[]): readonly string[] {
  return withLedger(file, (db) => {
    db.defaultSafeIntegers();
    const names = without.map(({ connector, entity }) => `${connector.replaceAll('-', '_')}__${entity}`);
    const master = db
      .prepare<[], { name: string; sql: string | null }>('SELECT name, sql FROM sqlite_master ORDER BY name')
      .all()
      .filter(({ name }) => !names.some((one) => name.includes(one)));
    const isTheirs = (row: LedgerRow): boolean =>
      without.some(({ connector, entity }) => row['connector'] === connector && row['entity'] === entity);
    const rows = master
      .filter(({ sql }) => sql?.startsWith('CREATE TABLE') === true)
      .flatMap(({ name }) =>
        db
          .prepare<[], LedgerRow>(`SELECT * FROM "${name}"`)
          .all()
          .filter((row) => !isTheirs(row))
          .map((row) => `${name}: ${rowText(row)}`),
      );
    return [...master.map(({ name, sql }) => `${name}: ${sql}`), ...rows];
  });
}

function rowText(row: LedgerRow): string {
  const text = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString('hex') : String(value));
  return Object.entries(row)
    .map(([column, value]) => `${column}=${text(value)}`)
    .join('|');
}

/** Of every file below the folder but the ledger's own, locks and those of these entities. */
function fileHashes(folder: string, without: readonly StoredEntity[]): readonly string[] {
  const theirs = without.map(({ connector, entity }) => join(connector, entity, '/'));
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => !theirs.some((one) => name.startsWith(one)))
    .filter((name) => !/\.(db|lock)$|-(wal|shm|journal)$/.test(name) && statSync(join(folder, name)).isFile())
    .map(
      (name) =>
        `${name} ${createHash('sha256')
          .update(readFileSync(join(folder, name)))
          .digest('hex')}`,
    )
    .sort();
}
