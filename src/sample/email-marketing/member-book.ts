import type { MailingList } from './mailing-plan.ts';
import { personOffset } from './member-record.ts';
import {
  memberRevisions,
  type AddedMember,
  type MemberRevisions,
  type MemberState,
} from './member-revisions.ts';
import { originalStatusOf, type MemberStatus } from './member-slots.ts';
import { memberTimes } from './member-times.ts';

/** A list's members while revisions are applied to them, one after the other. */
export class MemberBook {
  readonly #list: MailingList;
  readonly #states = new Map<number, MemberState>();
  readonly #added: AddedMember[] = [];
  readonly #addedPersons = new Set<number>();
  /** Oldest first: they come back in this order. */
  readonly #deleted: number[] = [];
  readonly #unsubscribed: number[] = [];
  /** What this revision has touched so far, as it was before: null for a new member. */
  #before = new Map<number, MemberState | null>();
  #living: number;

  constructor(list: MailingList) {
    this.#list = list;
    this.#living = list.memberCount;
  }

  beginRevision(): void {
    this.#before = new Map();
  }

  /** Indexes that were ever given out: 0 to this - 1. */
  get size(): number {
    return this.#list.memberCount + this.#added.length;
  }

  get living(): number {
    return this.#living;
  }

  get touched(): ReadonlyMap<number, MemberState | null> {
    return this.#before;
  }

  stateOf(index: number): MemberState {
    const state = this.#states.get(index);
    if (state !== undefined) return state;
    const changedAt = memberTimes(this.#list).firstChangedAt(index);
    return { isThere: true, changedAt, edits: 0, status: null, tags: [] };
  }

  isThere(index: number): boolean {
    return this.#states.get(index)?.isThere ?? index < this.size;
  }

  statusOf(index: number): MemberStatus {
    return this.#states.get(index)?.status ?? originalStatusOf(this.#list, index);
  }

  personOf(index: number): number {
    return this.#added[index - this.#list.memberCount]?.person ?? personOffset(this.#list) + index;
  }

  /** Whether this person is or was a member: nobody gets two indexes. */
  knows(person: number): boolean {
    const index = person - personOffset(this.#list);
    return (index >= 0 && index < this.#list.memberCount) || this.#addedPersons.has(person);
  }

  add(person: number, at: number): void {
    const index = this.size;
    this.#added.push({ person, joinedAt: at });
    this.#addedPersons.add(person);
    this.#before.set(index, null);
    this.#states.set(index, { isThere: true, changedAt: at, edits: 0, status: null, tags: [] });
    this.#living += 1;
  }

  edit(index: number, edit: Partial<MemberState>, at: number): void {
    const state = this.stateOf(index);
    if (!this.#before.has(index)) this.#before.set(index, state);
    this.#states.set(index, { ...state, ...edit, changedAt: at });
  }

  /** Gone for good: moved to another list. */
  take(index: number, at: number): void {
    this.edit(index, { isThere: false }, at);
    this.#living -= 1;
  }

  delete(index: number, at: number): void {
    this.take(index, at);
    this.#deleted.push(index);
  }

  /** Brings back who was deleted first, unless nobody was deleted before this revision. */
  revive(at: number): void {
    const [index] = this.#deleted;
    if (index === undefined || this.#before.has(index)) return;
    this.#deleted.shift();
    this.edit(index, { isThere: true }, at);
    this.#living += 1;
  }

  unsubscribe(index: number, at: number): void {
    this.edit(index, { status: 'unsubscribed' }, at);
    this.#unsubscribed.push(index);
  }

  /** Subscribes again who left first, unless nobody left before this revision. */
  resubscribe(at: number): void {
    for (let [index] = this.#unsubscribed; index !== undefined; [index] = this.#unsubscribed) {
      if (this.#before.has(index)) return;
      this.#unsubscribed.shift();
      if (!this.isThere(index) || this.statusOf(index) !== 'unsubscribed') continue;
      this.edit(index, { status: 'subscribed' }, at);
      return;
    }
  }

  /** What all revisions so far have made of the members. */
  finish(): MemberRevisions {
    return memberRevisions(this.#list.memberCount, new Map(this.#states), [...this.#added]);
  }
}
