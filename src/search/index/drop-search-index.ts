import { quoted } from '../../sql/quoted.ts';
import { openSqlite } from '../../sql/sqlite/open-sqlite.ts';

/** Drops every search index of a file; searches read all rows until it is made again. */
export function dropSearchIndex(file: string): void {
  const db = openSqlite(file, { fileMustExist: true });
  try {
    const named = (virtual: string) =>
      db
        .prepare<[], string>(
          `SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '_search_*' AND sql ${virtual} 'CREATE VIRTUAL TABLE*'`,
        )
        .pluck()
        .all();
    db.transaction(() => {
      // Tables of an index that belong to a virtual one go with it.
      for (const name of named('GLOB')) db.exec(`DROP TABLE ${quoted(name)}`);
      for (const name of named('NOT GLOB')) db.exec(`DROP TABLE ${quoted(name)}`);
    }).immediate();
  } finally {
    db.close();
  }
}
