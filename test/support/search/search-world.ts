import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import { instantClock } from '../instant-clock.ts';
import { type Clock, instant } from '../../../src/core/clock.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord, FieldType } from '../../../src/core/records.ts';
import type { Entity, SearchableField } from '../../../src/definitions/definition.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';
import { searchState, sqliteSql } from '../../../src/search/open-search.ts';
import { indexTable } from '../../../src/search/sqlite-index.ts';
import type { SearchAnswer } from '../../../src/search/search-request.ts';
import { searchTarget, type SearchTarget } from '../../../src/search/search-target.ts';
import { type Snapshot, quoted } from '../../../src/sql/database.ts';
import { tableName } from '../../../src/sinks/decisions/stored-table.ts';
import { openDatabase } from '../../../src/sinks/sqlite/open-database.ts';
import { sqliteFormat } from '../../../src/sinks/sqlite/sqlite-schema.ts';
import { readSqliteSink } from '../../../src/sinks/sqlite/readers.ts';
import { createTableSql } from '../../../src/sinks/records/record-tables.ts';
import { sqliteTableDialect } from '../../../src/sinks/sqlite/sqlite-tables.ts';
import { entityName, testDefinition } from '../source/test-definition.ts';

/** Columns of every type; `loose` has none. */
export const thingFields: Readonly<Record<string, FieldType>> = {
  id: 'string',
  title: 'string',
  remark: 'string',
  kind: 'string',
  amount: 'integer',
  ratio: 'number',
  is_open: 'boolean',
  tags: 'array',
  body: 'object',
  props: 'object',
  whatever: 'any',
};

/** What can be searched: fields with another name, another type, several sources, one without a column, and pairs. */
export const thingSearchable: Readonly<Record<string, SearchableField>> = {
  ...Object.fromEntries(
    Object.entries(thingFields).map(([name, type]) => [name, { type, from: [name], shape: 'asIs' as const }]),
  ),
  kind: { type: 'object', from: ['kind'], shape: 'asIs' },
  note: { type: 'string', from: ['remark', 'title'], shape: 'asIs' },
  worth: { type: 'number', from: ['amount'], shape: 'asIs' },
  whole: { type: 'integer', from: ['ratio'], shape: 'asIs' },
  props: { type: 'array', from: ['props'], shape: 'pairs' },
  loose: { type: 'any', from: ['loose'], shape: 'asIs' },
  either: { type: 'object', from: ['loose', 'body'], shape: 'asIs' },
  strict: { type: 'string', from: ['loose'], shape: 'asIs' },
};

export function thingsEntity(change: Partial<Entity> = {}): Entity {
  const [some] = testDefinition().entities.values();
  if (some === undefined) throw new Error('no entity');
  const name = entityName('things');
  return {
    ...some,
    name,
    fields: new Map(Object.entries(thingFields)),
    key: ['id'],
    searchable: new Map(Object.entries(thingSearchable)),
    table: {
      entity: name,
      columns: Object.entries(thingFields).map(([column, type]) => ({ name: column, type })),
      key: ['id'],
    },
    ...change,
  };
}

const connector = 'shop' as ConnectorName;
const now = instant(0);

export interface SearchOptions {
  readonly cursorKey?: Buffer;
  readonly scope?: string;
  readonly clock?: Clock;
  readonly deadlineMs?: number;
  /** False: every row is read. */
  readonly isIndexed?: boolean;
  /** Instead of the world's own. */
  readonly target?: SearchTarget;
}

interface FoundIds {
  readonly ids: readonly JsonValue[];
  readonly cursor: string | null;
}

export type SearchWorld = ReturnType<typeof openSearchWorld>;

/**
 * A SQLite sink's file, filled as a sync leaves it, and searches of it. `without`: columns that the tables were made
 * without.
 */
