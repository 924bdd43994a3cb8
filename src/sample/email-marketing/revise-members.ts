import { diceFor, type Dice } from '../dice.ts';
import { kind } from './kinds.ts';
import { activeLists, type ListInWork, type MailingWork, type RevisionUnderWay } from './mailing-work.ts';
import { maxRecipients } from './plan-campaigns.ts';
import { newPerson } from './revise-lists.ts';

/** Shorter lists are left alone. */
const fewestMembers = 10;
const mostMoved = 20;

/** How many members of a list a revision touches in all: about one in a hundred, and of each kind at least one. */
export function memberShares(living: number): {
  readonly edited: number;
  /** Each way: they unsubscribe, and others come back. */
  readonly turned: number;
  readonly added: number;
  readonly deleted: number;
  readonly archived: number;
  readonly moved: number;
  readonly revived: number;
} {
  const share = (ofThousand: number): number => Math.max(1, Math.round((living * ofThousand) / 1_000));
  return {
    edited: share(2),
    turned: share(2),
    added: share(2),
    deleted: share(1),
    archived: share(1),
    moved: Math.min(mostMoved, share(1)),
    revived: share(1),
  };
}

/** Members are added, edited, unsubscribed, archived, deleted, moved to another list and brought back, list by list. */
export function reviseMembers(work: MailingWork, underWay: RevisionUnderWay): void {
  for (const entry of activeLists(work)) {
    if (entry.book.living >= fewestMembers) reviseList(work, entry, underWay);
  }
}

function reviseList(work: MailingWork, entry: ListInWork, underWay: RevisionUnderWay): void {
  const { list, book } = entry;
  const { revision, clock, departures } = underWay;
  const shares = memberShares(book.living);
  const dice = diceFor(work.seed, kind.revision, revision, list.index);
  const pick = (count: number, fits: (index: number) => boolean, act: (index: number) => void): void =>
    pickMembers(entry, dice, count, book.size, fits, act);
  const isSubscriber = (index: number): boolean => book.statusOf(index) === 'subscribed';
  const unsubscribe = (index: number): void => {
    const at = clock.next();
    book.unsubscribe(index, at);
    departures.push({ listIndex: list.index, index, at });
  };

  // The first one to leave got campaigns, so that one of them can say so.
  pickMembers(entry, dice, 1, Math.min(maxRecipients, list.memberCount), isSubscriber, unsubscribe);
  pick(shares.turned - 1, isSubscriber, unsubscribe);
  for (let count = 0; count < shares.turned; count += 1) book.resubscribe(clock.next());
  pick(shares.edited, anybody, (index) =>
    book.edit(index, { edits: book.stateOf(index).edits + 1 }, clock.next()),
  );
  pick(
    shares.archived,
    (index) => book.statusOf(index) !== 'archived',
    (index) => book.edit(index, { status: 'archived' }, clock.next()),
  );
  for (let count = 0; count < shares.revived; count += 1) book.revive(clock.next());
  pick(shares.deleted, anybody, (index) => book.delete(index, clock.next()));
  pick(
    shares.moved,
    (index) => newHome(work, entry, index) !== null,
    (index) => {
      const at = clock.next();
      newHome(work, entry, index)?.book.add(book.personOf(index), at);
      book.take(index, at);
    },
  );
  for (let count = 0; count < shares.added; count += 1) book.add(newPerson(entry), clock.next());
}

const anybody = (): boolean => true;
/** Further is not searched for a member that fits. */
const mostTries = 2_000;

/** Members that are there and that this revision has not touched, evenly over the first `limit`. */
function pickMembers(
  { book }: ListInWork,
  dice: Dice,
  count: number,
  limit: number,
  fits: (index: number) => boolean,
  act: (index: number) => void,
): void {
  if (limit === 0) return;
  const start = dice.below(limit);
  const step = Math.max(1, Math.floor(limit / Math.max(1, count)));
  for (let turn = 0; turn < count; turn += 1) {
    for (let tries = 0; tries < Math.min(limit, mostTries); tries += 1) {
      const index = (start + turn * step + tries) % limit;
      if (book.touched.has(index) || !book.isThere(index) || !fits(index)) continue;
      act(index);
      break;
    }
  }
}

/** The next list that never had this person; null when there is none. */
function newHome(work: MailingWork, from: ListInWork, index: number): ListInWork | null {
  const person = from.book.personOf(index);
  const active = activeLists(work);
  const place = active.indexOf(from);
  const others = [...active.slice(place + 1), ...active.slice(0, place)];
  return others.find(({ book }) => !book.knows(person)) ?? null;
}
