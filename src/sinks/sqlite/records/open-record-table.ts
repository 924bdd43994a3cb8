import { keyPartsOf } from '../../../core/json-text.ts';
import type { ColumnValue, EntityTable } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx, type SqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import type { StoredRow } from '../../decisions/meet-record.ts';
import { columnsMissingIn, tableName } from '../../decisions/stored-table.ts';
import type { FoundBy, OwnedRow, KeyedRow, RecordTable, TablePlace } from '../../ledger/record-table.ts';
import { closeVersionsOf, type CloseVersions } from '../../records/close-versions.ts';
import { markRows, storedColumns, storedRow, type StoredCells } from '../../records/mark-rows.ts';
import { newestRows } from '../../records/newest-rows.ts';
import { indexSuffixes, versionsName } from '../../records/own-names.ts';

export function openRecordTable(place: TablePlace): RecordTable {
  const name = tableName(place.connector, place.table.entity);
  const versions = quoted(versionsName(name));
  const close = closeVersionsOf(quoted(name), versions, place);
  const marks = markRows(quoted(name), versions, place, close);
  return { ...findAndWrite(place, close), ...findRows(name, place.table, marks), ...marks };
}

/** The cost of every record of a page: a search for its key, and a write where it is new or changed. */
function findAndWrite(
  { connector, table, stored }: TablePlace,
  close: CloseVersions,
): Pick<RecordTable, 'find' | 'write'> {
  const name = quoted(tableName(connector, table.entity));
  const columns = table.columns.map((column) => quoted(column.name));
  const rest = table.columns.flatMap((column, index) => (table.key.includes(column.name) ? [] : [index]));
  // Key columns are not set by an update: naming them would touch their index. Undeclared columns lose their old value.
  const sets = [
    ...rest.map((index) => `${columns[index]} = ?`),
    ...columnsMissingIn(stored, table.columns).map((column) => `${quoted(column.name)} = NULL`),
  ];
  const found = `SELECT ${storedColumns.join(', ')} FROM ${name} WHERE ${keyCondition(table)}`;
  const following = `SELECT ${[...storedColumns, ...table.key.map(quoted)].join(', ')} FROM ${name}
     WHERE _row > ? ORDER BY _row LIMIT ?`;
  const insert = `INSERT INTO ${name} (_row, ${columns.join(', ')}, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash,
       _volatile_hash, _partition)
     VALUES (?, ${columns.map(() => '?').join(', ')}, ?, ?, ?, ?, ?, ?, ?, ?)`;
  const update = `UPDATE ${name} SET ${[...sets, '_extra = ?'].join(', ')}, _changed_at = ?, _run_id = ?, _seq = ?, _hash = ?,
       _volatile_hash = ?, _deleted_at = NULL
     WHERE _row = ?`;
  const keyOf = keyReader(table);
  return {
    find: async (tx, records) => {
      const byKey = new Map<string, StoredRow>();
      if (records.length === 0) return byKey;
      const statement = await sqliteTx(tx).prepared(found, { isRaw: true });
      const ahead = readAhead(await sqliteTx(tx).prepared(following, { isRaw: true }));
      for (const record of records) {
        const key = keyOf(record);
        const cells = ahead.take(key) ?? (statement.get(key) as StoredCells | undefined);
        if (cells === undefined) continue;
        ahead.met(cells);
        byKey.set(record.keyText, storedRow(cells));
      }
      return byKey;
    },
    write: async (tx, rows, stamp) => {
      if (rows.length === 0) return;
      const { now, run } = stamp;
      const newest = newestRows(rows, await stamp.takeSeqs(rows.length));
      const changing = newest.flatMap(({ row, seq, record: { hash }, owner }) =>
        owner === undefined ? [{ row, seq, hash }] : [],
      );
      close(tx, changing, now);
      const inserting = await sqliteTx(tx).prepared(insert);
      const updating = await sqliteTx(tx).prepared(update);
      for (const { row, record, seq, owner } of newest) {
        const { values, extra, hash, volatileHash } = record;
        if (owner === undefined) {
          const others = rest.map((index) => values[index]);
          updating.run(others, extra, now, run, seq, hash, volatileHash, row);
        } else {
          inserting.run(row, values, extra, now, now, run, seq, hash, volatileHash, owner);
        }
      }
    },
  };
}

const leastAhead = 16;
const mostAhead = 512;
/** Rows of records that have left the listing. */
const mostPassed = 8;

/**
 * Listings mostly come in the order in which their rows were first stored. Once a row is the next one after that of the
 * record before, the rows behind it are read in one statement, for a third of what a search for each key costs.
 */
