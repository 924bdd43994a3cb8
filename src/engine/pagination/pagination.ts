import type { ErrorCode } from '../../core/errors.ts';
import type { Params } from '../../core/records.ts';
import type { Entity } from '../../definitions/definition.ts';
import type { Position, Proof } from '../../sinks/sink.ts';
import type { NextPage } from '../../source/source.ts';
import { offsetPagination, type LargestPages } from './offset.ts';
import { pageTokenPagination } from './page-token.ts';
import { singlePagination } from './single.ts';

/**
 * How one kind of paging walks: pure, so that every rule can be tried without a server. A position is what the ledger
 * keeps; whatever a strategy needs to go on after a kill is in it.
 */
export interface Pagination {
  /** The position of a walk that has read nothing. */
  begin(): Position;
  /** Paging parameters of the call that `position` asks for. */
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
  readonly bytes: number;
  readonly next: NextPage | null;
  readonly nowMs: number;
}

export type Advance =
  | { readonly kind: 'continue'; readonly position: Position }
  | { readonly kind: 'end'; readonly position: Position; readonly proof: Proof }
  /** The walk must begin again; at most three times a run, then it is set aside with `code`. */
  | { readonly kind: 'restart'; readonly code: ErrorCode; readonly why: string }
  /** The service contradicts itself: beginning again would not help. */
  | { readonly kind: 'broken'; readonly code: ErrorCode; readonly why: string };

/** `largestPages` is shared by all partitions of one entity in a run: it shows what the server caps a page at. */
export function paginationOf(entity: Entity, largestPages: LargestPages): Pagination {
  const { pagination } = entity;
  switch (pagination.kind) {
    case 'offset':
      return offsetPagination(pagination, { isOrdered: entity.order !== null, largestPages });
    case 'pageToken':
      return pageTokenPagination(pagination);
    case 'single':
      return singlePagination();
  }
}
