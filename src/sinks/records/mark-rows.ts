import type { Instant } from '../../core/clock.ts';
import { keyTextOf, type ColumnValue, type EntityTable } from '../../core/records.ts';
import { columnOf, type Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import type { StoredRow } from '../decisions/meet-record.ts';
import type { KeyedRow, RecordTable, Stamp } from '../ledger/record-table.ts';
import type { CloseVersions } from './close-versions.ts';

type Marks = Pick<RecordTable, 'setOwners' | 'liveBefore' | 'rows' | 'tombstone' | 'revive' | 'tombstonedBy'>;

/**
 * Owners and tombstones, and rows by number: the same statements on every database. `name`: the table as statements
 * name it.
 */
export function markRows(name: string, table: Pick<EntityTable, 'key'>, close: CloseVersions): Marks {
  const mark = async (
    tx: Tx,
    rows: readonly number[],
    { now, run, takeSeqs }: Stamp,
    deletedAt: Instant | null,
  ): Promise<void> => {
    if (rows.length === 0) return;
    const first = await takeSeqs(rows.length);
    close(
      tx,
      rows.map((row, index) => ({ row, seq: first + index, hash: null })),
      now,
    );
    tx.put(
      `UPDATE ${name} SET _deleted_at = :deletedAt, _changed_at = :now, _run_id = :run, _seq = :first + v.n - 1
       FROM {v: row bigint, n} WHERE _row = v.row`,
      { v: rows.map((row) => ({ row })), deletedAt, now, run, first },
    );
  };
  return {
    setOwners: (tx, owners) => {
      if (owners.length === 0) return;
      tx.put(
        `UPDATE ${name} SET _partition = v.owner FROM {v: row bigint, owner bigint} WHERE _row = v.row`,
        {
          v: owners,
        },
      );
    },
    liveBefore: async (tx, before, after, limit) =>
      await columnOf(
        tx,
        `SELECT _row FROM ${name} WHERE _first_seen_at < :before AND _row > :after AND _deleted_at IS NULL
         ORDER BY _row LIMIT :limit`,
        { before, after, limit },
      ),
    rows: async (tx, rows) => {
      // Without any, the server could read the whole table.
      if (rows.length === 0) return new Map();
      const found = await tx.rows<KeyedCells>(
        `SELECT ${keyedColumns(table)} FROM ${name} AS t WHERE t._row IN {rows bigint}`,
        { rows },
      );
      return new Map(found.map((cells) => [cells.row, keyedRow(cells, table)]));
    },
    tombstone: async (tx, rows, stamp) => await mark(tx, rows, stamp, stamp.now),
    revive: async (tx, rows, stamp) => await mark(tx, rows, stamp, null),
    tombstonedBy: async (tx, run, limit) =>
      await columnOf(
        tx,
        `SELECT _row FROM ${name} WHERE _deleted_at IS NOT NULL AND _run_id = :run ORDER BY _row LIMIT :limit`,
        { run, limit },
      ),
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

/** What `RecordTable.find` reads of a row, in the order of `StoredCells`. */
export const storedColumns = ['_row', '_hash', '_volatile_hash', '_changed_at', '_deleted_at', '_partition'];

/** As an array: rows as objects would take a third longer. `n`: the record that was asked for, from 1. */
export type StoredCells = [
  row: number,
  hash: string,
  volatileHash: string | null,
  changedAt: Instant,
  deletedAt: Instant | null,
  owner: number | null,
  n?: number,
];

export function storedRow([row, hash, volatileHash, changedAt, deletedAt, owner]: StoredCells): StoredRow {
  return { row, hash, volatileHash, changedAt, deletedAt, owner };
}

/** Reads `StoredRowFacts`. */
export function rowFactsSql(name: string, condition: string): string {
  return `SELECT _row AS row, _first_seen_at AS first_seen_at, _changed_at AS changed_at, _run_id AS run,
      _deleted_at AS deleted_at, _seq AS seq, _partition AS owner
    FROM ${name} WHERE ${condition}`;
}
