import type { Column } from '../../core/records.ts';
import type { Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import type { CopiedRecord } from '../copies.ts';
import { movedNumber } from '../copies/facts.ts';
import { onePageOf } from '../copies/in-pages.ts';
import { columnValue } from './mark-rows.ts';

/** The sink's own columns that every database has, and their names in a copy. */
const own = {
  _row: 'row',
  _extra: 'extra',
  _first_seen_at: 'first_seen_at',
  _changed_at: 'changed_at',
  _run_id: 'run',
  _seq: 'seq',
  _hash: 'hash',
  _volatile_hash: 'volatile_hash',
  _deleted_at: 'deleted_at',
  _partition: 'owner',
} as const;

export const wholeColumns = Object.keys(own) as readonly (keyof typeof own)[];

type WholeRow = Omit<CopiedRecord, 'values'> & Readonly<Record<string, unknown>>;

/** `RecordTables.readWhole`, of the table that statements call `name`. */
export async function readWhole(
  tx: Tx,
  name: string,
  stored: readonly Column[],
  { after, limit }: { readonly after: number; readonly limit: number },
): Promise<readonly CopiedRecord[]> {
  const values = stored.map((column, index) => `${quoted(column.name)} AS c${index}`);
  const sql = `SELECT ${[...Object.entries(own).map(([column, as]) => `${column} AS "${as}"`), ...values].join(', ')}
    FROM ${name} WHERE _row > :after ORDER BY _row LIMIT :limit`;
  const names = [...Object.values(own).map(quoted), ...stored.map((_, index) => `c${index}`)];
  const long = stored.flatMap(({ type }, index) => (isLong(type) ? [`c${index}`] : []));
  const page = onePageOf(sql, {
    names,
    long: ['extra', ...long].map((column) => `CAST(${column} AS TEXT)`),
    order: '"row"',
  });
  const rows = await tx.rows<WholeRow>(page, { after, limit });
  return rows.map(
    ({ row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, owner, ...cells }) => ({
      row,
      extra,
      firstSeenAt,
      changedAt,
      run,
      seq,
      hash,
      volatileHash,
      deletedAt,
      owner,
      values: stored.map((_, index) => columnValue(cells[`c${index}`])),
    }),
  );
}

function isLong(type: Column['type']): boolean {
  return type !== 'integer' && type !== 'number' && type !== 'boolean';
}

/** In the order of `wholeColumns`; `shift` is added to the number of the owner. */
export function wholeCells(record: CopiedRecord, shift: number): readonly (string | number | null)[] {
  const { row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt } = record;
  const owner = movedNumber(record.owner, shift);
  return [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, owner];
}
