import type { JsonObject } from '../../core/json.ts';
import { dayMs } from '../times.ts';
import type { Dice } from '../dice.ts';
import { isSubscribedSlot, slotCount } from './member-slots.ts';

/** A tag sits on the members of its slots. */
export interface Tag {
  readonly id: number;
  readonly name: string;
  readonly slots: readonly number[];
}

export interface Segment {
  readonly id: number;
  readonly name: string;
  readonly type: 'static' | 'saved';
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Only subscribed members: the third party leaves the others out of a segment. */
  readonly slots: readonly number[];
  readonly options: JsonObject;
}

const tagNames = ['2022', 'Influencer', 'VIP', 'Müde Leser', '常連'] as const;

export function planTags(dice: Dice, count: number): readonly Tag[] {
  return tagNames.slice(0, count).map((name) => ({
    id: 13_000_000 + dice.below(900_000),
    name,
    // Of all statuses: an unsubscribed member keeps its tags.
    slots: Array.from({ length: slotCount }, (_, slot) => slot).filter(() => dice.chance(25)),
  }));
}

/** A static segment for every tag, under the tag's id (that is what a tag is), and saved searches beside them. */
export function planSegments(dice: Dice, tags: readonly Tag[], listCreatedAt: number): readonly Segment[] {
  const statics = tags.map((tag, position) => ({
    id: tag.id,
    name: tag.name,
    type: 'static' as const,
    ...segmentTimes(dice, listCreatedAt, position),
    slots: tag.slots.filter(isSubscribedSlot),
    options: staticOptions(tag.id),
  }));
  if (tags.length === 0) return statics;
  return [
    ...statics,
    {
      id: 14_000_000 + dice.below(900_000),
      name: 'Opened something lately',
      type: 'saved',
      ...segmentTimes(dice, listCreatedAt, tags.length),
      slots: [0, 3, 5],
      options: savedOptions,
    },
    {
      id: 15_000_000 + dice.below(900_000),
      name: 'Nobody is in here',
      type: 'saved',
      ...segmentTimes(dice, listCreatedAt, tags.length + 1),
      slots: [],
      options: savedOptions,
    },
  ];
}

function segmentTimes(
  dice: Dice,
  listCreatedAt: number,
  position: number,
): Pick<Segment, 'createdAt' | 'updatedAt'> {
  const createdAt = listCreatedAt + position * dayMs + dice.below(dayMs / 1000) * 1000;
  return { createdAt, updatedAt: createdAt + (position % 2) * 9 * dayMs };
}

function staticOptions(id: number): JsonObject {
  return {
    match: 'any',
    conditions: [{ condition_type: 'StaticSegment', field: 'static_segment', op: 'static_is', value: id }],
  };
}

const savedOptions: JsonObject = {
  match: 'all',
  conditions: [
    { condition_type: 'Aim', field: 'aim', op: 'open', value: 'any' },
    { condition_type: 'TextMerge', field: 'FNAME', op: 'blank_not' },
  ],
};
