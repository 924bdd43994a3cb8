import type { ErrorCode } from '../../core/errors.ts';
import type { Params } from '../../core/records.ts';
import type { PageLength, Position, Proof } from '../../sinks/partition.ts';
import type { NextPage } from '../../source/source.ts';
import type { ChangeSpan } from '../prepare/change-span.ts';

/**
 * How one kind of walk goes from page to page: pure, so that every rule can be tried without a server. A position is what the
 * ledger keeps; whatever a strategy needs to go on after a kill is in it.
 */
export interface Pagination {
  /** The position of a walk that has read nothing. */
  begin(): Position;
  /** Parameters of the call that `position` asks for: paging, and the lower bound of an incremental walk. */
  request(position: Position): Params;
  /** What a page means for the walk. */
  advance(position: Position, page: PageSeen): Advance;
  /** The same place with half the page size; null when it cannot be halved any more. */
  halve(position: Position): Position | null;
  /** Why the position cannot be asked for any more (a page token past its lifetime); null when it can. */
  expired(position: Position, nowMs: number): string | null;
}

export interface PageSeen {
  /** One mark per record in the response's order: equal marks mean the same record. */
  readonly marks: readonly string[];
  /** One per record: its change values; null where it has none. Empty where only full walks are made. */
  readonly changes: readonly (ChangeSpan | null)[];
  /** When the walk began, by the service's clock: what changed later is read again by the next walk. */
  readonly capMs: number;
  readonly bytes: number;
  readonly next: NextPage | null;
  readonly nowMs: number;
}

export type Advance =
  /** `isFurther`: the page reached behind what was read before, as far as its place tells. */
  | {
      readonly kind: 'continue';
      readonly position: Position;
      readonly isFurther: boolean;
      /** A page of this length was not the last one, which was not known before. */
      readonly followed?: PageLength;
    }
  /** `lastPage`: it was the last one because it was short. */
  | {
      readonly kind: 'end';
      readonly position: Position;
      readonly proof: Proof;
      readonly lastPage?: PageLength;
    }
  /** The walk must begin again; at most three times a run, then it is set aside with `code`. */
  | { readonly kind: 'restart'; readonly code: ErrorCode; readonly why: string }
  /** The service contradicts itself: beginning again would not help. `dropWatermark`: reading in full may. */
  | {
      readonly kind: 'broken';
      readonly code: ErrorCode;
      readonly why: string;
      readonly dropWatermark: boolean;
    };
