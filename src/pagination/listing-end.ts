import * as z from 'zod';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { proofKinds, type Position, type Proof } from '../sinks/partition.ts';
import * as paging from './pagination.ts';

/** Keys that pages are compared with. */
export const rememberedKeys = 100;
/** Rows without a new record that end a listing, in lengths of a page: three pages that overlap by a fifth. */
const fewestMisses = 2.4;
/** The same where the listing reaches less far than it did: rows that this walk has not met may be deleted. */
const missesBeforeDeletes = 6;
/** A first page of one or two records says little of how long pages are: so many rows are requested behind it. */
export const shortestLook = 10;
/** A short page of fewer records says nothing of how long pages are. */
const fewestSure = 5;
/** Most rows to request, in lengths of a page, where records are stored that lie further behind. */
const mostMisses = 500;

/** One of the records read last is among so many, as the others may have left. */
const newestKept = 5;
/** Where one of so many records came again, the order of an unordered listing changes from call to call. */
const mostStrays = 10;

/** A number of pages, rows or records. */
export const count = z.number().int().min(0);

/**
 * State that every walk by offsets or page numbers keeps of its earlier pages. The defaults are those of its first
 * page.
 */
export const pagesSoFar = {
  pages: count.default(0),
  /** Short marks of the records read last, in walking order; of the first page and of the page before, as a whole. */
  recent: z.array(z.string()).default([]),
  firstMark: z.string().default(''),
  pageMark: z.string().default(''),
  /** Total in the last answer that named one. */
  total: count.nullable().default(null),
  /** Every answer so far named this total. */
  isSteady: z.boolean().default(true),
  /** Records by which the total has risen, less those that were found to be new at the end. */
  risen: count.default(0),
  /** Different records: as far as the last of them are remembered, and in all; null where not all were remembered. */
  shown: count.default(0),
  distinct: count.nullable().default(0),
  /** The most that a round of the walk has shown. */
  most: count.default(0),
  /** The furthest row of pages with new records, counted from 1, and the records of the longest page. */
  furthest: count.default(0),
  longest: count.default(0),
  /** Records that came again behind new ones of the same page. */
  strays: count.default(0),
  hasAskedAgain: z.boolean().default(false),
  steppedBack: z.boolean().default(false),
  /** The walk looks behind the apparent end. */
  look: z
    .object({
      /** The row from which the requested page must show rows, and the rows of a page. */
      row: count,
      length: count,
      /** The row from which on pages have shown nothing new, and the last of them. */
      from: count,
      pageMark: z.string(),
      /**
       * Result of the request behind the end. `again`: rows, and the page that seemed to be the last is requested once
       * more. `gap`: rows, and still nothing new on that page.
       */
      found: z.enum(['nothing', 'again', 'gap']),
      /** Proof of the walk where no records come. */
      proof: z.object({ kind: z.enum(proofKinds), isOrdered: z.boolean() }),
      isRepeated: z.boolean(),
      /** The service refused a page, and must show its first one: otherwise it is down, and this is not the end. */
      isUp: z.enum(['unasked', 'asked', 'shown']).default('unasked'),
    })
    .nullable()
    .default(null),
};
export type PagesSoFar = z.infer<z.ZodObject<typeof pagesSoFar>>;
type Look = NonNullable<PagesSoFar['look']>;
type EndOfWalk = Extract<paging.Advance, { kind: 'end' }>;
type OwnPosition = Position & PagesSoFar;

/** An answer, with the facts that each style needs. */
export interface ListedPage {
  readonly seen: paging.PageSeen;
  /** Whether the answer says that more follows; null: it says nothing. */
  readonly hasMore: boolean | null;
  readonly received: number;
  /** Short marks, in the page's order; one of them costs no more than itself. */
  readonly marks: readonly string[];
  readonly markAt: (index: number) => string;
  /** Mark of the whole page; '' for an empty one. */
  readonly mark: string;
  /** Records that had not come before, as far as is known. */
  readonly added: number;
  /** Different records so far; null where not all were remembered. */
  readonly distinct: number | null;
}

/** Steps of one style from page to page, up to the apparent end. Positions already count the page. */
interface WalkToEnd<Own extends OwnPosition> extends Pick<
  paging.Pagination<Own>,
  'begin' | 'request' | 'halve'
