import { readFileSync, renameSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import * as z from 'zod';
import { applicationId } from '../../../src/sinks/sqlite/open-database.ts';

export type OlderVersion = 1 | 2 | 3 | 4 | 5 | 6;

/** The highest number that a partition of an older file has had. */
export const lastPartition = 41;

/** Turns a closed sink's file into what that version would have left of the same runs: its tables, columns and reports. */
export function makeOlder(file: string, version: OlderVersion): void {
  const older = `${file}.older`;
  const db = new Database(older);
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  db.exec(readFileSync(new URL(`../../fixtures/ledger/version-${version}.sql`, import.meta.url), 'utf8'));
  db.prepare('ATTACH ? AS newer').run(file);
  for (const sql of texts(db, version < 3 ? withoutHomes : recordTables)) db.exec(sql);
  if (version < 3) dropNewerColumns(db);
  for (const table of texts(db, "SELECT name FROM main.sqlite_schema WHERE type = 'table'")) {
    if (table.startsWith('sqlite_')) continue;
    const columns = columnsOf(db, table).map((name) => `"${name}"`);
    db.exec(`INSERT INTO main."${table}" (${columns.join()}) SELECT ${columns.join()} FROM newer."${table}"`);
  }
  for (const report of texts(db, 'SELECT report FROM _sync_runs WHERE report IS NOT NULL')) {
    db.prepare('UPDATE _sync_runs SET report = ? WHERE report = ?').run(olderReport(report, version), report);
  }
  for (const failure of texts(db, 'SELECT failure FROM _sync_partitions WHERE failure IS NOT NULL')) {
    const text = version < 3 ? without(failure, ['dropWatermark']) : failure;
    db.prepare('UPDATE _sync_partitions SET failure = ? WHERE failure = ?').run(text, failure);
  }
  // As if partitions with higher numbers had come and gone: a number is never given twice.
  db.exec(`UPDATE sqlite_sequence SET seq = ${lastPartition} WHERE name = '_sync_partitions'`);
  db.pragma(`application_id = ${applicationId}`);
  db.pragma(`user_version = ${version}`);
  db.close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
  renameSync(older, file);
}

/** What the record store has made beside the ledger's tables, tables before their indexes. */
const recordTables = `
SELECT sql FROM newer.sqlite_schema
WHERE sql IS NOT NULL AND type <> 'view' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_\\_lost' ESCAPE '\\'
  AND (tbl_name LIKE '\\_sync\\_keys\\_%' ESCAPE '\\' OR tbl_name NOT LIKE '\\_sync\\_%' ESCAPE '\\')
ORDER BY type DESC`;

/** Before version 3 nobody knew which partition a row is at home in. */
const withoutHomes = recordTables.replace('AND (', "AND name NOT LIKE '%\\_\\_partition' ESCAPE '\\' AND (");

/** The partition a row is at home in, and what a table of keys knows of a row's beginning. */
function dropNewerColumns(db: Database.Database): void {
  const names = texts(db, "SELECT name FROM main.sqlite_schema WHERE type = 'table'");
  for (const table of names) {
    const isKeys = table.startsWith('_sync_keys_');
    if (!isKeys && table.startsWith('_sync_')) continue;
    const newer = new Set(isKeys ? ['partition', 'first_seen_at', 'run'] : ['_partition']);
    for (const name of columnsOf(db, table).filter((column) => newer.has(column))) {
      db.exec(`ALTER TABLE main."${table}" DROP COLUMN "${name}"`);
    }
  }
}

const saidSince2 = ['recovery', 'resumeAt', 'isWhole'];
const saidSince3 = [
  'kind',
  'left',
  'keyset',
  'incremental',
  'deleted',
  'withheld',
  'pending',
  'withdrawn',
  'withheldBecause',
];

const saidSince4 = ['files'];
const saidSince5 = ['withholding'];

/** Older versions said less about a run. */
function olderReport(text: string, version: OlderVersion): string {
  return without(text, [
    ...(version < 2 ? saidSince2 : []),
    ...(version < 3 ? saidSince3 : []),
    ...(version < 4 ? saidSince4 : []),
    ...saidSince5,
  ]);
}

function without(text: string, members: readonly string[]): string {
  const newer = new Set(members);
  return JSON.stringify(JSON.parse(text, (name, value: unknown) => (newer.has(name) ? undefined : value)));
}

function columnsOf(db: Database.Database, table: string): readonly string[] {
  return texts(db, "SELECT name FROM pragma_table_info(?, 'main')", table);
}

function texts(db: Database.Database, sql: string, ...values: readonly string[]): readonly string[] {
  return z.array(z.string()).parse(
    db
      .prepare(sql)
      .pluck()
      .all(...values),
  );
}
