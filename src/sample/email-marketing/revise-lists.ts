import { planEmptyList } from './mailing-plan.ts';
import { activeLists, type ListInWork, type MailingWork, type RevisionUnderWay } from './mailing-work.ts';
import { MemberBook } from './member-book.ts';

/** People who are in no list from the beginning: their numbers start here, with room for each list. */
const firstNewPerson = 20_000_000;
const newPersonsPerList = 2_000_000;
const membersOfNewList = 5;
const mostMembersOfDeleted = 60;

/** In turns of four: a list is added, a small one deleted, one renamed, the deleted one brought back. */
export function reviseLists(work: MailingWork, underWay: RevisionUnderWay): void {
  const { revision } = underWay;
  switch (revision % 4) {
    case 2:
      addList(work, underWay);
      return;
    case 3: {
      const small = activeLists(work).filter(
        ({ list, book }) => list.index > 0 && book.living > 0 && book.living <= mostMembersOfDeleted,
      );
      const chosen = small.toSorted((left, right) => left.book.living - right.book.living)[
        Math.floor(revision / 4) % Math.max(1, small.length)
      ];
      const ids = chosen === undefined ? [] : [chosen.list.id];
      for (const id of ids) work.hidden.add(id);
      work.madeLast.set('list', ids);
      return;
    }
    case 0: {
      const active = activeLists(work);
      const chosen = active[(revision / 4) % Math.max(1, active.length)];
      if (chosen === undefined) return;
      const [name = ''] = chosen.list.name.split(' (renamed');
      chosen.list = { ...chosen.list, name: `${name} (renamed ${revision})` };
      return;
    }
    default:
      for (const id of work.madeLast.get('list') ?? []) work.hidden.delete(id);
  }
}

function addList(work: MailingWork, { revision, clock }: RevisionUnderWay): void {
  const created = planEmptyList(work.seed, work.lists.length, clock.next());
  const list = { ...created, name: `Event of revision ${revision}` };
  const entry: ListInWork = { list, book: new MemberBook(list) };
  work.lists.push(entry);
  for (let member = 0; member < membersOfNewList; member += 1) {
    entry.book.add(newPerson(entry), clock.next());
  }
}

/** The number of a person who is in no list yet. */
export function newPerson({ list, book }: ListInWork): number {
  return firstNewPerson + list.index * newPersonsPerList + book.size;
}