> {
  /** `isFurther`: the page has reached a row behind all others. */
  advance(position: Own, page: ListedPage, isFurther: boolean): paging.Advance;
  /** The row at which the page of this position begins. */
  rowOf(position: Own): number;
  /**
   * The place behind the page that seemed to be the last: its first row, and how many rows a page has. `known`: the row
   * behind the records that came.
   */
  behind(position: Own): { readonly known: number; readonly row: number; readonly length: number };
  /** The page that shows the most rows from `row` on: its first row, and the first one behind it. */
  windowAt(position: Own, row: number, length: number): { params: Params; from: number; to: number };
  /** Size under which the lengths of pages are kept. */
  sizeOf(position: Own): number;
  /** Nothing says that the requested page is there. */
  mayBeBehind?(position: Own): boolean;
}

/**
 * Rules of a definition for the end of a listing. `gaps`: services filter records after they have cut a page, unless
 * that is `never`. `end`: a later page that is refused with its status lies behind the last one.
 */
type EndRules = Pick<Extract<Entity['pagination'], { kind: 'offset' | 'page' }>, 'gaps' | 'end'>;

/**
 * The end of a listing whose pages are cut by their place. A service may leave records out after it has cut a page, so
 * an empty or short page is the end only where the answer says so, where a steady total agrees, where the listing is
 * one short page, or where the pages behind it show nothing new either. Where rows come there, the page that seemed to
 * be the last is requested once more. New records there: they had been appended, and the walk continues. None: the
 * service leaves records out. The walk then continues page by page, and its order proves nothing.
 */
