import { join } from 'node:path';
import Database from 'better-sqlite3';
import { fileSinkKind, type FileSinkKind } from '../../contracts/file-sink/file-sink-kind.ts';
import {
  Bench,
  member,
  membersTable,
  onlyPartition,
  page,
  type Started,
} from '../../contracts/sink/fixture.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { openSearchIndex } from '../../../src/search/index/open-search-index.ts';
import type { Piece } from '../../../src/search/sql-piece.ts';
import { updateSearchIndex } from '../../../src/search/index/update-search-index.ts';
import type { SearchField, SearchTarget } from '../../../src/search/search-target.ts';
import type { RunPlan, Sink } from '../../../src/sinks/sink.ts';
import { openSqliteSink } from '../../../src/sinks/sqlite/open-ledger.ts';

const fileIn = (folder: string): string => join(folder, 'main.db');

export const sqlite: FileSinkKind = {
  ...fileSinkKind({
    options: (folder) => ({ type: 'sqlite', name: 'main', path: fileIn(folder), durability: 'normal' }),
    ledgerFile: fileIn,
  }),
  open: (folder, how) => openSqliteSink({ durability: 'normal', ...how, file: fileIn(folder) }),
};

export const never = new AbortController().signal;

/** Every column of the members, and `nick`, which no column holds. */
export const membersTarget: SearchTarget = {
  table: 'news__members',
  parent: null,
  fields: new Map(
    [
      ...membersTable.columns.map(({ name, type }): SearchField => ({
        name,
        type,
        sources: [{ kind: 'column', column: name, type }],
        shape: 'asIs',
      })),
      {
        name: 'nick',
        type: 'string',
        sources: [{ kind: 'extra', name: 'nick' }],
        shape: 'asIs',
      } as const,
    ].map((field) => [field.name, field]),
  ),
};

export interface IndexContents {
  readonly state: readonly unknown[];
  readonly rowsOfWords: string;
  readonly spellings: readonly string[];
  /** How many, of all spellings. */
  readonly trigrams: number;
}

/** The index of a file that no process may be writing. */
export class IndexFile {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  /** Ids that the index gives for words in a field; null where it cannot tell. */
  withWord(field: string, ...words: readonly string[]): readonly string[] | null {
    return this.read((db, target) => idsOf(db, openSearchIndex(db, target).rowsWithWord(field, words)));
  }

  near(field: string, ...words: readonly string[]): readonly string[] | null {
    return this.read((db, target) => idsOf(db, openSearchIndex(db, target).rowsNearWords(field, words)));
  }

  indexedSeq(target = membersTarget): number {
    return this.read((db) => openSearchIndex(db, target).indexedSeq);
  }

  read<Result>(look: (db: Database.Database, target: SearchTarget) => Result): Result {
    const db = new Database(this.file, { readonly: true });
    try {
      return look(db, membersTarget);
    } finally {
      db.close();
    }
  }

  /**
   * Everything that the index says: up to where, which rows have which word in which field, and what is spelled how.
   */
  contents(): IndexContents {
    return this.read((db) => {
      for (const list of ['words', 'trigrams']) {
        db.exec(
          `CREATE VIRTUAL TABLE temp.${list} USING fts5vocab(main, '_search_news__members__${list}', 'instance')`,
        );
      }
      const all = (sql: string): readonly unknown[] => db.prepare(sql).raw().all();
      return {
        state: all('SELECT * FROM _search_index'),
        rowsOfWords: JSON.stringify(all('SELECT term, doc FROM temp.words ORDER BY term, doc')),
        spellings: db
          .prepare<[], string>('SELECT word FROM _search_news__members__spellings ORDER BY word')
          .pluck()
          .all(),
        trigrams: all('SELECT 1 FROM temp.trigrams').length,
      };
    });
  }

  write(sql: string): void {
    const db = new Database(this.file);
    db.exec(sql);
    db.close();
  }
}

/** A sink of members in an unfinished run, and its index. */
export class IndexWorld extends IndexFile {
  readonly bench: Bench;
  readonly sink: Sink;
  readonly started: Started;
  readonly #partition: number;

  private constructor(made: { sink: Sink; started: Started; partition: number }, bench: Bench) {
    super(sqlite.ledgerFile(bench.folder));
    this.bench = bench;
    this.sink = made.sink;
    this.started = made.started;
    this.#partition = made.partition;
  }

  static async open(): Promise<IndexWorld> {
    const bench = new Bench(sqlite);
    const sink = await bench.open();
    const started = await bench.begin(sink, 'run-1');
    const { id } = await onlyPartition(sink, started.lease);
    return new IndexWorld({ sink, started, partition: id }, bench);
  }

  /** The next run of the same sink, after the lease was given back; closed with the first. */
  static async again({ bench, sink }: IndexWorld, change: Partial<RunPlan> = {}): Promise<IndexWorld> {
    const started = await bench.begin(sink, 'run-2', { isFull: true, ...change });
    const { id } = await onlyPartition(sink, started.lease);
    return new IndexWorld({ sink, started, partition: id }, bench);
  }

  async store(...records: readonly PreparedRecord[]): Promise<void> {
    await this.sink.commit(this.started.lease, [page(this.started, this.#partition, records)]);
  }

  async storeMany(count: number, nameOf: (index: number) => string): Promise<void> {
    await this.store(...Array.from({ length: count }, (_, index) => member(String(index), nameOf(index))));
  }

  async update(target = membersTarget): Promise<number> {
    return (await updateSearchIndex(this.file, target, { signal: never })).rows;
  }

  async close(): Promise<void> {
    await this.bench.close();
  }
}

/** Those of live rows: what is tombstoned is not there for a search. */
function idsOf(db: Database.Database, part: Piece | null): readonly string[] | null {
  if (part === null) return null;
  return db
    .prepare<unknown[], string>(
      `SELECT id FROM news__members WHERE _row IN (${part.sql}) AND _deleted_at IS NULL ORDER BY _row`,
    )
    .pluck()
    .all(...part.values);
}
