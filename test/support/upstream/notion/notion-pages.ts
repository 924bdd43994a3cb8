import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../../../src/core/json.ts';
import { textOf } from '../../../../src/sample/sample-values.ts';
import { staleCursor } from './notion-errors.ts';

/** Records to cut a page out of. */
export interface NotionListing {
  /**
   * Tells one listing from all others, whatever its pages' size: a cursor is good for the listing that it was given in.
   */
  readonly name: string;
  readonly records: readonly JsonObject[];
  /** A listing in the order of this field; null: in the owner's order. */
  readonly sortedBy: { readonly field: string; readonly isAscending: boolean } | null;
}

export interface NotionPage {
  readonly results: readonly JsonObject[];
  readonly next_cursor: string | null;
  readonly has_more: boolean;
}

/** The place before the next record, such that records which come, go and move elsewhere do not shift it. */
interface Place {
  readonly listing: string;
  readonly lastId: string | null;
  readonly lastValue: string;
  readonly nextId: string;
}

export interface NotionPages {
  cut(listing: NotionListing, cursor: string | null, size: number): NotionPage;
  /** No cursor that was given so far is taken from now on. */
  expireCursors(): void;
  /** From now on pages are shorter than asked for, or every other one is empty, with more to come. */
  shorten(how: { readonly atMost?: number; readonly isEveryOtherEmpty?: boolean }): void;
}

export function openNotionPages(): NotionPages {
  const places = new Map<string, Place>();
  let atMost = Number.POSITIVE_INFINITY;
  let isEveryOtherEmpty = false;
  let pages = 0;

  const startOf = (listing: NotionListing, cursor: string | null): number => {
    if (cursor === null) return 0;
    const place = places.get(cursor);
    if (place === undefined || place.listing !== listing.name) throw staleCursor();
    return positionOf(listing, place);
  };

  const cursorAt = (listing: NotionListing, start: number): string => {
    const cursor = randomUUID();
    const last = listing.records[start - 1];
    places.set(cursor, {
      listing: listing.name,
      lastId: last === undefined ? null : textOf(last['id']),
      lastValue: textOf(last?.[listing.sortedBy?.field ?? 'id']),
      nextId: textOf(listing.records[start]?.['id']),
    });
    return cursor;
  };

  return {
    cut(listing, cursor, size) {
      const start = startOf(listing, cursor);
      pages += 1;
      const length = isEveryOtherEmpty && pages % 2 === 0 ? 0 : Math.min(size, atMost);
      const end = Math.min(start + length, listing.records.length);
      const hasMore = end < listing.records.length;
      return {
        results: listing.records.slice(start, end),
        next_cursor: hasMore ? cursorAt(listing, end) : null,
        has_more: hasMore,
      };
    },
    expireCursors: () => places.clear(),
    shorten(how) {
      ({ atMost = Number.POSITIVE_INFINITY, isEveryOtherEmpty = false } = how);
    },
  };
}

function positionOf({ records, sortedBy }: NotionListing, place: Place): number {
  const { lastId, lastValue, nextId } = place;
  if (lastId === null) return 0;
  const valueOf = (record: JsonObject): string => textOf(record[sortedBy?.field ?? 'id']);
  const last = records.findIndex((record) => record['id'] === lastId);
  if (last !== -1 && (sortedBy === null || valueOf(records[last] ?? {}) === lastValue)) return last + 1;
  if (sortedBy === null) {
    const next = records.findIndex(({ id }) => id === nextId);
    if (next === -1) throw staleCursor();
    return next;
  }
  // From the last record's own value on: what shares it comes again rather than not at all.
  const next = records.findIndex((record) =>
    sortedBy.isAscending ? valueOf(record) >= lastValue : valueOf(record) <= lastValue,
  );
  return next === -1 ? records.length : next;
}
