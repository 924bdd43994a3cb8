import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { isJsonObject, memberOf, type JsonValue } from '../../core/json.ts';
import { keyPartsOf, readJson, writeJson } from '../../core/json-text.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import type { ColumnValue, EntityTable, FieldType } from '../../core/records.ts';
import { quoted } from '../../sql/quoted.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { givenUpHash, lostHash, type StoredRow } from '../decisions/meet-record.ts';
import { isJsonColumn, tableName } from '../decisions/stored-table.ts';
import { fromVersion7, newestRow } from '../sqlite/from-version-7.ts';
import type { LedgerFormat } from '../sqlite/open-database.ts';
import { createTableSql } from '../sqlite/records/table-sql.ts';
import { commonFormat, fromVersion8, sqliteLedgerSql, tablesSql } from '../sqlite/schema.ts';
import { parseColumns, parseNames } from '../stored-json.ts';
import { entityDirectory, filesSql, prepareFileList, type ListedFile } from './file-list.ts';
import { findFile, readKept } from './find-damage.ts';
import { deletedHash, isLost, lostIndexSql } from './lost-rows.ts';

/** The ledger of a JSONL sink. */
export const jsonlFormat: LedgerFormat = {
  ...commonFormat,
  kind: 'jsonl',
  sql: `${tablesSql}${filesSql}`,
  migrate: (db, version) => {
    if (version === 7) {
      fromVersion7(db, sqliteLedgerSql, (connector, entity) => lastRowOf(db, connector, entity));
      db.exec('ALTER TABLE _sync_files ADD COLUMN is_partial INTEGER NOT NULL DEFAULT 0');
      readAgainWhatIsLost(db, importRecords(db));
    }
    fromVersion8(db, version);
  },
};

/*
 * Version 7 kept the keys of an entity in its ledger, and the records in lines alone: the newest line of each key fills
 * the tables of version 8. Of a deleted row there is the key.
 */

interface KeyRow extends StoredRow {
  readonly key: string;
  readonly seq: number;
  readonly firstSeenAt: string | null;
  readonly run: string | null;
}

const batchRows = 1_000;

function keyTableName(connector: ConnectorName, entity: EntityName): string {
  return `_sync_keys_${tableName(connector, entity)}`;
}

/** Undefined where the entity has no rows yet. */
function lastRowOf(db: Connection, connector: ConnectorName, entity: EntityName): number | undefined {
  return newestRow(db, keyTableName(connector, entity), 'row');
}

/** Makes and fills the tables, and gives the connectors whose lines are missing. */
function importRecords(db: Connection): ReadonlySet<ConnectorName> {
  const lacking = new Set<ConnectorName>();
  const tables = db
    .prepare<[], OfEntity & { readonly key: string; readonly stored: string }>(
      'SELECT connector, entity, key, stored FROM _sync_tables',
    )
    .all();
  for (const { connector, entity, key, stored } of tables) {
    if (lastRowOf(db, connector, entity) === undefined) continue;
    const table = { entity, key: parseNames(key), columns: parseColumns(stored) };
    if (importTable(db, connector, table) > 0) lacking.add(connector);
  }
  return lacking;
}

/** Gives how many rows have no line, though none of them was known to be lost. */
function importTable(db: Connection, connector: ConnectorName, table: EntityTable): number {
  const name = tableName(connector, table.entity);
  const keys = keyTableName(connector, table.entity);
  for (const sql of createTableSql(name, table)) db.exec(sql);
  copyKeys(db, name, keys, table);
  fillFromLines(db, name, keys, { connector, table });
  const lost = db
    .prepare<[], { readonly all: number; readonly isNew: number }>(
      `SELECT count(*) AS "all", count(*) FILTER (WHERE k.hash NOT IN ('${lostHash}', '${givenUpHash}')) AS isNew
       FROM ${quoted(name)} AS t JOIN ${keys} AS k ON k.row = t._row WHERE ${isLost}`,
    )
    .get() ?? { all: 0, isNew: 0 };
  if (lost.all > 0) db.exec(lostIndexSql(name));
  db.exec(`DROP TABLE ${keys}`);
  return lost.isNew;
}

