import type Database from 'better-sqlite3';

/**
 * The sink's change counter (`_seq`). `begin` reads it and `save` writes it inside one IMMEDIATE transaction, so numbers
 * are given out in commit order and never twice: `WHERE _seq > ?` is a change feed.
 */
export interface Sequence {
  readonly begin: () => void;
  readonly next: () => number;
  readonly save: () => void;
}

export function prepareSequence(db: Database.Database): Sequence {
  const read = db.prepare<[], number>('SELECT seq FROM _sync_meta').pluck();
  const write = db.prepare<[number]>('UPDATE _sync_meta SET seq = ?');
  let stored = 0;
  let current = 0;
  return {
    begin: () => {
      stored = read.get() ?? 0;
      current = stored;
    },
    next: () => {
      current += 1;
      return current;
    },
    save: () => {
      if (current !== stored) write.run(current);
    },
  };
}
