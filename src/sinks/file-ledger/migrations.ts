import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { partitionsSql } from './partitions/partitions-sql.ts';
import { tableName } from '../decisions/stored-table.ts';
import { catalogSql } from './catalog-sql.ts';
import { renewCurrentViews } from '../sqlite/current-views.ts';
import { copiesSql } from './copies/copies-sql.ts';
import { deletesSql, downloadsSql, hoursSql } from './schema.ts';

/** When the newest `ok` chain began, as version 1 can tell: it did not say which entities a `degraded` run read whole. */
export const asOfByReports = `(
  SELECT max(first.started_at) FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin,
    json_each(run.report, '$.entities') AS reported
  WHERE run.connector = _sync_tables.connector AND run.state = 'ok'
    AND json_extract(reported.value, '$.entity') = _sync_tables.entity
)`;

/** What leads from each version to the next: the first one from 1 to 2. Files of any older version may be met. */
export const migrations: readonly ((db: Database.Database) => void)[] = [
  toVersion2,
  toVersion3,
  toVersion4,
  toVersion5,
  toVersion6,
  toVersion7,
];

function toVersion2(db: Database.Database): void {
  db.exec(`
ALTER TABLE _sync_tables ADD COLUMN as_of TEXT;
ALTER TABLE _sync_tables ADD COLUMN taken_over INTEGER;
UPDATE _sync_tables SET as_of = ${asOfByReports};
ALTER TABLE _sync_runs ADD COLUMN cancel_requested TEXT;
CREATE TABLE _sync_pauses (
  connector TEXT PRIMARY KEY,
  since TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`);
}

/** Partitions are made anew, because what tells them apart has changed. Nothing is known of watermarks: the next walks are full. */
function toVersion3(db: Database.Database): void {
  const kept = `id, connector, entity, params, inject, rank, tree, tree_depth, origin, found_at, due_since, ready, listed,
    position, sealed_at, sealed_run, proof, set_aside_run, failure, failed_at`;
  db.exec(`
DROP INDEX _sync_partitions_ready;
DROP INDEX _sync_partitions_due;
DROP INDEX _sync_partitions_set_aside;
DROP INDEX _sync_partitions_found;
DROP INDEX _sync_partitions_tree;
ALTER TABLE _sync_partitions RENAME TO _sync_partitions_2;
${partitionsSql}
INSERT INTO _sync_partitions (${kept}, mode) SELECT ${kept}, 'full' FROM _sync_partitions_2;
DELETE FROM sqlite_sequence WHERE name = '_sync_partitions';
UPDATE sqlite_sequence SET name = '_sync_partitions' WHERE name = '_sync_partitions_2';
DROP TABLE _sync_partitions_2;
ALTER TABLE _sync_tables ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE _sync_tables ADD COLUMN evolved TEXT NOT NULL DEFAULT '[]';
ALTER TABLE _sync_runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'sync';
ALTER TABLE _sync_runs ADD COLUMN chain TEXT NOT NULL DEFAULT '';
ALTER TABLE _sync_runs ADD COLUMN is_full INTEGER NOT NULL DEFAULT 0;
${deletesSql}
`);
  splitSeenChunks(db);
  for (const table of storedTables(db)) {
    db.exec(isSqlite(db) ? homesOfRows(table) : homesOfKeys(`_sync_keys_${table}`));
  }
}

/** Files are noted from now on: with the next walk that shows their records. */
function toVersion4(db: Database.Database): void {
  db.exec(downloadsSql);
}

/** Files that are closed already get no hash: nothing would prove it. An entity began with what it held before; of the last day nothing is known. */
function toVersion5(db: Database.Database): void {
  db.exec(`
ALTER TABLE _sync_files ADD COLUMN hash TEXT;
ALTER TABLE _sync_tables ADD COLUMN adopted_at TEXT;
ALTER TABLE _sync_tables ADD COLUMN first_origin INTEGER;
UPDATE _sync_tables SET first_origin = 0 WHERE rows > 0;
${hoursSql}
`);
  // Version 3 is made with today's table of missing rows.
  const columns = db.prepare<[], string>("SELECT name FROM pragma_table_info('_sync_missing')").pluck().all();
  if (!columns.includes('gone_run')) db.exec('ALTER TABLE _sync_missing ADD COLUMN gone_run TEXT');
}

function toVersion6(db: Database.Database): void {
  db.exec(`${copiesSql} ALTER TABLE _sync_connectors ADD COLUMN copied_to TEXT;`);
}

/** Tables that are there are told apart by the sink that they were made in. Their views need no definition, and what it says comes with the next run. */
function toVersion7(db: Database.Database): void {
  db.exec(`
ALTER TABLE _sync_tables ADD COLUMN table_id TEXT NOT NULL DEFAULT '';
ALTER TABLE _sync_tables ADD COLUMN described TEXT NOT NULL DEFAULT '{}';
ALTER TABLE _sync_tables ADD COLUMN current_view TEXT;
UPDATE _sync_tables SET table_id = (SELECT sink_id FROM _sync_meta);
`);
  if (!isSqlite(db)) return;
  db.exec(catalogSql);
  for (const connector of db
    .prepare<[], ConnectorName>('SELECT DISTINCT connector FROM _sync_tables')
    .pluck()
    .all()) {
    renewCurrentViews(db, connector);
  }
}

function isSqlite(db: Database.Database): boolean {
  return db.prepare<[], string>('SELECT kind FROM _sync_meta').pluck().get() === 'sqlite';
}

interface SeenChunk {
  readonly connector: string;
  readonly entity: string;
  readonly origin: number;
  readonly chunk: number;
  readonly bits: Buffer;
}

/** A chunk says of half as many rows now, and of those which were met in their home: that was not known before. */
function splitSeenChunks(db: Database.Database): void {
  const chunks = db
    .prepare<[], SeenChunk>('SELECT connector, entity, origin, chunk, bits FROM _sync_seen')
    .all();
  db.exec('DELETE FROM _sync_seen');
  const write = db.prepare<[string, string, number, number, Buffer]>(
    'INSERT INTO _sync_seen (connector, entity, origin, chunk, bits) VALUES (?, ?, ?, ?, ?)',
  );
  for (const { connector, entity, origin, chunk, bits } of chunks) {
    const half = bits.length / 2;
    for (const part of [0, 1]) {
      const seen = bits.subarray(part * half, (part + 1) * half);
      write.run(connector, entity, origin, 2 * chunk + part, Buffer.concat([seen, Buffer.alloc(half)]));
    }
  }
}

function storedTables(db: Database.Database): readonly string[] {
  return db
    .prepare<[], { connector: ConnectorName; entity: EntityName }>(
      'SELECT connector, entity FROM _sync_tables',
    )
    .all()
    .map(({ connector, entity }) => tableName(connector, entity));
}

function homesOfRows(table: string): string {
  return `
ALTER TABLE "${table}" ADD COLUMN _partition INTEGER;
CREATE INDEX "${table}__partition" ON "${table}" (_partition, _row);`;
}

function homesOfKeys(table: string): string {
  return `
ALTER TABLE "${table}" ADD COLUMN partition INTEGER;
ALTER TABLE "${table}" ADD COLUMN first_seen_at TEXT;
ALTER TABLE "${table}" ADD COLUMN run TEXT;
CREATE INDEX "${table}__partition" ON "${table}" (partition, row);`;
}
