import { openSqlite, type Connection } from '../sql/sqlite/open-sqlite.ts';
import type { ComparedRow } from './readings.ts';

export type KeyDifferences = Awaited<ReturnType<typeof compareKeys>>;

export interface KeyGroup {
  readonly count: number;
  /** The first of them, in the order of their texts. */
  readonly first: readonly string[];
}

type Rows = AsyncIterable<readonly ComparedRow[]>;

const writtenAtOnce = 10_000;

/**
 * Compares two sets of rows of any size; `scratchFile` is made for it and holds them meanwhile, so that memory stays
 * flat.
 */
export async function compareKeys(
  first: Rows,
  second: Rows,
  { scratchFile, limit }: { readonly scratchFile: string; readonly limit: number },
) {
  const db = openSqlite(scratchFile);
  try {
    // If the process ends, this file is not needed.
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
    const isOfSame = "(one.hash = other.hash AND one.hash <> '')";
    const both = 'FROM first AS one JOIN second AS other USING (key)';
    return {
      /** In the first only. */
      missing: group('FROM first AS one WHERE NOT EXISTS (SELECT 1 FROM second WHERE second.key = one.key)'),
      /** In the second only. */
      extra: group('FROM second AS one WHERE NOT EXISTS (SELECT 1 FROM first WHERE first.key = one.key)'),
      /** In both, with different content. */
      changed: group(`${both} WHERE one.digest <> other.digest AND NOT ${isOfSame}`),
      /** Rows that were stored from the same record, with different content. */
      edited: group(`${both} WHERE one.digest <> other.digest AND ${isOfSame}`),
      same:
        db.prepare<[], number>(`SELECT count(*) ${both} WHERE one.digest = other.digest`).pluck().get() ?? 0,
    };
  } finally {
    db.close();
  }
}

async function fill(db: Connection, table: 'first' | 'second', batches: Rows): Promise<void> {
  db.exec(
    `CREATE TABLE ${table} (key TEXT PRIMARY KEY, hash TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID`,
  );
  const insert = db.prepare<ComparedRow>(`INSERT INTO ${table} VALUES (:keyText, :hash, :digest)`);
  db.exec('BEGIN');
  let written = 0;
  for await (const rows of batches) {
    for (const row of rows) insert.run(row);
    written += rows.length;
    if (written < writtenAtOnce) continue;
    db.exec('COMMIT; BEGIN');
    written = 0;
  }
  db.exec('COMMIT');
}
