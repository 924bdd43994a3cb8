import type { Instant } from '../../../core/clock.ts';
import { keyTextOf, type ColumnValue } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { sqliteTx } from '../../../sql/sqlite/sqlite-tx.ts';
import { tableName } from '../../decisions/stored-table.ts';
import type { HomedRow, KeyedRow, RecordTable, TablePlace, Stamp } from '../../ledger/record-table.ts';
import { homeIndexName, keyCondition, keyValues } from './table-sql.ts';

/**
 * Homes and tombstones; rows by number, key and home. A key is read with whole integers, so that its text is to the
 * digit what was prepared.
 */
export function markRows({ connector, table }: TablePlace): Omit<RecordTable, 'find' | 'write'> {
  const plain = tableName(connector, table.entity);
  const name = quoted(plain);
  const keyed = `SELECT _row, _changed_at, _deleted_at, _partition, ${table.key.map(quoted).join(', ')} FROM ${name}`;
  const isAtHome = `FROM ${name} INDEXED BY ${quoted(homeIndexName(plain))}
    WHERE _partition = ? AND _row > ? AND _deleted_at IS NULL`;
  const mark = async (
    tx: Tx,
    rows: readonly number[],
    stamp: Stamp,
    deletedAt: Instant | null,
  ): Promise<void> => {
    if (rows.length === 0) return;
    const { now, run } = stamp;
    let seq = await stamp.takeSeqs(rows.length);
    const statement = await sqliteTx(tx).prepared(
      `UPDATE ${name} SET _deleted_at = ?, _changed_at = ?, _run_id = ?, _seq = ? WHERE _row = ?`,
    );
    for (const row of rows) {
      statement.run(deletedAt, now, run, seq, row);
      seq += 1;
    }
  };
  return {
    setHomes: (tx, homes) => {
      if (homes.length === 0) return;
      tx.put(`UPDATE ${name} SET _partition = v.home FROM {v: row bigint, home bigint} WHERE _row = v.row`, {
        v: homes,
      });
    },
    liveRows: async (tx, homes, limit) => {
      const statement = await sqliteTx(tx).prepared(
        `SELECT _row AS row, _partition AS home, _changed_at AS changedAt ${isAtHome} ORDER BY _row LIMIT ?`,
      );
      const live: HomedRow[] = [];
      for (const { home, after } of homes) {
        if (live.length >= limit) break;
        live.push(...(statement.all(home, after, limit - live.length) as HomedRow[]));
      }
      return live;
    },
    countLive: async (tx, homes, most) => {
      const statement = await sqliteTx(tx).prepared(
        `SELECT count(*) AS live FROM (SELECT 1 ${isAtHome} LIMIT ?)`,
      );
      const counts = new Map<number, number>();
      for (const { home, after } of homes) {
        const { live } = statement.get(home, after, most) as { readonly live: number };
        if (live > 0) counts.set(home, live);
      }
      return counts;
    },
    liveBefore: async (tx, before, after, limit) =>
      rowNumbers(
        await tx.rows(
          `SELECT _row AS row FROM ${name} WHERE _first_seen_at < :before AND _row > :after AND _deleted_at IS NULL
           ORDER BY _row LIMIT :limit`,
          { before, after, limit },
        ),
      ),
    rows: async (tx, rows) => {
      const statement = await sqliteTx(tx).prepared(`${keyed} WHERE _row = ?`, { isRaw: true, isWide: true });
      const found = new Map<number, KeyedRow>();
      for (const row of rows) {
        const cells = statement.get(row);
        if (cells !== undefined) found.set(row, keyedRow(cells as RawRow));
      }
      return found;
    },
    rowsOf: async (tx, keyTexts) => {
      const statement = await sqliteTx(tx).prepared(`${keyed} WHERE ${keyCondition(table)}`, {
        isRaw: true,
        isWide: true,
      });
      const found = new Map<string, KeyedRow>();
      for (const keyText of keyTexts) {
        const parts = keyValues(table, keyText);
        const cells = parts === null ? undefined : statement.get(...parts);
        if (cells !== undefined) found.set(keyText, keyedRow(cells as RawRow));
      }
      return found;
    },
    tombstone: async (tx, rows, stamp) => await mark(tx, rows, stamp, stamp.now),
    revive: async (tx, rows, stamp) => await mark(tx, rows, stamp, null),
    tombstonedBy: async (tx, run, limit) =>
      rowNumbers(
        await tx.rows(
          `SELECT _row AS row FROM ${name} WHERE _deleted_at IS NOT NULL AND _run_id = :run ORDER BY _row LIMIT :limit`,
          { run, limit },
        ),
      ),
  };
}

type RawRow = [
  row: bigint,
  changedAt: Instant,
  deletedAt: Instant | null,
  home: bigint | null,
  ...key: ColumnValue[],
];

function keyedRow([row, changedAt, deletedAt, home, ...key]: RawRow): KeyedRow {
  return {
    row: Number(row),
    keyText: keyTextOf(key),
    changedAt,
    deletedAt,
    home: home === null ? null : Number(home),
  };
}

function rowNumbers(rows: readonly { readonly row: number }[]): readonly number[] {
  return rows.map(({ row }) => row);
}
