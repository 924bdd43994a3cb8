import type { JsonObject } from '../../core/json.ts';
import { before, equalTo, since, type RecordFilters } from '../record-filters.ts';
import { computedListing, type Listing } from '../listing.ts';
import { mailingTime } from '../times.ts';
import { listLinks, selfLinks } from './links.ts';
import type { MailingList } from './mailing-plan.ts';
import { memberRecords } from './member-record.ts';
import { isInSegment } from './segment-membership.ts';
import type { MemberOrder } from './member-orders.ts';
import { strideAt, strideOfSlots, strideSize } from './member-slots.ts';
import type { Segment } from './plan-segments.ts';

export const segmentFilters: RecordFilters = {
  type: equalTo('type'),
  since_created_at: since('created_at'),
  before_created_at: before('created_at'),
  since_updated_at: since('updated_at'),
  before_updated_at: before('updated_at'),
};

export function segmentRecords(list: MailingList): readonly JsonObject[] {
  return list.segments.map((segment) => ({
    id: segment.id,
    name: segment.name,
    member_count: segmentMembers(list, segment).size,
    type: segment.type,
    created_at: mailingTime(segment.createdAt),
    updated_at: mailingTime(segment.updatedAt),
    options: segment.options,
    list_id: list.id,
    _links: selfLinks(`/lists/${list.id}/segments/${segment.id}`),
  }));
}

/** Members of a segment are shorter records than members of a list, and do not say which segment they are in. */
export function segmentMemberListing(list: MailingList, segment: Segment): Listing {
  const members = segmentMembers(list, segment);
  const recordAt = memberRecords(list);
  return computedListing(
    members.size,
    (position) => toSegmentMember(recordAt(members.indexAt(position))),
    listLinks(`/lists/${list.id}/segments/${segment.id}/members`),
  );
}

/** As they joined. A list that a revision touched is gone through: only short lists have segments. */
function segmentMembers(list: MailingList, segment: Segment): MemberOrder {
  if (list.revised.orders.areOne) {
    const stride = strideOfSlots(list, segment.slots, list.memberCount);
    return { size: strideSize(stride), indexAt: (position) => strideAt(stride, position) };
  }
  const joined = list.revised.orders.joined();
  const indexes = Array.from({ length: joined.size }, (_, position) => joined.indexAt(position)).filter(
    (index) => isInSegment(list, segment, index),
  );
  return { size: indexes.length, indexAt: (position) => indexes[position] ?? list.memberCount };
}

const leftOut = new Set([
  'contact_id',
  'full_name',
  'web_id',
  'consents_to_one_to_one_messaging',
  'source',
  'tags_count',
  'tags',
]);

function toSegmentMember(member: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(member).filter(([name]) => !leftOut.has(name)));
}
