import type { Instant } from '../../../core/clock.ts';
import type { RunId } from '../../../core/names.ts';
import type { ColumnValue } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';
import type { CopiedRecord, CopiedTable } from '../../copies.ts';

const own =
  '_row, _extra, _first_seen_at, _changed_at, _run_id, _seq, _hash, _volatile_hash, _deleted_at, _partition'.split(
    ', ',
  );

/** The columns of a whole row, quoted: the sink's own that every database has, then those of its fields. */
export function wholeColumns({ stored }: Pick<CopiedTable, 'stored'>): readonly string[] {
  return [...own, ...stored.map(({ name }) => quoted(name))];
}

/** Cells in the order of `wholeColumns`. */
export type WholeRow = [
  row: number | bigint,
  extra: string | null,
  firstSeenAt: Instant,
  changedAt: Instant,
  run: RunId,
  seq: number | bigint,
  hash: string,
  volatileHash: string | null,
  deletedAt: Instant | null,
  home: number | bigint | null,
  ...values: unknown[],
];

/** `valueOf` reads the cell of a field as records have it. */
export function copiedRecord(cells: WholeRow, valueOf: (cell: unknown) => ColumnValue): CopiedRecord {
  const [row, extra, firstSeenAt, changedAt, run, seq, hash, volatileHash, deletedAt, home, ...values] =
    cells;
  return {
    row: Number(row),
    firstSeenAt,
    changedAt,
    run,
    seq: Number(seq),
    hash,
    volatileHash,
    deletedAt,
    home: home === null ? null : Number(home),
    extra,
    values: values.map(valueOf),
  };
}
