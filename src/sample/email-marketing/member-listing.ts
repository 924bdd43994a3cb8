import type { JsonObject } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import type { Listing } from '../listing.ts';
import { timeParameter } from '../record-filters.ts';
import { listLinks } from './links.ts';
import type { MailingList } from './mailing-plan.ts';
import type { MemberOrder } from './member-orders.ts';
import { memberRecords } from './member-record.ts';
import { memberTests, type MemberTest } from './member-tests.ts';
import { firstIndexSince, hasSignupTime, memberTimes } from './member-times.ts';

/**
 * A list's members: as they joined, or by last change if that is asked for. Filters on a time that grows along the
 * order are binary searches; the other filters look at what can be told from an index without making the record. Only
 * the records of the page are made.
 */
export function memberListing(list: MailingList, params: Params): Listing {
  const recordAt = memberRecords(list);
  const { order, growing } = orderFor(list, params);
  const { range, tests } = timeFilters(list, order, growing, params);
  const passes = orderedPasses([...tests, ...memberTests(list, params)], params);
  return {
    slice(offset, limit) {
      const records: JsonObject[] = [];
      for (const index of selected(order, range, passes, offset)) {
        if (records.length >= limit) break;
        records.push(recordAt(index));
      }
      return records;
    },
    metadata: listLinks(`/lists/${list.id}/members`),
  };
}

type GrowingTime = 'changedAt' | 'optedInAt';

/** The order of the members, and the times that grow along it. */
function orderFor(
  list: MailingList,
  params: Params,
): { readonly order: MemberOrder; readonly growing: readonly GrowingTime[] } {
  const { orders } = list.revised;
  if (orders.areOne) {
    const inOrder = { size: list.memberCount, indexAt: (position: number) => position };
    return { order: inOrder, growing: ['changedAt', 'optedInAt'] };
  }
  return params['sort_field'] === 'last_changed'
    ? { order: orders.changed(), growing: ['changedAt'] }
    : { order: orders.joined(), growing: ['optedInAt'] };
}

/** Positions from `start` up to, not including, `end`. */
interface Range {
  readonly start: number;
  readonly end: number;
}

function timeFilters(
  list: MailingList,
  order: MemberOrder,
  growing: readonly GrowingTime[],
  params: Params,
): { readonly range: Range; readonly tests: readonly MemberTest[] } {
  const times = memberTimes(list);
  const range = { start: 0, end: order.size };
  const tests: MemberTest[] = [];
  for (const [name, since, before] of [
    ['changedAt', 'since_last_changed', 'before_last_changed'],
    ['optedInAt', 'since_timestamp_opt', 'before_timestamp_opt'],
  ] as const) {
    const from = boundOf(params, since) ?? Number.NEGATIVE_INFINITY;
    const to = boundOf(params, before) ?? Number.POSITIVE_INFINITY;
    if (from === Number.NEGATIVE_INFINITY && to === Number.POSITIVE_INFINITY) continue;
    if (!growing.includes(name)) {
      tests.push((index) => times[name](index) >= from && times[name](index) <= to);
      continue;
    }
    const timeAt = (position: number): number => times[name](order.indexAt(position));
    range.start = Math.max(range.start, firstIndexSince(timeAt, order.size, from));
    range.end = Math.min(range.end, firstIndexSince(timeAt, order.size, to + 1));
  }
  return { range, tests };
}

function boundOf(params: Params, name: string): number | undefined {
  const value = params[name];
  return value === undefined ? undefined : timeParameter(name, value);
}

/** One reading of the range in one direction. Without tests a page can be jumped to. */
interface Pass {
  readonly isDescending: boolean;
  readonly tests: readonly MemberTest[];
}

function orderedPasses(tests: readonly MemberTest[], params: Params): readonly Pass[] {
  const isDescending = params['sort_field'] !== undefined && params['sort_dir'] === 'DESC';
  if (params['sort_field'] !== 'timestamp_signup') return [{ isDescending, tests }];
  // Members without a signup time have "", which sorts before every time.
  const passes = [
    { isDescending, tests: [...tests, (index: number) => !hasSignupTime(index)] },
    { isDescending, tests: [...tests, hasSignupTime] },
  ];
  return isDescending ? passes.reverse() : passes;
}

function* selected(
  order: MemberOrder,
  { start, end }: Range,
  passes: readonly Pass[],
  offset: number,
): Iterable<number> {
  let skip = offset;
  for (const { isDescending, tests } of passes) {
    const canJump = tests.length === 0;
    for (let position = canJump ? skip : 0; position < end - start; position += 1) {
      const index = order.indexAt(isDescending ? end - 1 - position : start + position);
      if (!tests.every((test) => test(index))) continue;
      if (!canJump && skip > 0) skip -= 1;
      else yield index;
    }
  }
}
