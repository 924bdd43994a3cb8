import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import {
  classifyMet,
  meetingPlace,
  staleBefore,
  type MeetingPlace,
} from '../../../src/sinks/decisions/meet-record.ts';

const dayMs = 24 * 60 * 60 * 1_000;
const nowMs = Date.parse('2026-03-02T00:00:00Z');
const stored = { hash: 'a', volatileHash: 'v', changedAt: instant(nowMs), deletedAt: null };
const showing = { isInsertOnly: false, wasSeen: false, staleBefore: staleBefore(nowMs) };

it.each<[string, number | null, boolean, number | null, MeetingPlace]>([
  ['outside a walk', 1, false, null, 'owner'],
  ['in its owner', 1, false, 1, 'owner'],
  ['elsewhere', 1, false, 2, 'shared'],
  ['anywhere, without an owner', null, false, 2, 'new-owner'],
  ['elsewhere, tombstoned', 1, true, 2, 'new-owner'],
])('says where a record is met %s', (_where, owner, isDeleted, partition, place) => {
  expect(meetingPlace({ owner, deletedAt: isDeleted ? instant(nowMs) : null }, partition)).toBe(place);
});

it('updates what has another hash, and what was deleted, before it is a duplicate', () => {
  const updated = { kind: 'updated', isWritten: true };
  const seen = { ...showing, wasSeen: true };
  expect(classifyMet(stored, { hash: 'b', volatileHash: 'v' }, seen)).toEqual(updated);
  expect(classifyMet({ ...stored, deletedAt: instant(nowMs) }, stored, seen)).toEqual(updated);
  expect(classifyMet(stored, stored, seen)).toEqual({ kind: 'duplicate', isWritten: false });
  expect(classifyMet(stored, stored, showing)).toEqual({ kind: 'unchanged', isWritten: false });
});

it('never replaces an exploded row', () => {
  const other = { hash: 'b', volatileHash: 'w' };
  const exploded = { ...showing, isInsertOnly: true };
  const old = { ...stored, changedAt: instant(nowMs - 2 * dayMs) };
  expect(classifyMet(old, other, exploded)).toEqual({ kind: 'unchanged', isWritten: false });
});

it('writes a volatile change once the row was last written a day ago, as what it is otherwise', () => {
  const change = { hash: 'a', volatileHash: 'w' };
  const old = { ...stored, changedAt: instant(nowMs - dayMs) };
  expect(classifyMet(stored, change, showing)).toEqual({ kind: 'unchanged', isWritten: false });
  expect(classifyMet(old, change, showing)).toEqual({ kind: 'unchanged', isWritten: true });
  expect(classifyMet(old, change, { ...showing, wasSeen: true })).toEqual({
    kind: 'duplicate',
    isWritten: true,
  });
});
