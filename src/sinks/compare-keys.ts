import type Database from 'better-sqlite3';
import { openSqlite } from './ledger/open-sqlite.ts';
import type { KeyAndHash } from './record-reader.ts';

export interface KeyDifferences {
  /** In the first only. */
  readonly missing: KeyGroup;
  /** In the second only. */
  readonly extra: KeyGroup;
  /** In both, with different content. */
  readonly changed: KeyGroup;
  readonly same: number;
}

export interface KeyGroup {
  readonly count: number;
  /** The first of them, in the order of their texts. */
  readonly first: readonly string[];
}

const insertAtOnce = 10_000;

/** Compares two sets of rows of any size; `scratchFile` is made for it and holds them meanwhile, so that memory stays flat. */
export async function compareKeys(
  first: AsyncIterable<readonly KeyAndHash[]>,
  second: AsyncIterable<readonly KeyAndHash[]>,
  { scratchFile, limit }: { readonly scratchFile: string; readonly limit: number },
): Promise<KeyDifferences> {
  const db = openSqlite(scratchFile);
  try {
    // What is lost with the process is no loss.
    db.pragma('journal_mode = OFF');
    db.pragma('synchronous = OFF');
    await fill(db, 'first', first);
    await fill(db, 'second', second);
    const group = (from: string): KeyGroup => ({
      count: db.prepare<[], number>(`SELECT count(*) ${from}`).pluck().get() ?? 0,
      first: db
        .prepare<[number], string>(`SELECT one.key ${from} ORDER BY one.key LIMIT ?`)
        .pluck()
        .all(limit),
    });
    const both = 'FROM first AS one JOIN second AS other USING (key)';
    return {
      missing: group('FROM first AS one WHERE NOT EXISTS (SELECT 1 FROM second WHERE second.key = one.key)'),
      extra: group('FROM second AS one WHERE NOT EXISTS (SELECT 1 FROM first WHERE first.key = one.key)'),
      changed: group(`${both} WHERE one.hash <> other.hash`),
      same: db.prepare<[], number>(`SELECT count(*) ${both} WHERE one.hash = other.hash`).pluck().get() ?? 0,
    };
  } finally {
    db.close();
  }
}

async function fill(
  db: Database.Database,
  table: 'first' | 'second',
  batches: AsyncIterable<readonly KeyAndHash[]>,
): Promise<void> {
  db.exec(`CREATE TABLE ${table} (key TEXT PRIMARY KEY, hash TEXT NOT NULL) WITHOUT ROWID`);
  const insert = db.prepare<[string, string]>(`INSERT INTO ${table} (key, hash) VALUES (?, ?)`);
  db.exec('BEGIN');
  let inserted = 0;
  for await (const rows of batches) {
    for (const { keyText, hash } of rows) insert.run(keyText, hash);
    inserted += rows.length;
    if (inserted < insertAtOnce) continue;
    db.exec('COMMIT; BEGIN');
    inserted = 0;
  }
  db.exec('COMMIT');
}
