import type { JsonObject } from '../../src/core/json.ts';
import { revisionTime } from '../../src/sample/revision-time.ts';
import type { SampleSize } from '../../src/sample/sample-account.ts';
import { planMailing, type MailingList } from '../../src/sample/email-marketing/mailing-plan.ts';
import { memberRecords } from '../../src/sample/email-marketing/member-record.ts';
import { reviseMailing } from '../../src/sample/email-marketing/revise-mailing.ts';

/** A member that a revision touched, before and after it: null where it is in no list under this key. */
export interface RevisedMember {
  readonly before: JsonObject | null;
  readonly after: JsonObject | null;
  /** It came to this list in an earlier revision, or was there from the beginning. */
  readonly isKnown: boolean;
}

/** The members that a revision touched, list by list: as much work as it touched, however long the lists are. */
export function* revisedMembers(seed: number, size: SampleSize, revision: number): Iterable<RevisedMember> {
  const plan = planMailing(seed, size);
  const before = new Map(reviseMailing(plan, revision - 1).lists.map((list) => [list.index, list]));
  const after = new Map(reviseMailing(plan, revision).lists.map((list) => [list.index, list]));
  const time = revisionTime(revision);
  for (const index of [...new Set([...before.keys(), ...after.keys()])].toSorted((a, b) => a - b)) {
    const [old, now] = [before.get(index), after.get(index)];
    const known = now ?? old;
    // A list that comes or goes takes all its members with it.
    const touched =
      old === undefined || now === undefined
        ? Array(known === undefined ? 0 : sizeOf(known)).keys()
        : [...now.revised.states].flatMap(([member, { changedAt }]) => (changedAt >= time ? [member] : []));
    for (const member of touched) {
      const oldRecord = recordOf(old, member);
      const newRecord = recordOf(now, member);
      if (oldRecord === null && newRecord === null) continue;
      const isKnown = known !== undefined && joinedAt(known, member) < time;
      yield { before: oldRecord, after: newRecord, isKnown };
    }
  }
}

function sizeOf({ memberCount, revised }: MailingList): number {
  return memberCount + revised.added.length;
}

function joinedAt({ createdAt, memberCount, revised }: MailingList, index: number): number {
  return revised.added[index - memberCount]?.joinedAt ?? createdAt;
}

function recordOf(list: MailingList | undefined, index: number): JsonObject | null {
  if (list === undefined || index >= sizeOf(list)) return null;
  return list.revised.states.get(index)?.isThere === false ? null : memberRecords(list)(index);
}
