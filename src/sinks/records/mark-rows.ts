import type { Instant } from '../../core/clock.ts';
import {
  keyTextOf,
  type ColumnValue,
  type EntityTable,
  type Column,
  type RowContent,
} from '../../core/records.ts';
import { type Tx, type Values, quoted } from '../../sql/database.ts';
import type { StoredRow } from '../decisions/meet-record.ts';
import { columnsMissingIn } from '../decisions/stored-table.ts';
import type { ChangedRow, KeyedRow, RecordTable, Stamp, TablePlace, WrittenRow } from '../ledger/driver.ts';
import { versionOwn } from './own-names.ts';

export type Marks = Pick<
  RecordTable,
  'setOwners' | 'setHashes' | 'contents' | 'rows' | 'tombstone' | 'revive'
> &
  Undoing;
type Undoing = Pick<RecordTable, 'changedBy' | 'restore'>;

/**
 * Owners and tombstones, and rows by number: the same statements on every database. `name`, `versions`: the tables as
 * statements name them.
 */
export function markRows(name: string, versions: string, place: TablePlace, close: CloseVersions): Marks {
  const { table } = place;
  const change = changing(close);
  const marked = `UPDATE ${name} SET _deleted_at = :deletedAt, _changed_at = :now, _run_id = :run, _seq = :first + v.n - 1
    FROM {v: row bigint, n} WHERE _row = v.row`;
  const owned = `UPDATE ${name} SET _partition = v.owner FROM {v: row bigint, owner bigint} WHERE _row = v.row`;
  const mark = async (tx: Tx, rows: readonly number[], stamp: Stamp, deletedAt: Instant | null) => {
    const given = rows.map((row) => ({ row }));
    await change(tx, marked, given, stamp, { deletedAt });
  };
  const columns = [...place.stored, ...columnsMissingIn(table.columns, place.stored)];
  const contents = `SELECT _row, _extra${columns.map((column, index) => `, ${quoted(column.name)} AS c${index}`).join('')}
    FROM ${name} WHERE _row IN {rows bigint}`;
  return {
    setOwners: (tx, v) => {
      if (v.length > 0) tx.put(owned, { v });
    },
    setHashes: (tx, v) => {
      if (v.length === 0) return;
      tx.put(`UPDATE ${name} SET _hash = v.hash FROM {v: row bigint, hash text} WHERE _row = v.row`, { v });
    },
    contents: async (tx, rows) => {
      if (rows.length === 0) return new Map();
      const found = await tx.rows<Readonly<Record<string, unknown>>>(contents, { rows });
      return new Map(
        found.map((cells): [number, RowContent] => {
          const [row, extra, ...values] = Object.values(cells);
          // `as`: texts are stored there.
          return [Number(row), { columns, values: values.map(columnValue), extra: extra as string | null }];
        }),
      );
    },
    rows: async (tx, rows) => {
      // Without rows, the server could read the whole table.
      if (rows.length === 0) return new Map();
      const found = await tx.rows<KeyedCells>(
        `SELECT ${keyedColumns(table)} FROM ${name} AS t WHERE t._row IN {rows bigint}`,
        { rows },
      );
      return new Map(found.map((cells) => [cells.row, keyedRow(cells, table)]));
    },
    tombstone: async (tx, rows, stamp) => await mark(tx, rows, stamp, stamp.now),
    revive: async (tx, rows, stamp) => await mark(tx, rows, stamp, null),
    ...undoing(name, versions, place, close),
  };
}

/** Closes the open versions of rows, and writes the rows with the numbers of these changes, from `:first` upwards. */
function changing(close: CloseVersions) {
  return async (
    tx: Tx,
    sql: string,
    v: readonly { readonly row: number }[],
    { now, run, takeSeqs }: Stamp,
    values: Values = {},
  ): Promise<void> => {
    if (v.length === 0) return;
    const first = await takeSeqs(v.length);
    const seqs = v.map(({ row }, index) => ({ row, seq: first + index, isSame: false }));
    close(tx, seqs, now);
    tx.put(sql, { ...values, v, now, run, first });
  };
}

