import { diceFor } from '../dice.ts';
import { kind } from './kinds.ts';
import {
  activeLists,
  takeTurns,
  type ListInWork,
  type MailingWork,
  type RevisionUnderWay,
} from './mailing-work.ts';
import { isInSegment } from './segment-membership.ts';

const firstId = 16_000_000;
/** A segment of one slot, in a list that is not so long that it would be more than a small part. */
const mostMembers = 500;

/**
 * In turns of three, on one of the lists with tags: a tag with its static segment and a saved segment are added,
 * deleted and brought back. A tag that has come back has no members, so it can be renamed without a change to them.
 * Every revision renames a saved segment.
 */
export function reviseTags(work: MailingWork, { revision, clock }: RevisionUnderWay): void {
  const tagged = activeLists(work).filter(({ list }) => list.tags.length > 0);
  const short = tagged.filter(({ book }) => book.living <= mostMembers);
  const turn = Math.floor(revision / 3);
  const entry = short[turn % Math.max(1, short.length)];
  if (revision % 3 === 1) renameEmptyTag(work, revision, clock.next());
  if (revision % 3 === 2) takeTagOff(work, clock.next());
  takeTurns(work, 'tag', revision, () => (entry === undefined ? [] : addTag(entry, revision, clock.next())));
  const renamed = tagged[revision % Math.max(1, tagged.length)];
  if (renamed !== undefined) renameSavedSegment(renamed, revision, clock.next());
}

/** Tag and static segment are one thing under one id. */
function addTag(entry: ListInWork, revision: number, at: number): readonly string[] {
  const { list, book } = entry;
  const dice = diceFor(list.seed, kind.segment, revision, list.index);
  const id = firstId + revision * 10_000 + dice.below(5_000);
  const name = `Came in revision ${revision}`;
  const times = { createdAt: at, updatedAt: at };
  const condition = { condition_type: 'StaticSegment', field: 'static_segment', op: 'static_is', value: id };
  const aim = { condition_type: 'Aim', field: 'aim', op: 'click', value: 'any' };
  entry.list = {
    ...list,
    tags: [...list.tags, { id, name, slots: [] }],
    segments: [
      ...list.segments,
      { id, name, type: 'static', ...times, slots: [], options: { match: 'any', conditions: [condition] } },
      {
        id: id + 5_000,
        name: 'Clicked something',
        type: 'saved',
        ...times,
        slots: [7],
        options: { match: 'all', conditions: [aim] },
      },
    ],
  };
  const [first] = [...Array(book.size).keys()].filter((index) => book.isThere(index));
  for (const index of new Set([first ?? 0, dice.below(book.size)])) {
    if (book.isThere(index)) book.edit(index, { tags: [...book.stateOf(index).tags, id] }, at);
  }
  return [String(id), String(id + 5_000)];
}

/** Members lose a tag that is deleted, and are changed by that. */
function takeTagOff(work: MailingWork, at: number): void {
  const ids = new Set(work.madeLast.get('tag') ?? []);
  for (const { book } of work.lists) {
    for (let index = 0; ids.size > 0 && index < book.size; index += 1) {
      const { tags } = book.stateOf(index);
      const kept = tags.filter((id) => !ids.has(String(id)));
      if (kept.length < tags.length) book.edit(index, { tags: kept }, at);
    }
  }
}

function renameEmptyTag(work: MailingWork, revision: number, at: number): void {
  const [id] = work.madeLast.get('tag') ?? [];
  const name = `Renamed in revision ${revision}`;
  for (const entry of work.lists) {
    const { list } = entry;
    entry.list = {
      ...list,
      tags: list.tags.map((tag) => (String(tag.id) === id ? { ...tag, name } : tag)),
      segments: list.segments.map((segment) =>
        String(segment.id) === id ? { ...segment, name, updatedAt: at } : segment,
      ),
    };
  }
}

function renameSavedSegment(entry: ListInWork, revision: number, at: number): void {
  const { list } = entry;
  const saved = list.segments.filter(({ type }) => type === 'saved');
  const chosen = saved[revision % saved.length];
  entry.list = {
    ...list,
    segments: list.segments.map((segment) =>
      segment === chosen ? { ...segment, name: `Search of revision ${revision}`, updatedAt: at } : segment,
    ),
  };
}

/** A segment is updated when a member comes, goes, or changes in it. */
export function updateSegments(work: MailingWork, { clock }: RevisionUnderWay): void {
  const at = clock.next();
  for (const entry of work.lists) {
    const { list, book } = entry;
    if (list.segments.length === 0 || work.hidden.has(list.id)) continue;
    entry.list = {
      ...list,
      segments: list.segments.map((segment) => {
        const isTouched = [...book.touched].some(
          ([index, before]) =>
            (before !== null && isInSegment(list, segment, index, before)) ||
            isInSegment(list, segment, index, book.stateOf(index)),
        );
        return isTouched ? { ...segment, updatedAt: at } : segment;
      }),
    };
  }
}
