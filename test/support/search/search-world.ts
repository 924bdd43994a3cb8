import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type Database from 'better-sqlite3';
import { instantClock } from '../instant-clock.ts';
import { type Clock, instant } from '../../../src/core/clock.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { compilePrepare } from '../../../src/engine/prepare/prepare-record.ts';
import { openSearchIndex, type SearchIndex } from '../../../src/search/index/open-search-index.ts';
import { updateSearchIndex } from '../../../src/search/index/update-search-index.ts';
import { readSearchRequest } from '../../../src/search/read-request.ts';
import { searchRecords } from '../../../src/search/search-records.ts';
import type { SearchAnswer } from '../../../src/search/search-request.ts';
import { searchTarget, type SearchTarget } from '../../../src/search/search-target.ts';
import { openDatabase } from '../../../src/sinks/file-ledger/open-database.ts';
import type { RecordTable, TablePlace } from '../../../src/sinks/file-ledger/record-store.ts';
import { ensureTable } from '../../../src/sinks/sqlite/ensure-table.ts';
import { openSqliteTable } from '../../../src/sinks/sqlite/sqlite-table.ts';

const connector = 'shop' as ConnectorName;
const now = instant(0);

export interface SearchOptions {
  readonly cursorKey?: Buffer;
  readonly scope?: string;
  readonly clock?: Clock;
  readonly deadlineMs?: number;
  /** False: every row is looked at. */
  readonly isIndexed?: boolean;
  /** Instead of the world's own. */
  readonly target?: SearchTarget;
}

/** A SQLite sink's file, filled as a sync fills it, and searches of it. */
export interface SearchWorld extends Disposable {
  readonly db: Database.Database;
  readonly target: SearchTarget;
  /** Inserts the record or changes the one of its key; gives its row. */
  store(raw: JsonObject, entity?: EntityName): number;
  tombstone(row: number): void;
  index(): Promise<void>;
  search(params: unknown, options?: SearchOptions): SearchAnswer;
  /** Ids of all pages, each read with the cursor of the one before. */
  ids(params: Readonly<Record<string, unknown>>, options?: SearchOptions): readonly JsonValue[];
}

/** `without`: columns that the tables were made without. */
export function openSearchWorld(entity: Entity, without: readonly string[] = []): SearchWorld {
  const folder = mkdtempSync(join(tmpdir(), 'search-'));
  const file = join(folder, 'store.db');
  const db = openDatabase({ file, kind: 'sqlite', durability: 'normal', now });
  let seq = 0;
  const stamp = { run: 'r1' as RunId, now, nextSeq: () => (seq += 1) };
  const tables = [entity.table, ...(entity.explodedTable === null ? [] : [entity.explodedTable])].map(
    (table): EntityTable => ({
      ...table,
      columns: table.columns.filter(({ name }) => !without.includes(name)),
    }),
  );
  const writers = new Map(tables.map((table) => [table.entity, tableWriter(db, table, entity, stamp)]));
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
  const search = (params: unknown, options: SearchOptions = {}): SearchAnswer => {
    const searched = options.target ?? target;
    return db.transaction(() =>
      searchRecords(db, searched, readSearchRequest(params, searched), {
        index: options.isIndexed === false ? noIndex : openSearchIndex(db, searched),
        cursorKey: Buffer.alloc(32, 7),
        scope: 'shop/things',
        clock: instantClock(),
        deadlineMs: 60_000,
        ...options,
      }),
    )();
  };
  return {
    db,
    target,
    store: (raw, name = main) => writerOf(name).store(raw),
    tombstone: (row) => writerOf(main).table.tombstone(row, stamp),
    index: async () => void (await updateSearchIndex(file, target, { signal: new AbortController().signal })),
    search,
    ids: (params, options) => {
      const ids: JsonValue[] = [];
      let cursor: string | null = null;
      do {
        if (ids.length > 10_000) throw new Error('the pages do not end');
        const { data, meta } = search({ ...params, cursor }, options);
        ids.push(...data.map(({ id }) => id ?? null));
        cursor = meta.cursor;
      } while (cursor !== null);
      return ids;
    },
    [Symbol.dispose]: () => {
      db.close();
      rmSync(folder, { recursive: true });
    },
  };
}

interface TableWriter {
  readonly table: RecordTable;
  store(raw: JsonObject): number;
}

function tableWriter(
  db: Database.Database,
  table: EntityTable,
  entity: Entity,
  stamp: TablePlace['stamp'],
): TableWriter {
  const place: TablePlace = { connector, epoch: 1, table, stored: [], filled: [], stamp };
  ensureTable(db, place);
  const records = openSqliteTable(db, { ...place, stored: table.columns });
  const prepare = compilePrepare({ table, ignored: entity.ignored, volatile: [], explodedField: null });
  const prepared = (raw: JsonObject): PreparedRecord => {
    const result = prepare(raw, {});
    if (result.kind === 'refused') throw new Error(result.refused.detail);
    return result.record;
  };
  return {
    table: records,
    store: (raw) => {
      const record = prepared(raw);
      const row = records.find(record)?.row;
      if (row === undefined) return records.insert(record, null, stamp);
      records.update(row, record, stamp);
      return row;
    },
  };
}

/** Nothing was indexed: every row is looked at. */
const noIndex: SearchIndex = {
  indexedSeq: 0,
  rowsWithWord: () => null,
  rowsNearWords: () => null,
  isInOrderAsStored: () => false,
};
