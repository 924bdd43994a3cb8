import type { MailingList } from './mailing-plan.ts';
import { memberId, memberPerson } from './member-record.ts';

/**
 * Finds a member's index by the hash of its address, or null (also for a deleted one). A hash cannot be turned round, so the first look-up in a
 * list computes the hashes of all its members and keeps four bytes of each: 4 MB and about a second for a million
 * members. Lists that nobody looks into keep nothing.
 */
export function memberFinder(list: MailingList): (id: string) => number | null {
  let prefixes: Uint32Array | null = null;
  return (id) => {
    const wanted = id.toLowerCase();
    const length = list.memberCount + list.revised.added.length;
    prefixes ??= Uint32Array.from({ length }, (_, index) => prefixOf(idAt(list, index)));
    const prefix = prefixOf(wanted);
    for (let index = prefixes.indexOf(prefix); index >= 0; index = prefixes.indexOf(prefix, index + 1)) {
      if (idAt(list, index) === wanted) {
        return list.revised.states.get(index)?.isThere === false ? null : index;
      }
    }
    return null;
  };
}

function idAt(list: MailingList, index: number): string {
  return memberId(memberPerson(list, index).email);
}

function prefixOf(id: string): number {
  return Number.parseInt(id.slice(0, 8), 16);
}
