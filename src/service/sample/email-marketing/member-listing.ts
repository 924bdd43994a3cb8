import type { JsonObject } from '../../../core/json.ts';
import type { Params } from '../../../core/records.ts';
import type { Listing } from '../listing.ts';
import { timeParameter } from '../record-filters.ts';
import { listLinks } from './links.ts';
import type { MailingList } from './mailing-plan.ts';
import { memberRecords } from './member-record.ts';
import { memberTests, type MemberTest } from './member-tests.ts';
import { firstIndexSince, hasSignupTime, memberTimes } from './member-times.ts';

/**
 * A list's members. Time filters are binary searches, because the times grow with the index; the other filters look
 * at what can be told from an index without making the record. Only the records of the page are made.
 */
export function memberListing(list: MailingList, params: Params): Listing {
  const recordAt = memberRecords(list);
  const range = timeRange(list, params);
  const passes = orderedPasses(memberTests(list, params), params);
  return {
    slice(offset, limit) {
      const records: JsonObject[] = [];
      for (const index of selected(range, passes, offset)) {
        if (records.length >= limit) break;
        records.push(recordAt(index));
      }
      return records;
    },
    metadata: listLinks(`/lists/${list.id}/members`),
  };
}

/** Indexes from `start` up to, not including, `end`. */
interface Range {
  readonly start: number;
  readonly end: number;
}

function timeRange(list: MailingList, params: Params): Range {
  const times = memberTimes(list);
  const range = { start: 0, end: list.memberCount };
  for (const [timeAt, since, before] of [
    [times.changedAt, 'since_last_changed', 'before_last_changed'],
    [times.optedInAt, 'since_timestamp_opt', 'before_timestamp_opt'],
  ] as const) {
    const sinceValue = params[since];
    const beforeValue = params[before];
    if (sinceValue !== undefined) {
      const first = firstIndexSince(timeAt, list.memberCount, timeParameter(since, sinceValue));
      range.start = Math.max(range.start, first);
    }
    if (beforeValue !== undefined) {
      const first = firstIndexSince(timeAt, list.memberCount, timeParameter(before, beforeValue) + 1);
      range.end = Math.min(range.end, first);
    }
  }
  return range;
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

function* selected({ start, end }: Range, passes: readonly Pass[], offset: number): Iterable<number> {
  let skip = offset;
  for (const { isDescending, tests } of passes) {
    const canJump = tests.length === 0;
    for (let position = canJump ? skip : 0; position < end - start; position += 1) {
      const index = isDescending ? end - 1 - position : start + position;
      if (!tests.every((test) => test(index))) continue;
      if (!canJump && skip > 0) skip -= 1;
      else yield index;
    }
  }
}