export function openSearchWorld(entity: Entity, without: readonly string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'search-'));
  const file = join(folder, 'store.db');
  const db = openDatabase({ file, format: sqliteFormat, durability: 'normal' });
  const reader = readSqliteSink(file);
  /** Of the state since something was stored last. */
  let snapshot: Snapshot | null = null;
  let hasIndex = false;
  const changed = <Result>(result: Result): Result => {
    void snapshot?.[Symbol.asyncDispose]();
    snapshot = null;
    return result;
  };
  let seq = 0;
  const nextSeq = (): number => (seq += 1);
  const tables = [entity.table, ...(entity.explodedTable === null ? [] : [entity.explodedTable])].map(
    (table): EntityTable => ({
      ...table,
      columns: table.columns.filter(({ name }) => !without.includes(name)),
    }),
  );
  const writers = new Map(tables.map((table) => [table.entity, tableWriter(db, table, entity, nextSeq)]));
  const main = (entity.explodedTable ?? entity.table).entity;
  const target = searchTarget(
    entity,
    connector,
    (name) => tables.find((table) => table.entity === name) ?? null,
  );
  const writerOf = (name: EntityName): TableWriter => {
    const writer = writers.get(name);
    if (writer === undefined) throw new Error(`no table: ${name}`);
    return writer;
  };
  const isTableThere = db.prepare<[string]>('SELECT 1 FROM sqlite_schema WHERE name = ?');
  const search = async (params: unknown, options: SearchOptions = {}): Promise<SearchAnswer> => {
    const searched = options.target ?? target;
    snapshot ??= await reader.openSnapshot();
    const sql = sqliteSql(searched, hasIndex && options.isIndexed !== false);
    const isThere = isTableThere.get(searched.table) !== undefined;
    return await searchState({ snapshot, target: searched, sql, isThere }, params, {
      cursorKey: Buffer.alloc(32, 7),
      scope: 'shop/things',
      clock: instantClock(),
      deadlineMs: 60_000,
      ...options,
    });
  };
  const pages = async (params: Readonly<Record<string, unknown>>, options?: SearchOptions) =>
    await pagesOf(async (cursor) => await search({ ...params, cursor }, options));
  return {
    db,
    target,
    /** Inserts the record or changes the one of its key; gives its row. */
    store: (raw: JsonObject, name = main): number => changed(writerOf(name).store(raw)),
    tombstone: (row: number) => changed(writerOf(main).tombstone(row)),
    index: () => {
      indexTable(file, target, hasIndex);
      hasIndex = true;
      changed(null);
    },
    search,
    pages,
    ids: async (params: Readonly<Record<string, unknown>>, options?: SearchOptions) =>
      (await pages(params, options)).flatMap(({ ids }) => ids),
    [Symbol.asyncDispose]: async () => {
      changed(null);
      await reader[Symbol.asyncDispose]();
      db.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Ids and cursors of all pages, each read with the cursor of the one before. */
export async function pagesOf(
  read: (cursor: string | null) => Promise<SearchAnswer>,
): Promise<readonly FoundIds[]> {
  const found: FoundIds[] = [];
  let cursor: string | null = null;
  do {
    if (found.length > 10_000) throw new Error('the pages do not end');
    const { data, meta }: SearchAnswer = await read(cursor);
    found.push({ ids: data.map(({ id }) => id ?? null), cursor: meta.cursor });
    cursor = meta.cursor;
  } while (cursor !== null);
  return found;
}

type TableWriter = ReturnType<typeof tableWriter>;

function tableWriter(db: Database.Database, table: EntityTable, entity: Entity, nextSeq: () => number) {
  const name = quoted(tableName(connector, table.entity));
  const statements = createTableSql(sqliteTableDialect, tableName(connector, table.entity), table);
  for (const sql of statements) db.exec(sql);
  const own = ['_extra', '_hash', '_changed_at', '_run_id', '_seq'];
  const written = [...table.columns.map((column) => column.name), ...own].map(quoted);
  const write = db
    .prepare<[...unknown[], string], number>(
      `INSERT INTO ${name} (${written.join(', ')}, _first_seen_at) VALUES (${written.map(() => '?').join(', ')}, ?)
       ON CONFLICT (${table.key.map(quoted).join(', ')}) DO UPDATE SET
         ${written.map((column) => `${column} = excluded.${column}`).join(', ')}, _deleted_at = NULL
       RETURNING _row`,
    )
    .pluck();
  const mark = db.prepare<[string, string, number, number]>(
    `UPDATE ${name} SET _deleted_at = ?, _changed_at = ?, _seq = ? WHERE _row = ?`,
  );
  const prepared = preparedAs(table, entity);
  return {
    store: (raw: JsonObject): number => {
      const { values, extra, hash } = prepared(raw);
      return write.get(...values, extra, hash, now, 'r1', nextSeq(), now) ?? 0;
    },
    tombstone: (row: number) => void mark.run(now, now, nextSeq(), row),
  };
}

/** Makes records as a sync does. */
export function preparedAs(table: EntityTable, { ignored }: Entity): (raw: JsonObject) => PreparedRecord {
  const prepare = compilePrepare({ table, ignored, volatile: [], explodedField: null });
  return (raw) => {
    const result = prepare(raw, {});
    if (result.kind === 'refused') throw new Error(result.refused.detail);
    return result.record;
  };
}
