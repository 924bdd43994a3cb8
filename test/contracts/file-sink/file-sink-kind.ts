import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { EntityTable, FieldType } from '../../../src/core/records.ts';
import { openHistory, openSink } from '../../../src/sinks/registry.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import type { LedgerRow, SinkKind, StoredEntity } from '../sink/fixture.ts';
import { type JsonObject, type JsonValue, readJson } from '../../../src/core/json.ts';

/** What only file sinks have. */
export interface FileSinkKind extends SinkKind {
  /** The SQLite file that holds the ledger. */
  readonly ledgerFile: (folder: string) => string;
}

interface FileSinkParts {
  readonly ledger: string;
  readonly options: (folder: string) => SinkOptions;
}

/** SQLite as the contract looks at it. */
export const sqliteKind = fileSinkKind({
  ledger: 'warehouse.db',
  options: (folder) => ({
    type: 'sqlite',
    name: 'warehouse',
    path: join(folder, 'warehouse.db'),
    durability: 'normal',
  }),
});

/** JSONL, of whose records it looks at those in the ledger. */
export const jsonlKind = fileSinkKind({
  ledger: '_ledger.db',
  options: (folder) => ({ type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' }),
});

function fileSinkKind({ ledger, options }: FileSinkParts): FileSinkKind {
  const ledgerFile = (folder: string): string => join(folder, ledger);
  return {
    options,
    ledgerFile,
    open: (folder, how) => openSink(options(folder), how),
    openHistory: (folder) => openHistory(options(folder)),
    readRows: async (folder, connector, table) =>
      byKey(
        readTable(ledgerFile(folder), connector, table, '_deleted_at IS NULL').map(
          ({ deletedAt: _deletedAt, ...row }) => row,
        ),
        table.key,
      ),
    readChanges: async (folder, connector, table) =>
      readTable(ledgerFile(folder), connector, table, '1 ORDER BY _seq').map(({ deletedAt, ...row }) => ({
        ...row,
        _op: deletedAt === null ? 'upsert' : 'delete',
      })),
    ledgerSql: async (folder, sql) =>
      withLedger(ledgerFile(folder), (db) => {
        const statement = db.prepare<[], LedgerRow>(sql);
        if (statement.reader) return statement.all();
        statement.run();
        return [];
      }),
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

function readTable(file: string, connector: string, table: EntityTable, where: string) {
  const db = new Database(file, { readonly: true }).defaultSafeIntegers();
  try {
    const name = `${connector.replaceAll('-', '_')}__${table.entity}`;
    const rows = db.prepare<[], Record<string, unknown>>(`SELECT * FROM "${name}" WHERE ${where}`).all();
    return rows.map((row) => ({
      ...Object.fromEntries(table.columns.map(({ name, type }) => [name, columnValue(type, row[name])])),
      _extra: columnValue('object', row['_extra']),
      _seq: columnValue('integer', row['_seq']),
      _changed_at: columnValue('string', row['_changed_at']),
      _run_id: columnValue('string', row['_run_id']),
      deletedAt: columnValue('string', row['_deleted_at']),
    }));
  } finally {
    db.close();
  }
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

/** A column of a SQLite table, read with whole integers, as the JSON value it stands for. */
export function columnValue(type: FieldType, value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (type === 'boolean') return value === 1n;
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') throw new Error(`Unexpected ${typeof value} in a column`);
  return type === 'string' ? value : readJson(value);
}

/** Rows in the order of their keys' texts. */
export function byKey(rows: readonly JsonObject[], key: readonly string[]): readonly JsonObject[] {
  const text = (row: JsonObject): string => JSON.stringify(key.map((name) => row[name]));
  return [...rows].sort((left, right) => (text(left) < text(right) ? -1 : 1));
}
