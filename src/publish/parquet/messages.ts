import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import type { ColumnValue } from '../../core/records.ts';
import type { SentError } from '../../search/process/fork-module.ts';
import type { StoredRecord } from '../../sinks/record-reader.ts';
import type { RowsOfFile } from '../row-file.ts';
import type { RecordColumn } from './parquet-columns.ts';

/** To the process. Files have numbers, and several may be open. */
export type Request =
  | {
      readonly kind: 'create';
      readonly file: number;
      readonly path: string;
      readonly columns: readonly RecordColumn[];
    }
  | { readonly kind: 'write'; readonly file: number; readonly rows: readonly SentRow[] }
  | { readonly kind: 'close'; readonly file: number; readonly expected: RowsOfFile }
  /** It will be removed. */
  | { readonly kind: 'leave'; readonly file: number };

/** One to each request, in their order. A file that failed is closed. */
export type Answer =
  | { readonly kind: 'done'; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'failed'; readonly error: SentError };

/** A `StoredRecord` without the names of its members: with them it takes a process twice the time to receive one. */
export type SentRow = readonly [
  isDeleted: boolean,
  seq: number,
  changedAt: Instant,
  run: RunId,
  extra: string | null,
  ...values: readonly ColumnValue[],
];

export function sentRow({ isDeleted, seq, changedAt, run, extra, values }: StoredRecord): SentRow {
  return [isDeleted, seq, changedAt, run, extra, ...values];
}

export function receivedRecord([isDeleted, seq, changedAt, run, extra, ...values]: SentRow): StoredRecord {
  return { isDeleted, seq, changedAt, run, extra, values };
}
