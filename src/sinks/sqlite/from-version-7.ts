import type { ConnectorName, EntityName, OfEntity } from '../../core/names.ts';
import { quoted } from '../../sql/quoted.ts';
import type { Connection } from '../../sql/sqlite/open-sqlite.ts';
import { textHash } from '../../sql/text-hash.ts';
import { tableName } from '../decisions/stored-table.ts';

/** Columns of version 8 that version 7 lacks, as SQL over its tables. The table is named `old`. */
const newColumns: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  _sync_tables: {
    name: "replace(old.connector, '-', '_') || '__' || old.entity",
    last_row: 'old.rows',
  },
  _sync_runs: { resume_at: "json_extract(old.report, '$.resumeAt')" },
  _sync_partitions: {
    params_hash: 'text_hash(old.params)',
    parent_hash: 'text_hash(old.parent_key)',
    last_page_size: "json_extract(old.proof, '$.lastPage.size')",
    last_page_records: "json_extract(old.proof, '$.lastPage.records')",
    failure_code: "json_extract(old.failure, '$.code')",
  },
  _sync_counts: {
    depth_limited: `coalesce((SELECT json_extract(told.value, '$.depthLimited')
      FROM _sync_runs AS run, json_each(run.report, '$.entities') AS told
      WHERE run.run = old.run AND json_extract(told.value, '$.entity') = old.entity), 0)`,
  },
  _sync_quarantine: {},
  _sync_downloads: { key_hash: 'text_hash(old.key)' },
  _sync_seen: {},
};

/**
 * Shows a file of version 7 that is open for reading as one of version 8: a temporary name hides the same name of the
 * file.
 */
export function readVersion7(db: Connection): void {
  addTextHash(db);
  for (const [table, columns] of Object.entries(newColumns)) {
    const added = Object.entries(columns).map(([name, sql]) => `, ${sql} AS ${name}`);
    if (added.length > 0) {
      db.exec(`CREATE TEMP VIEW ${table} AS SELECT old.*${added.join('')} FROM main.${table} AS old`);
    }
  }
}

/**
 * Brings a file of version 7 to version 8, in the transaction of the caller. Tables whose columns have changed are
 * replaced by those of `ledgerSql`. `lastRow` gives the newest row number of an entity's table.
 */
export function fromVersion7(
  db: Connection,
  ledgerSql: string,
  lastRow: (connector: ConnectorName, entity: EntityName) => number | undefined,
): void {
  addTextHash(db);
  // Views that a user has made of these tables stay as they are, whatever else they need.
  db.pragma('legacy_alter_table = ON');
  const all = statementsOf(ledgerSql);
  const tables = Object.keys(newColumns);
  for (const table of tables) {
    dropIndexes(db, table);
    db.exec(`ALTER TABLE ${table} RENAME TO ${table}_7`);
  }
  for (const table of tables) for (const sql of all.get(table) ?? []) db.exec(sql);
  for (const table of tables) {
    if (table !== '_sync_seen') copyRows(db, table);
  }
  splitChunks(db);
  for (const table of tables) db.exec(`DROP TABLE ${table}_7`);
  for (const table of ['_sync_also', '_sync_missing']) {
    dropIndexes(db, table);
    for (const sql of all.get(table) ?? []) if (sql.startsWith('CREATE INDEX')) db.exec(sql);
  }
  noteLastRows(db, lastRow);
  db.pragma('legacy_alter_table = OFF');
}

/** The same of a SQLite sink, with its catalog. */
export function sqliteFromVersion7(db: Connection, ledgerSql: string, catalogSql: string): void {
  // They name tables that are replaced.
  for (const view of ['_catalog_tables', '_catalog_columns', '_catalog_joins']) {
    db.exec(`DROP VIEW IF EXISTS ${view}`);
  }
  fromVersion7(db, ledgerSql, (connector, entity) => newestRow(db, tableName(connector, entity), '_row'));
  // Of tables that only JSONL sinks fill.
  db.exec(`DROP TABLE IF EXISTS _sync_files; ${catalogSql}`);
}

