import type { JsonObject } from '../../core/json.ts';
import { selfLinks } from './links.ts';
import type { MailingList } from './mailing-plan.ts';
import { interestedCount } from './member-counts.ts';
import type { InterestCategory } from './plan-interests.ts';

export function categoryRecords(list: MailingList): readonly JsonObject[] {
  return list.categories.map((category) => ({
    list_id: list.id,
    id: category.id,
    title: category.title,
    display_order: category.displayOrder,
    type: category.type,
    _links: selfLinks(`/lists/${list.id}/interest-categories/${category.id}`),
  }));
}

/** `subscriber_count` is a text, as the third party sends it. */
export function interestRecords(list: MailingList, category: InterestCategory): readonly JsonObject[] {
  return category.interests.map((interest) => ({
    category_id: category.id,
    list_id: list.id,
    id: interest.id,
    name: interest.name,
    subscriber_count: String(interestedCount(list, interest.stride)),
    display_order: interest.displayOrder,
    _links: selfLinks(`/lists/${list.id}/interest-categories/${category.id}/interests/${interest.id}`),
  }));
}