/** Every row without its fields, which makes a live one lost. */
function copyKeys(db: Connection, name: string, keys: string, { key }: EntityTable): void {
  const read = db.prepare<[number, number], KeyRow>(
    `SELECT row, key, hash, volatile_hash AS volatileHash, changed_at AS changedAt, seq, deleted_at AS deletedAt,
       partition AS owner, first_seen_at AS firstSeenAt, run
     FROM ${keys} WHERE row > ? ORDER BY row LIMIT ?`,
  );
  const insert = db.prepare(
    `INSERT INTO ${quoted(name)} (${key.map(quoted).join(', ')}, _row, _first_seen_at, _changed_at, _run_id, _seq,
       _hash, _volatile_hash, _deleted_at, _partition)
     VALUES (${key.map(() => '?').join(', ')}, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  for (let after = 0; ;) {
    const rows = read.all(after, batchRows);
    for (const one of rows) {
      const { row, changedAt, seq, volatileHash, deletedAt, owner } = one;
      // Without a known start it counts as new, so that nothing treats it as an old row.
      const times = [one.firstSeenAt ?? changedAt, changedAt, one.run ?? '', seq];
      insert.run(
        ...(keyPartsOf(one.key, key.length) ?? []),
        row,
        ...times,
        bareHash(one),
        volatileHash,
        deletedAt,
        owner,
      );
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < batchRows) return;
    after = last.row;
  }
}

function bareHash({ hash, deletedAt }: KeyRow): string {
  if (hash === lostHash || hash === givenUpHash) return hash;
  return deletedAt === null ? lostHash : deletedHash;
}

function fillFromLines(
  db: Connection,
  name: string,
  keys: string,
  { connector, table }: { readonly connector: ConnectorName; readonly table: EntityTable },
): void {
  const { columns, key, entity } = table;
  const rest = columns.flatMap((column, index) => (key.includes(column.name) ? [] : [index]));
  const sets = rest.map((index) => `${quoted(columns[index]?.name ?? '')} = ?`);
  const newest = db
    .prepare<[number], number>(
      `SELECT t._row FROM ${quoted(name)} AS t JOIN ${keys} AS k ON k.row = t._row
       WHERE t._seq = ? AND t._deleted_at IS NULL AND k.hash NOT IN ('${lostHash}', '${givenUpHash}')`,
    )
    .pluck();
  const fill = db.prepare(
    `UPDATE ${quoted(name)} SET ${[...sets, '_extra = ?'].join(', ')}, _hash = (SELECT hash FROM ${keys} WHERE row = _row)
     WHERE _row = ?`,
  );
  const folder = entityDirectory(dirname(db.name), connector, entity);
  const files = prepareFileList(db).all(connector);
  for (const file of files.filter((one) => one.entity === entity)) {
    for (const { seq, text } of readCommittedLines(folder, file)) {
      const row = newest.get(seq);
      const record = row === undefined ? null : recordOfLine(table, text());
      if (record === null) continue;
      fill.run(...rest.map((index) => record.values[index] ?? null), record.extra, row);
    }
  }
}

/**
 * As what a walk shows of them: every walk starts from the beginning, in full, and windows of backfills that are
 * done are read again.
 */
function readAgainWhatIsLost(db: Connection, connectors: ReadonlySet<ConnectorName>): void {
  for (const connector of connectors) {
    db.prepare(
      `UPDATE _sync_partitions SET position = NULL, watermark = NULL, marker = NULL, full_at = NULL, sweep_origin = NULL
       WHERE connector = ?`,
    ).run(connector);
    db.prepare('DELETE FROM _sync_windows WHERE connector = ?').run(connector);
    db.prepare('UPDATE _sync_runs SET can_continue = 0 WHERE connector = ?').run(connector);
  }
}

interface ChangeLine {
  readonly seq: number;
  readonly text: () => string;
}

const newline = 10;
const seqMark = Buffer.from('"_seq":');

/** The committed lines of a file that can be relied on, in order. */
function* readCommittedLines(directory: string, file: ListedFile): Generator<ChangeLine> {
  const { path } = findFile(directory, file);
  const length = readKept(path, file)?.length ?? file.length;
  if (length === 0) return;
  const bytes = readFileSync(path).subarray(0, length);
  let start = 0;
  for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, start)) {
    const line = bytes.subarray(start, end);
    const seq = seqOf(line);
    if (seq !== null) yield { seq, text: () => line.toString('utf8') };
    start = end + 1;
  }
}

/** From the end: only the time and the run follow it, and neither can look like it. */
function seqOf(line: Buffer): number | null {
  const at = line.lastIndexOf(seqMark);
  const start = at + seqMark.length;
  const seq = at < 0 ? Number.NaN : Number.parseInt(line.toString('latin1', start, start + 20), 10);
  return Number.isSafeInteger(seq) ? seq : null;
}

/** What a line says of a record; null for a text that is no such line. Numbers keep all their digits. */
function recordOfLine({ columns }: EntityTable, text: string) {
  const line = readJson(text);
  if (!isJsonObject(line)) return null;
  const { _extra: extra } = line;
  return {
    values: columns.map(({ name, type }) => columnValue(type, memberOf(line, name) ?? null)),
    extra: extra === undefined || extra === null ? null : writeJson(extra),
  };
}

/** What a column of this type holds of a line's value. */
export function columnValue(type: FieldType, value: JsonValue): ColumnValue {
  if (value === null) return null;
  if (isJsonColumn(type)) return writeJson(value);
  if (typeof value === 'boolean') return Number(value);
  return typeof value === 'object' ? writeJson(value) : value;
}
