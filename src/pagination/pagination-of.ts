import * as z from 'zod';
import { timeFormat } from '../core/time-format.ts';
import type { Params } from '../core/records.ts';
import type { Entity, Pagination as PaginationRules } from '../definitions/definition.ts';
import type { Partition, Position } from '../sinks/partition.ts';
import * as paging from './pagination.ts';
import {
  cutPagination,
  keysetPagination,
  newestFirstPagination,
  sincePagination,
} from './incremental-walks.ts';
import { numberedStyle } from './numbered.ts';
import { offsetStyle } from './offset.ts';
import { lastRecordStyle, pageTokenStyle } from './page-token.ts';

type Reading = Pick<Partition, 'mode' | 'watermark' | 'storedRows'>;

/** Every style has its object here. */
export function styleOf(pagination: PaginationRules): paging.PaginationStyle {
  switch (pagination.kind) {
    case 'offset':
      return offsetStyle(pagination);
    case 'page':
      return numberedStyle(pagination);
    case 'pageToken':
      return pageTokenStyle(pagination);
    case 'lastRecord':
      return lastRecordStyle(pagination);
    case 'single':
      return singleStyle(pagination);
  }
}

/** Gives the walk of one listing: in full by the style of its pagination, or around that from a watermark on. */
export function paginationOf(
  entity: Entity,
  reading: Reading,
  ofEntity: Pick<paging.Listing, 'pageLengths' | 'trustsTotal'>,
): paging.Pagination {
  const { incremental, pagination } = entity;
  const isOrdered = entity.order !== null || entity.growsOnly;
  const listing = { ...ofEntity, isOrdered, growsOnly: entity.growsOnly };
  const style = withFirstParams(styleOf(pagination), pagination);
  const { cut } = entity;
  const whole = (storedRows: number): paging.Pagination => style.walk({ ...listing, storedRows });
  const mayBeCut = (walk: paging.Pagination, isDown = false): paging.Pagination =>
    cut === null ? walk : cutPagination(walk, cut, pagination, isDown);
  const full = (storedRows: number): paging.Pagination => mayBeCut(whole(storedRows));
  if (incremental === null || reading.mode === 'full' || reading.watermark === null) {
    return withFirst(entity, full(reading.storedRows));
  }
  const firstMs = entity.first?.ms ?? Number.NEGATIVE_INFINITY;
  const sinceMs = Math.max(Date.parse(reading.watermark) - incremental.lookbackMs, firstMs);
  switch (incremental.kind) {
    case 'keyset':
      // The definition was checked: keyset stands on offsets and page numbers alone, newest first on page tokens.
      return pagination.kind === 'offset' || pagination.kind === 'page'
        ? keysetPagination(
            { style, maxSize: pagination.maxSize },
            { ...listing, sinceParam: sinceParamOf(entity, incremental), sinceMs },
          )
        : full(0);
    case 'since':
      return sincePagination(full(0), sinceParamOf(entity, incremental), sinceMs);
    case 'newestFirst':
      return mayBeCut(newestFirstPagination(whole(0), sinceMs), true);
  }
}

/** Sends the parameters of the first page with it: the page that no token, or the lowest number, asks for. */
function withFirstParams(style: paging.PaginationStyle, pagination: PaginationRules): paging.PaginationStyle {
  if (pagination.kind === 'single' || pagination.firstParams === undefined) return style;
  const { firstParams } = pagination;
  const isFirst = (asked: Params): boolean => {
    if (pagination.kind === 'offset') return asked[pagination.offsetParam] === (pagination.first ?? 0);
    if (pagination.kind === 'page') return asked[pagination.pageParam] === pagination.first;
    return asked[pagination.tokenParam] === undefined;
  };
  const walk = (listing: paging.Listing): paging.Pagination => {
    const plain = style.walk(listing);
    const request = (position: Position): Params => {
      const asked = plain.request(position);
      return isFirst(asked) ? { ...firstParams, ...asked } : asked;
    };
    return { ...plain, request };
  };
  return { ...style, walk };
}

export function sortParams(entity: Entity, reading: Reading): Params {
  const isNewestFirst = entity.incremental?.kind === 'newestFirst';
  return isNewestFirst && reading.mode === 'incremental' && reading.watermark !== null
    ? entity.incremental.params
    : (entity.order?.params ?? {});
}

type Bounded = Extract<NonNullable<Entity['incremental']>, { readonly sinceParam: string }>;

function sinceParamOf({ actions }: Entity, { sinceParam: name, format, sinceFormat }: Bounded) {
  const { write: writeText, floor } = timeFormat(sinceFormat ?? format ?? 'iso');
  const isInteger = actions.get('list')?.params.get(name)?.type === 'integer';
  const write: paging.SinceParam['write'] = (ms) => (isInteger ? Number(writeText(ms)) : writeText(ms));
  return { name, write, floor };
}

/** A full walk with the first value of the parameter for changes: without one, a service may show its newest days. */
function withFirst(entity: Entity, full: paging.Pagination): paging.Pagination {
  const { incremental } = entity;
  const firstMs = entity.first?.ms ?? null;
  if (incremental === null || incremental.kind === 'newestFirst' || firstMs === null) return full;
  const { name, write } = sinceParamOf(entity, incremental);
  return { ...full, request: (position) => ({ [name]: write(firstMs), ...full.request(position) }) };
}

const singlePosition = z.object({ kind: z.literal('single'), pages: z.number() });

/**
 * Everything comes in one response: that response is the proof. Where it counts more records than it has, it is asked
 * for once more. Where it says that more follows, the definition is wrong: to end would lose the rest.
 */
function singleStyle({ flagKeys }: Extract<PaginationRules, { kind: 'single' }>): paging.PaginationStyle {
  const why = (sign: string): string =>
    `the answer says by ${sign} that more records follow, and the definition has one page only: say in its pagination how it pages, or flagKeys: [] if ${sign} means something else`;
  return {
    restsOnOrder: false,
    walk: ({ trustsTotal }) =>
      paging.walkWith(singlePosition, {
        begin: () => ({ kind: 'single' as const, pages: 0 }),
        request: () => ({}),
        advance: (before, { marks, total, next }) => {
          if (next?.hasMore === true) {
            const named = why(next.sign ?? (flagKeys ?? []).join(' or '));
            return { kind: 'broken', code: 'PAGING_BROKEN', why: named, dropWatermark: false };
          }
          const position = { ...before, pages: before.pages + 1 };
          const { doubt } = trustsTotal ? paging.doubtOf(total, new Set(marks).size) : {};
          if (doubt !== undefined && position.pages === 1) {
            return { kind: 'continue', position, isFurther: false };
          }
          const proof = { kind: 'single', isOrdered: true } as const;
          return { kind: 'end', position, proof, ...(doubt === undefined ? {} : { doubt }) };
        },
      }),
    readNext: (answer) => {
      if (flagKeys !== undefined) return paging.readFlag({ flagKeys }, answer);
      const sign = paging.readSignOfMore(answer);
      return sign === null ? null : { hasMore: true, token: null, sign };
    },
  };
}
