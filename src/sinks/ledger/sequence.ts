import type Database from 'better-sqlite3';

/** The sink's change counter (`_seq`): read and written inside one IMMEDIATE transaction, so numbers are given in commit order and never twice. */
export function prepareSequence(db: Database.Database) {
  const read = db.prepare<[], number>('SELECT seq FROM _sync_meta').pluck();
  const write = db.prepare<[number]>('UPDATE _sync_meta SET seq = ?');
  let stored = 0;
  let current = 0;
  return {
    begin: (): void => {
      stored = read.get() ?? 0;
      current = stored;
    },
    next: (): number => {
      current += 1;
      return current;
    },
    save: (): void => {
      if (current !== stored) write.run(current);
    },
  };
}
