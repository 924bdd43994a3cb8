import type { Instant } from '../../../core/clock.ts';
import { keyTextOf } from '../../../core/records.ts';
import { postgresTx } from '../../../sql/postgres/session.ts';
import type { Tx, Values } from '../../../sql/database.ts';
import type {
  Stamp,
  HomedRow,
  HomeFrom,
  KeyedRow,
  RecordTable,
  TablePlace,
} from '../../ledger/record-table.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { tableAt } from './names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { canonicalKey, columnValue } from '../column-types.ts';

/** Homes and tombstones; rows by number, key and home. */
export function markRows(at: string, { connector, table }: TablePlace): Omit<RecordTable, 'find' | 'write'> {
  const name = tableAt(at, connector, table.entity);
  const keyed = `SELECT t._row, t._changed_at, t._deleted_at, t._partition, ${table.key.map((key) => `t.${quoted(key)}`).join(', ')}
    FROM ${name} AS t`;
  const mark = async (tx: Tx, rows: readonly number[], stamp: Stamp, set: string): Promise<void> => {
    if (rows.length === 0) return;
    const { now, run } = stamp;
    tx.put(
      `UPDATE ${name} AS t SET ${set}, _changed_at = :now::timestamptz, _run_id = :run, _seq = :first::bigint + v.n - 1
       FROM unnest(:rows::bigint[]) WITH ORDINALITY AS v(row, n) WHERE t._row = v.row`,
      { rows, now, run, first: await stamp.takeSeqs(rows.length) },
    );
  };
  const rowNumbers = async (tx: Tx, sql: string, values: Values): Promise<number[]> =>
    (await postgresTx(tx).arrays(sql, values)).map(([row]) => Number(row));
  return {
    setHomes: (tx, homes) => {
      if (homes.length === 0) return;
      tx.put(
        `UPDATE ${name} AS t SET _partition = v.home FROM unnest(:rows::bigint[], :homes::bigint[]) AS v(row, home)
         WHERE t._row = v.row`,
        { rows: homes.map(({ row }) => row), homes: homes.map(({ home }) => home) },
      );
    },
    liveRows: async (tx, homes, limit) =>
      await tx.rows<HomedRow>(
        `SELECT few.row, few.home, few.changed_at FROM (
           SELECT v.n, v.home, live.row, live.changed_at FROM ${ofHomes}
           CROSS JOIN LATERAL (SELECT t._row AS row, t._changed_at AS changed_at FROM ${name} AS t WHERE ${isAtHome}
             ORDER BY t._row LIMIT :limit) AS live
           LIMIT :limit) AS few
         ORDER BY few.n, few.row`,
        { ...boundHomes(homes), limit },
      ),
    countLive: async (tx, homes, most) => {
      const counted = await postgresTx(tx).arrays(
        `SELECT v.home, (SELECT count(*) FROM (SELECT 1 FROM ${name} AS t WHERE ${isAtHome} LIMIT :most) AS live) FROM ${ofHomes}`,
        { ...boundHomes(homes), most },
      );
      return new Map(
        counted.flatMap(([home, rows]) => (Number(rows) > 0 ? [[Number(home), Number(rows)]] : [])),
      );
    },
    liveBefore: async (tx, before, after, limit) =>
      await rowNumbers(
        tx,
        `SELECT _row FROM ${name} WHERE _first_seen_at < :before::timestamptz AND _row > :after AND _deleted_at IS NULL
         ORDER BY _row LIMIT :limit`,
        { before, after, limit },
      ),
    rows: async (tx, rows) => {
      // Asked for none, the server may look at all.
      if (rows.length === 0) return new Map();
      const found = await postgresTx(tx).arrays(`${keyed} WHERE t._row = ANY(:rows::bigint[])`, { rows });
      return new Map(found.map((cells) => [Number(cells[0]), keyedRow(cells)]));
    },
    rowsOf: async (tx, keyTexts) => {
      const known = keyTexts.flatMap((text) => {
        const canonical = canonicalKey(table, text);
        return canonical === null ? [] : [{ text, hash: textHash(canonical) }];
      });
      if (known.length === 0) return new Map();
      const sql = keyed.replace('SELECT', 'SELECT k.n,');
      const found = await postgresTx(tx).arrays(
        `${sql} JOIN unnest(:keys::bytea[]) WITH ORDINALITY AS k(key, n) ON t._key = k.key`,
        { keys: known.map(({ hash }) => hash) },
      );
      return new Map(found.map(([n, ...cells]) => [known[Number(n) - 1]?.text ?? '', keyedRow(cells)]));
    },
    tombstone: async (tx, rows, stamp) => await mark(tx, rows, stamp, '_deleted_at = :now::timestamptz'),
    revive: async (tx, rows, stamp) => await mark(tx, rows, stamp, '_deleted_at = NULL'),
    tombstonedBy: async (tx, run, limit) =>
      await rowNumbers(
        tx,
        `SELECT _row FROM ${name} WHERE _deleted_at IS NOT NULL AND _run_id = :run ORDER BY _row LIMIT :limit`,
        { run, limit },
      ),
  };
}

/**
 * Through the index on the home, one partition after the other: what is LATERAL can be looked up in no other order, and
 * as soon as there are enough rows it stops. Sorted in front of its limit, it would read the rows of all of them
 * wherever the server has no statistics yet.
 */
const ofHomes = 'unnest(:homes::bigint[], :afters::bigint[]) WITH ORDINALITY AS v(home, after, n)';
const isAtHome = 't._partition = v.home AND t._row > v.after AND t._deleted_at IS NULL';

function boundHomes(homes: readonly HomeFrom[]): Record<'homes' | 'afters', readonly number[]> {
  return { homes: homes.map(({ home }) => home), afters: homes.map(({ after }) => after) };
}

function keyedRow([row, changedAt, deletedAt, home, ...key]: readonly unknown[]): KeyedRow {
  return {
    row: Number(row),
    keyText: keyTextOf(key.map(columnValue)),
    changedAt: changedAt as Instant,
    deletedAt: deletedAt as Instant | null,
    home: home as number | null,
  };
}