/** Finds the rows that a run has changed, with their state before it, and restores them. */
function undoing(name: string, versions: string, place: TablePlace, close: CloseVersions): Undoing {
  const { table, stored, versions: kept } = place;
  // If a run has only rewritten a row with other volatile fields, the open version is older than the run.
  const isOlder = `(t._valid_seq IS NOT NULL AND ${beganAt} < :startedAt)`;
  // The version before the run is followed by one of the run: if not, versions were not kept all the time.
  const withVersion =
    kept === undefined
      ? `FROM ${name} AS t`
      : `, b._seq AS version, b._deleted_at AS was_deleted_at, (b._hash = t._hash AND b._hash <> '') OR ${isOlder} AS is_same
      FROM ${name} AS t LEFT JOIN ${versions} AS b ON b._row = t._row
        AND b._seq = (SELECT max(one._seq) FROM ${versions} AS one
          WHERE one._row = t._row AND (one._run_id <> :run OR one._valid_from < :startedAt))
        AND (b._seq_to = ${beganWith} OR EXISTS (SELECT 1 FROM ${versions} AS next
          WHERE next._row = b._row AND next._seq = b._seq_to AND next._run_id = :run))`;
  const columns = [...stored, ...columnsMissingIn(table.columns, stored)]
    .filter((column) => !table.key.includes(column.name))
    .map((column) => quoted(column.name));
  const restored = [...columns, '_extra', '_hash'].map((column) => `${column} = b.${column}`);
  const restoring = `UPDATE ${name} AS t SET ${restored.join(', ')}, _deleted_at = NULL, _changed_at = :now,
      _run_id = :run, _seq = :first + v.n - 1
    FROM {v: row bigint, version bigint, n} JOIN ${versions} AS b ON b._row = v.row AND b._seq = v.version
    WHERE t._row = v.row`;
  const change = changing(close);
  return {
    changedBy: async (tx, run, after, limit) =>
      await tx.rows<ChangedRow>(
        `SELECT t._row AS row, t._deleted_at AS deleted_at ${withVersion}
         WHERE t._run_id = :run AND t._row > :after ORDER BY t._row LIMIT :limit`,
        { ...run, after, limit },
      ),
    restore: async (tx, rows, stamp) => {
      const given = rows.map(({ row, version = null }) => ({ row, version }));
      await change(tx, restoring, given, stamp);
    },
  };
}

/** A `KeyedRow` as a statement gives it: the values of the key are `k0`, `k1` and so on. */
export type KeyedCells = Omit<KeyedRow, 'keyText'> & Readonly<Record<string, unknown>>;

/** The columns of `KeyedCells` in the table `t`. */
export function keyedColumns({ key }: Pick<EntityTable, 'key'>): string {
  const values = key.map((column, index) => `, t.${quoted(column)} AS k${index}`);
  return `t._row AS row, t._changed_at AS changed_at, t._deleted_at AS deleted_at, t._partition AS owner${values.join('')}`;
}

export function keyedRow(cells: KeyedCells, { key }: Pick<EntityTable, 'key'>): KeyedRow {
  const { row, changedAt, deletedAt, owner } = cells;
  const keyText = keyTextOf(key.map((_, index) => columnValue(cells[`k${index}`])));
  return { row, keyText, changedAt, deletedAt, owner };
}

/** A column's value as the database gives it, as records have it. */
export function columnValue(value: unknown): ColumnValue {
  return typeof value === 'boolean' ? Number(value) : (value as ColumnValue);
}

/** Columns that `RecordTable.find` reads, in the order of `StoredCells`. */
export const storedColumns = ['_row', '_hash', '_changed_at', '_deleted_at', '_partition'];

/**
 * Cells of a row as an array: rows as objects would take a third longer. `n`: index of the requested record, from 1.
 */
export type StoredCells = [
  row: number,
  hash: string,
  changedAt: Instant,
  deletedAt: Instant | null,
  owner: number | null,
  n?: number,
];

export function storedRow([row, hash, changedAt, deletedAt, owner]: StoredCells): StoredRow {
  return { row, hash, changedAt, deletedAt, owner };
}

export interface NewestRow extends WrittenRow {
  readonly seq: number;
}