/**
 * Undefined where there is no such table. Rows are never deleted: their newest one has the highest number that was
 * given. `column`: the one that holds the numbers.
 */
export function newestRow(db: Connection, table: string, column: '_row' | 'row'): number | undefined {
  const isThere = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?").get(table);
  if (isThere === undefined) return undefined;
  return db
    .prepare<[], number>(`SELECT coalesce(max(${column}), 0) FROM ${quoted(table)}`)
    .pluck()
    .get();
}

function addTextHash(db: Connection): void {
  db.function('text_hash', { deterministic: true }, (text: string | null) =>
    text === null ? null : textHash(text),
  );
}

/** What makes each table of the ledger, by its name. */
function statementsOf(ledgerSql: string): ReadonlyMap<string, readonly string[]> {
  const byTable = new Map<string, string[]>();
  for (const sql of ledgerSql.split(';')) {
    const table = /(?:CREATE TABLE|ON) (_sync_\w+)/.exec(sql)?.[1];
    if (table !== undefined) byTable.set(table, [...(byTable.get(table) ?? []), sql.trim()]);
  }
  return byTable;
}

function dropIndexes(db: Connection, table: string): void {
  const names = db
    .prepare<[string], string>(
      "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
    )
    .pluck()
    .all(table);
  for (const name of names) db.exec(`DROP INDEX ${name}`);
}

function columnsOf(db: Connection, table: string): readonly string[] {
  return db.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck().all(table);
}

function copyRows(db: Connection, table: string): void {
  const added = newColumns[table] ?? {};
  const kept = columnsOf(db, `${table}_7`);
  const columns = [...kept, ...Object.keys(added)].map((name) => `"${name}"`).join(', ');
  const values = [...kept.map((name) => `old."${name}"`), ...Object.values(added)].join(', ');
  db.exec(`INSERT INTO ${table} (${columns}) SELECT ${values} FROM ${table}_7 AS old`);
  // The highest number that was ever given, where the rows that had it no longer exist.
  db.prepare(
    `UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)) WHERE name = ?`,
  ).run(`${table}_7`, table);
}

function noteLastRows(
  db: Connection,
  lastRow: (connector: ConnectorName, entity: EntityName) => number | undefined,
): void {
  const note = db.prepare('UPDATE _sync_tables SET last_row = ? WHERE connector = ? AND entity = ?');
  const tables = db.prepare<[], OfEntity>('SELECT connector, entity FROM _sync_tables').all();
  for (const { connector, entity } of tables) {
    const row = lastRow(connector, entity);
    if (row !== undefined) note.run(row, connector, entity);
  }
}

/** Of version 7: 4 KiB, the first half of them says which rows were met, the second which of them in their owner. */
const oldHalf = 2_048;
const half = 512;
const parts = oldHalf / half;

interface SeenChunk extends OfEntity {
  readonly origin: number;
  readonly chunk: number;
  readonly bits: Buffer;
}

/** Cuts each chunk of `_sync_seen_7` into chunks of 1 KiB, both halves of each. What is not stored is empty. */
function splitChunks(db: Connection): void {
  const write = db.prepare<[string, string, number, number, Buffer]>(
    'INSERT INTO _sync_seen (connector, entity, origin, chunk, bits) VALUES (?, ?, ?, ?, ?)',
  );
  const chunks = db
    .prepare<[], SeenChunk>('SELECT connector, entity, origin, chunk, bits FROM _sync_seen_7')
    .all();
  for (const { connector, entity, origin, chunk, bits } of chunks) {
    for (let part = 0; part < parts; part += 1) {
      const met = bits.subarray(part * half, (part + 1) * half);
      const inOwner = bits.subarray(oldHalf + part * half, oldHalf + (part + 1) * half);
      const both = Buffer.concat([met, inOwner]);
      if (both.some((byte) => byte !== 0)) write.run(connector, entity, origin, parts * chunk + part, both);
    }
  }
}
