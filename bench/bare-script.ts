import Database from 'better-sqlite3';
import { memberColumns, memberPages, printResult } from './read-members.ts';

/**
 * The baseline, as written in an hour: fetch, parse, upsert a page in one transaction, WAL; no retries, no checkpoints,
 * no reports. `node bare-script.js <base url> <database> <synchronous>`; prints its result as JSON.
 */
const [baseUrl = '', path = '', synchronous = 'NORMAL'] = process.argv.slice(2);
const columns = memberColumns();

const startedMs = performance.now();
const db = new Database(path);
db.pragma('journal_mode = WAL');
db.pragma(`synchronous = ${synchronous}`);
db.exec(
  `CREATE TABLE IF NOT EXISTS members (${columns.map(({ name, type }) => `"${name}" ${type === 'integer' || type === 'boolean' ? 'INTEGER' : type === 'number' ? 'REAL' : 'TEXT'}`).join(', ')}, PRIMARY KEY (list_id, id))`,
);
const upsert = db.prepare(
  `INSERT INTO members (${columns.map(({ name }) => `"${name}"`).join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
   ON CONFLICT (list_id, id) DO UPDATE SET ${columns.map(({ name }) => `"${name}" = excluded."${name}"`).join(', ')}`,
);
const store = db.transaction((records: readonly Record<string, unknown>[]) => {
  for (const record of records) {
    upsert.run(
      columns.map(({ name }) => {
        const value = record[name] ?? null;
        if (typeof value === 'boolean') return Number(value);
        return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
      }),
    );
  }
});

let rows = 0;
for await (const records of memberPages(baseUrl)) {
  store(records);
  rows += records.length;
}
db.close();
printResult(rows, startedMs);
