import type { Params } from '../../core/records.ts';
import type { MailingList } from './mailing-plan.ts';
import { emailType, isVip, uniqueEmailId } from './member-record.ts';
import { statusOf } from './member-slots.ts';
import { textOf } from '../text-of.ts';

/** Tells from a member's index whether it passes a filter. */
export type MemberTest = (index: number) => boolean;

/** The filters that these parameters ask for, besides those on times. */
export function memberTests(list: MailingList, params: Params): readonly MemberTest[] {
  const tests: MemberTest[] = [];
  const { status, email_type, unique_email_id } = params;
  if (status !== undefined) tests.push((index) => statusOf(list, index) === status);
  if (email_type !== undefined) tests.push((index) => emailType(index) === email_type);
  if (params['vip_only'] === true) tests.push(isVip);
  if (unique_email_id !== undefined) tests.push((index) => uniqueEmailId(list, index) === unique_email_id);
  const interests = interestTest(list, params);
  if (interests !== null) tests.push(interests);
  return tests;
}

/** `interest_ids` are separated by commas and must be in the category; `interest_match` is `any` unless said. */
function interestTest(list: MailingList, params: Params): MemberTest | null {
  const { interest_category_id: categoryId, interest_ids: ids } = params;
  if (typeof categoryId !== 'string' && typeof ids !== 'string') return null;
  const wanted = typeof ids === 'string' ? ids.split(',').map((id) => id.trim()) : null;
  const strides = list.categories
    .filter(({ id }) => categoryId === undefined || id === categoryId)
    .flatMap(({ interests }) => interests)
    .filter(({ id }) => wanted === null || wanted.includes(id))
    .flatMap(({ stride }) => (stride === null ? [] : [stride]));
  if (strides.length === 0) return () => false;
  const has = (index: number) => (stride: number) => index % stride === 0;
  switch (textOf(params['interest_match'])) {
    case 'all':
      return (index) => strides.every(has(index));
    case 'none':
      return (index) => !strides.some(has(index));
    default:
      return (index) => strides.some(has(index));
  }
}