/** Keeps each row once, as it was written last; a new row stays new. */
export function newestRows(rows: readonly WrittenRow[], firstSeq: number): readonly NewestRow[] {
  // Most rows are written once, in the order of their numbers.
  if (rows.every(({ row }, index) => index === 0 || row > (rows[index - 1]?.row ?? 0))) {
    return rows.map(({ row, record, isSame, owner }, index) => {
      const one = { row, record, isSame, seq: firstSeq + index };
      return owner === undefined ? one : { ...one, owner };
    });
  }
  const newest = new Map<number, NewestRow>();
  for (const [index, one] of rows.entries()) {
    const { row, record } = one;
    const before = newest.get(row);
    const owner = one.owner === undefined ? before?.owner : one.owner;
    const isSame = one.isSame && before?.isSame !== false;
    newest.set(row, {
      row,
      record,
      isSame,
      seq: firstSeq + index,
      ...(owner === undefined ? {} : { owner }),
    });
  }
  return [...newest.values()];
}

/** A row that is about to change. */
export interface ChangingRow {
  readonly row: number;
  /** The number of the change. */
  readonly seq: number;
  /** Only volatile fields change. */
  readonly isSame: boolean;
}

/**
 * Keeps the present content of the rows as closed versions. Called before each statement that gives rows a new change
 * number, with all of them.
 */
export type CloseVersions = (tx: Tx, rows: readonly ChangingRow[], now: Instant) => void;

/** When the open version of a row of `t` began, and with which change. A row that never changed says so itself. */
export const beganAt = 'coalesce(t._valid_from, t._changed_at)';
export const beganWith = 'coalesce(t._valid_seq, t._seq)';

/** Volatile fields alone are no new version. A row that comes back is one. */
const isChanged = '(v.is_same = 0 OR t._deleted_at IS NOT NULL)';
const rowsGiven = '{v: row bigint, seq bigint, is_same integer}';

/**
 * The open version of a row is the row itself; `versions` is the table of closed ones. `_valid_from` and `_valid_seq`
 * are null while a row is as its newest change has left it. They say otherwise when its version began where the row was
 * written again without another content, or where the clock did not go on: each version ends after it began.
 */
export function closeVersionsOf(name: string, versions: string, place: TablePlace): CloseVersions {
  const { table, stored, versions: kept } = place;
  if (kept === undefined) return () => undefined;
  const columns = [...stored, ...columnsMissingIn(table.columns, stored)].map((column) =>
    quoted(column.name),
  );
  const close = `INSERT INTO ${versions} (${[...versionOwn.map((column) => column.name), ...columns].join(', ')})
    SELECT v.seq, t._row, ${beganWith}, ${beganAt}, CASE WHEN :now > ${beganAt} THEN :now ELSE {next ${beganAt}} END,
      t._run_id, t._deleted_at, t._hash, t._extra${columns.map((column) => `, t.${column}`).join('')}
    FROM ${rowsGiven} JOIN ${name} AS t ON t._row = v.row
    WHERE ${isChanged}`;
  const begin = `UPDATE ${name} AS t SET
      _valid_from = CASE WHEN NOT ${isChanged} THEN ${beganAt} WHEN :now <= ${beganAt} THEN {next ${beganAt}} END,
      _valid_seq = CASE WHEN NOT ${isChanged} THEN ${beganWith} END
    FROM ${rowsGiven} WHERE t._row = v.row
      AND (NOT ${isChanged} OR t._valid_from IS NOT NULL OR t._valid_seq IS NOT NULL OR :now <= t._changed_at)`;
  return (tx, rows, now) => {
    if (rows.length === 0) return;
    const v = rows.map(({ row, seq, isSame }) => ({ row, seq, isSame: Number(isSame) }));
    if (kept.isOn) tx.put(close, { v, now });
    tx.put(begin, { v, now });
  };
}

/**
 * Selects every version of every row: the closed ones, and the rows as the open ones. Columns of a view may only be
 * added at its end, so the columns of records come last, in the order in which they were added.
 */
export function historySelect(name: string, versions: string, columns: readonly Column[]): string {
  const rest = columns.map((column) => `, t.${quoted(column.name)}`).join('');
  const common = `t._run_id, t._deleted_at, t._extra${rest}`;
  return `SELECT t._row, t._seq, t._seq_to, t._valid_from, t._valid_to, ${common} FROM ${versions} AS t
    UNION ALL SELECT t._row, ${beganWith}, NULL, ${beganAt}, NULL, ${common} FROM ${name} AS t`;
}
