import type { ColumnValue } from '../../core/records.ts';
import type { SentError } from '../../search/process/fork-module.ts';
import type { PublicationText } from '../chain-problems.ts';
import type { PublishedColumn } from '../manifest.ts';
import type { TargetCheck } from '../target.ts';

/** What is asked of the process that opens DuckDB files: one request after the answer to the one before. */
export type DuckdbRequest =
  /** Up to `limit` from `first` on; with `first` null the newest one. Opens the file for reading. */
  | {
      readonly kind: 'publications';
      readonly path: string;
      readonly first: number | null;
      readonly limit: number;
    }
  | { readonly kind: 'check'; readonly path: string }
  /** Of these entities, what a publication that continues them would miss. Opens the file for reading. */
  | {
      readonly kind: 'lost';
      readonly path: string;
      readonly entities: readonly Pick<BuiltEntity, 'connector' | 'entity'>[];
    }
  /** Makes the file `to`, with all that `from` holds, and keeps it open. Null: an empty one. */
  | { readonly kind: 'build'; readonly from: string | null; readonly to: string }
  /** Prepares the table of an entity in the file that is being built. */
  | { readonly kind: 'entity'; readonly entity: BuiltEntity }
  /** Rows of that entity. */
  | { readonly kind: 'rows'; readonly rows: readonly BuiltRow[] }
  /** They are all there. */
  | { readonly kind: 'merge' }
  /**
   * Adds the manifest, forgets those that were not the newest one at `keepFrom` or later, and closes the file. Null:
   * all are kept.
   */
  | {
      readonly kind: 'finish';
      readonly publication: BuiltPublication | null;
      readonly keepFrom: string | null;
    };

export type DuckdbAnswer =
  | { readonly kind: 'publications'; readonly publications: readonly PublicationText[] }
  | { readonly kind: 'checked'; readonly check: TargetCheck }
  | { readonly kind: 'lost'; readonly lost: readonly string[] }
  | { readonly kind: 'done' }
  /** The file does not hold what the publication follows. */
  | { readonly kind: 'taken' }
  | { readonly kind: 'failed'; readonly error: SentError };

export interface BuiltEntity {
  readonly connector: string;
  readonly entity: string;
  readonly generation: number;
  readonly key: readonly string[];
  readonly columns: readonly Pick<PublishedColumn, 'name' | 'type'>[];
  readonly isNewGeneration: boolean;
}

/** The values of the columns, then `_extra`, `_seq`, `_changed_at`, `_run_id` and `_deleted` (0 or 1). */
export type BuiltRow = readonly ColumnValue[];

/** Of its texts together. */
export function charsOf(row: BuiltRow): number {
  let chars = 0;
  for (const value of row) if (typeof value === 'string') chars += value.length;
  return chars;
}

export interface BuiltPublication extends PublicationText {
  readonly createdAt: string;
  /** SHA-256 of the manifest before; null: there is none. */
  readonly previousSha256: string | null;
}