export function walkToEnd<Own extends OwnPosition>(
  schema: z.ZodType<Own>,
  walk: WalkToEnd<Own>,
  { pageLengths, storedRows, trustsTotal, growsOnly }: paging.Listing,
  { gaps, end }: EndRules,
): paging.Pagination {
  const countDistinct = paging.countMarks();

  function advance(before: Own, seen: paging.PageSeen): paging.Advance {
    const { look } = before;
    if (look?.isUp === 'asked') return goLook(before, { ...look, isUp: 'shown' });
    if (isLooking(look) && look.isUp === 'unasked' && mayBeDown(before, seen)) {
      return goLook(before, { ...look, isUp: 'asked' });
    }
    const page = read(before, seen);
    const met = counted(before, page);
    if (look !== null && look.found !== 'again') return lookOn(met, look, page);
    const step = walk.advance({ ...met, look: null }, page, met.furthest > before.furthest);
    if (step.kind === 'continue' && page.added === 0) {
      return { ...step, position: { ...step.position, look } };
    }
    if (step.kind !== 'end') return step;
    const { proof, doubt } = step;
    // `as`: what the walk has returned is its own.
    const position = { ...met, strays: (step.position as OwnPosition).strays };
    if (look === null) {
      if (isShuffled(position, proof) || isSettled(position, page, proof.kind)) return endOf(position, step);
      const { known, row, length } = walk.behind(position);
      const isRepeated = doubt?.kind === 'repeats';
      const ended = { proof: { kind: proof.kind, isOrdered: proof.isOrdered }, isRepeated };
      // Pages that were asked for once more are smaller: records of the larger ones before may stand further behind.
      const from = (page.added > 0 ? row : known) + (position.hasAskedAgain && known > length ? length : 0);
      const begun = { pageMark: page.mark, found: 'nothing', isUp: 'unasked' } as const;
      return goLook(position, { row, length, from, ...begun, ...ended });
    }
    paging.noteGap(pageLengths);
    const { row, length: known } = walk.behind(position);
    // Behind a first page that was short, the length of a page was not known.
    const length = known < fewestSure ? Math.max(known, look.length) : known;
    // Up to the rows that have come, nothing is missed.
    const again = length === look.length ? {} : { row, length, from: Math.max(row, look.row) };
    // Page numbers mean other rows where the length of pages changes, which their gaps hide.
    const isPlaced = growsOnly && met.kind === 'offset';
    const isOrdered = isPlaced && proof.isOrdered && look.proof.isOrdered;
    const across = { proof: { kind: 'seam', isOrdered } as const, isRepeated: false };
    return goLook(position, { ...look, ...again, found: 'gap', ...across });
  }

  /** A page behind the apparent end. */
  function lookOn(position: Own, look: Look, page: ListedPage): paging.Advance {
    const known = [position.firstMark, position.pageMark, look.pageMark];
    const isNew = page.added > 0 && !known.includes(page.mark);
    const { to } = walk.windowAt(position, look.row, look.length);
    // The rows that the page leaves out may stand before its last one: only pages behind it show nothing new.
    const newest = isNew ? to : look.from;
    const missed = to - newest;
    const length = look.found === 'gap' ? Math.max(look.length, page.received) : look.length;
    const next: Look = { ...look, row: to, length, pageMark: page.mark, from: newest };
    if (isNew && look.found === 'nothing') return goLook(position, { ...next, found: 'again' });
    const wanted = position.furthest < storedRows ? missesBeforeDeletes : fewestMisses;
    const isEnough = missed >= wanted * look.length || isGapless() || (isCounted(position) && !isNew);
    const isOver = page.hasMore === false || (to >= storedRows && isEnough && !leadsOn(page));
    if (isOver || missed >= mostMisses * look.length) {
      const doubt = isOver
        ? look.isRepeated
          ? ({ kind: 'repeats' } as const)
          : null
        : ({ kind: 'behind' } as const);
      return endOf(position, { proof: look.proof, ...(doubt === null ? {} : { doubt }) });
    }
    const recent = look.found === 'gap' ? remember(position.recent, page) : position.recent;
    // A page of mostly known records leads nowhere, whatever else is on it.
    return goLook({ ...position, recent }, next, 2 * page.added > page.received);
  }

  function goLook(position: Own, look: Look, isFurther = false): paging.Advance {
    return { kind: 'continue', position: { ...position, look }, isFurther };
  }

  /** Refusals are an end like any other, but not where the whole service fails, or where rows would be deleted. */
  function mayBeDown(position: Own, { refusal }: paging.PageSeen): boolean {
    return refusal === 'failed' || (refusal === 'refused' && storedRows > shownBy(position));
  }

  /** Whether the page that seems to be the last is known to be the last. */
  function isSettled(position: Own, page: ListedPage, kind: Proof['kind']): boolean {
    const { hasMore, added, seen } = page;
    if (hasMore === false) return true;
    if (leadsOn(page)) return false;
    const shown = shownBy(position);
    if (walk.behind(position).row < storedRows || (position.total ?? 0) > shown) return false;
    // A total that is too low may agree with a short page in the middle.
    if (isCounted(position) && (added === 0 || kind === 'single')) return true;
    if (isGapless() && seen.refusal !== 'failed') return true;
    return (
      kind === 'single' && shown >= storedRows && paging.isShort(pageLengths, walk.sizeOf(position), shown)
    );
  }

  function isGapless(): boolean {
    return gaps === 'never' && !paging.hasGaps(pageLengths);
  }

  function endOf(
    position: Own,
    { proof, ...more }: Omit<EndOfWalk, 'kind' | 'position' | 'reach'>,
  ): paging.Advance {
    const shown = shownBy(position);
    if (proof.kind === 'single' && position.pages > 0) {
      paging.noteWhole(pageLengths, { size: walk.sizeOf(position), records: shown });
    }
    return {
      ...more,
      ...(isShuffled(position, proof) ? { doubt: { kind: 'shuffled' } as const } : {}),
      kind: 'end',
      position: { ...position, look: null },
      proof: isCounted(position) ? { ...proof, isCounted: true } : proof,
      reach: position.furthest,
      ...paging.doubtOf(position.total ?? undefined, shown),
    };
  }

  function read(before: Own, seen: paging.PageSeen): ListedPage {
    const short: string[] = [];
    // Hashed only where they are needed: of a long page, the first and the last ones.
    const markAt = (index: number): string => (short[index] ??= paging.shortMark(seen.marks[index] ?? ''));
    const allMarks = (): string[] => seen.marks.map((_, index) => markAt(index));
    const distinct = countDistinct(isFirst(before) ? 0 : before.distinct, seen.marks);
    const countFresh = (): number => {
      const recent = new Set(before.recent);
      return new Set(allMarks().filter((mark) => !recent.has(mark))).size;
    };
    const isExact = distinct !== null && before.distinct !== null;
    return {
      seen,
      received: seen.marks.length,
      hasMore: seen.next?.hasMore ?? null,
      markAt,
      get marks() {
        return allMarks();
      },
      mark: paging.pageMark(seen.marks),
      added: isExact ? distinct - (isFirst(before) ? 0 : (before.distinct ?? 0)) : countFresh(),
      distinct,
    };
  }

  function counted(before: Own, page: ListedPage): Own {
    const { seen, received, mark, added, distinct } = page;
    const total = trustsTotal ? (seen.total ?? null) : null;
    const { look } = before;
    const from = isLooking(look) ? walk.windowAt(before, look.row, look.length).from : walk.rowOf(before);
    return {
      ...before,
      firstMark: isFirst(before) ? mark : before.firstMark,
      total: total ?? before.total,
      risen: before.risen + Math.max(0, total === null || before.total === null ? 0 : total - before.total),
      // Behind the last page an answer may be a refusal, which names nothing.
      isSteady:
        before.isSteady && (total === null ? received === 0 : isFirst(before) || total === before.total),
      shown: distinct ?? before.shown + added,
      most: Math.max(before.most, distinct ?? 0),
      distinct,
      strays: before.strays + straysOf(before, page),
      furthest: added === 0 ? before.furthest : Math.max(before.furthest, from + received),
      longest: Math.max(before.longest, received),
    };
  }

  return paging.walkWith(schema, {
    begin: () => walk.begin(),
    request: (position) => {
      const { look } = position;
      if (!isLooking(look)) return walk.request(position);
      return walk.windowAt(position, look.isUp === 'asked' ? 0 : look.row, look.length).params;
    },
    advance,
    refused: (position, status) => {
      if (position.look?.isUp === 'asked') return null;
      if (isLooking(position.look)) return 'empty';
      if (walk.rowOf(position) === 0) return null;
      if (status !== null && typeof end === 'object' && status === end.status) return 'empty';
      if (status !== null && status >= 500) return null;
      const isMet = position.total !== null && position.total <= shownBy(position);
      return isMet || walk.mayBeBehind?.(position) === true ? 'empty' : 'perhapsEmpty';
    },
    halve: (position) => {
      const smaller = walk.halve(position);
      return smaller === null ? null : { ...smaller, look: null };
    },
  });
}

