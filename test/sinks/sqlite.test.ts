import { afterAll, beforeAll, expect, it } from 'vitest';
import { transitions } from '../../src/sinks/ledger/partitions/transitions.ts';
import { describeFileSink } from '../contracts/file-sink-contract.ts';
import { sqliteKind } from '../support/sinks/sqlite-kind.ts';
import { observeTransitions, seenTransitions, wrongMoves } from '../support/sinks/observed-partitions.ts';

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
let endObserving: () => void;
beforeAll(() => {
  endObserving = observeTransitions();
});
afterAll(() => endObserving());

describeFileSink('SQLite', sqliteKind);

/** A source that asks for quiet is a test of the engine, and what is masked in place one of whole syncs. */
const elsewhere = ['putFirstBack', 'forgetClear', 'hideFailure'];

it('has led partitions through every transition by now, and only as their table says', () => {
  const unseen = Object.entries(transitions).filter(([, { what }]) => !seenTransitions.has(what));
  expect(unseen.map(([name]) => name)).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
