import { readFileSync, renameSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { z } from 'zod';
import { applicationId } from '../../../src/sinks/ledger/schema.ts';

const schema = readFileSync(new URL('../../fixtures/ledger/version-1.sql', import.meta.url), 'utf8');

/** Turns a closed sink's file into what version 1 would have left of the same runs: its tables, its columns, its reports. */
export function makeVersion1(file: string): void {
  const older = `${file}.1`;
  const db = new Database(older);
  db.pragma('page_size = 16384');
  db.pragma('journal_mode = WAL');
  db.exec(schema);
  db.prepare('ATTACH ? AS newer').run(file);
  for (const sql of texts(db, recordTables)) db.exec(sql);
  for (const table of texts(db, "SELECT name FROM main.sqlite_schema WHERE type = 'table'")) {
    if (table.startsWith('sqlite_')) continue;
    const columns = texts(db, 'SELECT name FROM pragma_table_info(?)', table).map((name) => `"${name}"`);
    db.exec(`INSERT INTO main."${table}" (${columns.join()}) SELECT ${columns.join()} FROM newer."${table}"`);
  }
  for (const report of texts(db, 'SELECT report FROM _sync_runs WHERE report IS NOT NULL')) {
    db.prepare('UPDATE _sync_runs SET report = ? WHERE report = ?').run(olderReport(report), report);
  }
  db.pragma(`application_id = ${applicationId}`);
  db.pragma('user_version = 1');
  db.close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(`${file}${suffix}`, { force: true });
  renameSync(older, file);
}

/** What the record store has made beside the ledger's tables, tables before their indexes. */
const recordTables = `
SELECT sql FROM newer.sqlite_schema
WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' AND tbl_name <> '_sync_pauses'
  AND tbl_name NOT IN (SELECT name FROM main.sqlite_schema)
ORDER BY type DESC`;

/** Version 1 said less about a run. */
function olderReport(text: string): string {
  const newer = new Set(['recovery', 'resumeAt', 'isWhole']);
  return JSON.stringify(JSON.parse(text, (name, value: unknown) => (newer.has(name) ? undefined : value)));
}

function texts(db: Database.Database, sql: string, ...values: readonly string[]): readonly string[] {
  return z.array(z.string()).parse(
    db
      .prepare(sql)
      .pluck()
      .all(...values),
  );
}