function straysOf({ recent, hasAskedAgain }: PagesSoFar, { received, added, markAt }: ListedPage): number {
  // Smaller pages, from where the records end that came, begin with known ones where some were left out.
  if (added === 0 || added === received || hasAskedAgain) return 0;
  const known = new Set(recent);
  let head = 0;
  while (head < received && known.has(markAt(head))) head += 1;
  // Rows that came in front push those read last into sight again, and no others.
  const isPushed = head > 0 && recent.slice(-newestKept).includes(markAt(head - 1));
  return Math.max(0, received - added - (isPushed ? head : 0));
}

/** The answer says that more follows, and has left out all records of its own page. */
function leadsOn({ hasMore, received }: ListedPage): boolean {
  return hasMore === true && received === 0;
}

function isFirst({ pages, look }: PagesSoFar): boolean {
  return pages === 0 && look === null;
}

/** A page behind the end is requested. */
function isLooking(look: Look | null): look is Look {
  return look !== null && look.found !== 'again';
}

/** The order changes from call to call: pages behind the end, and a total that is met, show no more than chance. */
function isShuffled(position: PagesSoFar, { isOrdered }: Proof): boolean {
  return !isOrdered && position.strays * mostStrays > shownBy(position);
}

/**
 * All answers named one total, and as many different records came, never more. Behind a gap nothing shows that records
 * have left in front: a total that stands still while others come would agree.
 */
function isCounted({ look, isSteady, total, distinct, most }: PagesSoFar): boolean {
  return look?.found !== 'gap' && isSteady && total !== null && distinct === total && distinct === most;
}

/** Different records that the listing has shown. */
export function shownBy({ distinct, shown }: PagesSoFar): number {
  return distinct ?? shown;
}

/** The records read last and the last ones of a page, in walking order. */
export function remember(recent: readonly string[], { received, markAt }: ListedPage): string[] {
  const from = Math.max(0, received - rememberedKeys);
  const tail = Array.from({ length: received - from }, (_, index) => markAt(from + index));
  const fresh = new Set(tail);
  return [...recent.filter((mark) => !fresh.has(mark)), ...tail].slice(-rememberedKeys);
}