function readAhead(following: Pick<Awaited<ReturnType<SqliteTx['prepared']>>, 'all'>) {
  let rows: readonly (readonly unknown[])[] = [];
  let at = 0;
  let last = Number.NaN;
  let size = leastAhead;
  return {
    /** The row of this key, where it is among the next of those that were read. */
    take: (key: Key): StoredCells | undefined => {
      for (let next = at; next < Math.min(at + mostPassed, rows.length); next += 1) {
        const cells = rows[next] ?? [];
        if (!isKeyIn(cells, key)) continue;
        at = next + 1;
        // `as`: as `following` selects them.
        return cells as StoredCells;
      }
      if (at < rows.length) size = leastAhead;
      rows = [];
      return undefined;
    },
    met: ([row]: StoredCells): void => {
      if (row === last + 1 && at >= rows.length) {
        rows = following.all(row, size) as unknown[][];
        at = 0;
        size = Math.min(size * 2, mostAhead);
      }
      last = row;
    },
  };
}

/** The key's cells stand behind those of `StoredCells`. */
function isKeyIn(cells: readonly unknown[], key: Key): boolean {
  const width = storedColumns.length;
  return Array.isArray(key)
    ? key.every((part, index) => cells[width + index] === part)
    : cells[width] === key;
}

type Key = ColumnValue | undefined | readonly (ColumnValue | undefined)[];

/** What a record's key is bound as: its value, or its values in the order of the table's key. */
function keyReader({ columns, key }: EntityTable): (record: FoundBy) => Key {
  const indexes = key.map((name) => columns.findIndex((column) => column.name === name));
  const [only] = indexes;
  if (only !== undefined && indexes.length === 1) return ({ values }) => values[only];
  return ({ values }) => indexes.map((index) => values[index]);
}

/** By owner and by key. */
function findRows(
  plain: string,
  table: EntityTable,
  { rows }: Pick<RecordTable, 'rows'>,
): Pick<RecordTable, 'liveRows' | 'countLive' | 'rowsOf'> {
  const name = quoted(plain);
  const isInOwner = `FROM ${name} INDEXED BY ${quoted(`${plain}${indexSuffixes.owner}`)}
    WHERE _partition = ? AND _row > ? AND _deleted_at IS NULL`;
  return {
    liveRows: async (tx, owners, limit) => {
      const statement = await sqliteTx(tx).prepared(
        `SELECT _row AS row, _partition AS owner, _changed_at AS changedAt ${isInOwner} ORDER BY _row LIMIT ?`,
      );
      const live: OwnedRow[] = [];
      for (const { owner, after } of owners) {
        if (live.length >= limit) break;
        live.push(...(statement.all(owner, after, limit - live.length) as OwnedRow[]));
      }
      return live;
    },
    countLive: async (tx, owners, most) => {
      const statement = await sqliteTx(tx).prepared(
        `SELECT count(*) AS live FROM (SELECT 1 ${isInOwner} LIMIT ?)`,
      );
      const counts = new Map<number, number>();
      for (const { owner, after } of owners) {
        const { live } = statement.get(owner, after, most) as { readonly live: number };
        if (live > 0) counts.set(owner, live);
      }
      return counts;
    },
    rowsOf: async (tx, keyTexts) => {
      const statement = await sqliteTx(tx).prepared(`SELECT _row FROM ${name} WHERE ${keyCondition(table)}`, {
        isRaw: true,
      });
      const textOfRow = new Map<number, string>();
      for (const keyText of keyTexts) {
        const parts = keyValues(table, keyText);
        const found = parts === null ? undefined : (statement.get(...parts) as [number] | undefined);
        if (found !== undefined) textOfRow.set(found[0], keyText);
      }
      const byRow = await rows(tx, [...textOfRow.keys()]);
      return new Map([...byRow].map(([row, one]): [string, KeyedRow] => [textOfRow.get(row) ?? '', one]));
    },
  };
}

/** A row by its key, with `?` for each part. */
function keyCondition({ key }: EntityTable): string {
  return key.map((column) => `${quoted(column)} = ?`).join(' AND ');
}

/**
 * What `keyCondition` compares with; null for a text that is no key of the table, such as one with an integer beyond 64
 * bits.
 */
export function keyValues({ key }: EntityTable, keyText: string): readonly ColumnValue[] | null {
  const parts = keyPartsOf(keyText, key.length);
  const isStorable = (part: ColumnValue): boolean =>
    typeof part !== 'bigint' || BigInt.asIntN(64, part) === part;
  return parts?.every(isStorable) === true ? parts : null;
}
