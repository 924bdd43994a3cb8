import Database from 'better-sqlite3';
import { resolve } from 'node:path';
import { sqliteKind, type FileSinkKind } from '../../contracts/file-sink/file-sink-kind.ts';
import {
  Bench,
  membersTable,
  type Started,
  type Walking,
  news,
  record,
  rootOf,
} from '../../contracts/sink/fixture.ts';
import type { PreparedRecord } from '../../../src/core/records.ts';
import { always } from '../../../src/search/narrowing.ts';
import { indexTable, isIndexed, rowsWithPart, indexEntity } from '../../../src/search/sqlite-index.ts';
import type { SearchField, SearchTarget } from '../../../src/search/search-target.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { openSqliteSink } from '../../../src/sinks/sqlite/sqlite-sink.ts';
import { readSqliteSink } from '../../../src/sinks/sqlite/readers.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { JsonObject } from '../../../src/core/json.ts';
import type { EntityName } from '../../../src/core/names.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { loadDefinitions } from '../../../src/definitions/load-definitions.ts';
import {
  openSearchProcesses,
  type SearchCall,
  type SearchProcesses,
  type SearchProcessesOptions,
} from '../../../src/search/process/open-search-processes.ts';

export const sqlite: FileSinkKind = {
  ...sqliteKind,
  open: (folder, how) =>
    openSqliteSink({ durability: 'normal', ...how, file: sqliteKind.ledgerFile(folder) }),
};

export const never = new AbortController().signal;

/** Every column of the members, and `nick`, which no column holds. */
export const membersTarget: SearchTarget = {
  table: 'news__members',
  chosen: { sql: 'r._deleted_at IS NULL', values: [] },
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

/** The index of a file that no process may be writing. */
export class IndexFile {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  /** Ids of the rows that a search reads for words that have one of the parts in the field; null: of all rows. */
  read(field: string, ...parts: readonly string[]): readonly string[] | null {
    const found = membersTarget.fields.get(field);
    if (found === undefined) throw new Error(`no field ${field}`);
    const part = rowsWithPart(membersTarget, found, parts, { after: -1, to: null });
    if (part === always) return null;
    return this.look((db) =>
      db
        .prepare<unknown[], string>(
          `SELECT id FROM news__members AS r WHERE ${part.sql} AND _deleted_at IS NULL ORDER BY _row`,
        )
        .pluck()
        .all(...part.values),
    );
  }

  async hasIndex(target = membersTarget): Promise<boolean> {
    await using db = readSqliteSink(this.file);
    return await db.read(async (tx) => await isIndexed(tx, target));
  }

  look<Result>(look: (db: Database.Database) => Result): Result {
    const db = new Database(this.file, { readonly: true });
    try {
      return look(db);
    } finally {
      db.close();
    }
  }

  /** Everything that the index says: which rows have which letters. */
  contents(): string {
    return this.look((db) => {
      db.exec(
        `CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, '_search_news__members__texts', 'instance')`,
      );
      return JSON.stringify(
        db.prepare('SELECT DISTINCT term, doc FROM temp.terms ORDER BY 1, 2').raw().all(),
      );
    });
  }
}

/** A sink of members in an unfinished run, and its index. */
export class IndexWorld extends IndexFile {
  readonly bench: Bench;
  readonly sink: Sink;
  readonly started: Started;
  readonly #commit: Walking['commit'];

  private constructor({ sink, started, commit }: Walking, bench: Bench) {
    super(sqlite.ledgerFile(bench.folder));
    this.bench = bench;
    this.sink = sink;
    this.started = started;
    this.#commit = commit;
  }

  static async open(): Promise<IndexWorld> {
    const bench = new Bench(sqlite);
    return new IndexWorld(await bench.walking('run-1'), bench);
  }

  /** The next run of the same sink, after the lease was given back; closed with the first. */
  static async again({ bench, sink }: IndexWorld, change: Partial<RunPlan> = {}): Promise<IndexWorld> {
    return new IndexWorld(await bench.walking('run-2', { isFull: true, ...change }, { sink }), bench);
  }

  async store(...records: readonly PreparedRecord[]): Promise<void> {
    await this.#commit(records);
  }

  async index(target = membersTarget): Promise<void> {
    indexTable(this.file, target, await this.hasIndex(target));
  }

  async close(): Promise<void> {
    await this.bench.close();
  }
}

export const listMembers = entityOf('list_members');

/** Of a run that reads list members alone. */
const membersPlan = {
  tables: [listMembers.table],
  entities: [listMembers.name],
  roots: [rootOf(listMembers.name)],
};

/** A closed sink with members, indexed where `isIndexed`. */
export async function sinkOfMembers(
  bench: Bench,
  members: readonly PreparedRecord[],
  { isIndexed }: { readonly isIndexed: boolean },
): Promise<string> {
  const { commit } = await bench.walking('run-1', membersPlan);
  await commit(members, { entity: listMembers.name });
  await bench.closeSinks();
  const file = sqlite.ledgerFile(bench.folder);
  if (isIndexed) await indexEntity(file, news, listMembers);
  return file;
}

export function listMember(
  id: string,
  values: Readonly<Record<string, string | number | null>> = {},
): PreparedRecord {
  return record(listMembers.table, { list_id: 'a', id, ...values });
}

export function callFor(file: string, params: JsonObject): SearchCall {
  return { file, connector: news, entity: listMembers, params, scope: 'c-1/list_members' };
}

export function openProcesses(change: Partial<SearchProcessesOptions> = {}): SearchProcesses {
  return openSearchProcesses({
    processes: 1,
    deadlineMs: 5_000,
    maxWaiting: 8,
    cursorKey: Buffer.alloc(32, 7),
    clock: systemClock,
    ...change,
  });
}

function entityOf(name: string): Entity {
  const definitions = loadDefinitions([resolve(import.meta.dirname, '../../../config/definitions')]);
  const entity = definitions.get('email-marketing')?.entities.get(name as EntityName);
  if (entity === undefined) throw new Error(`no entity ${name}`);
  return entity;
}
