import { expect, it, vi } from 'vitest';
import type * as States from '../../src/sinks/ledger/partitions/states.ts';
import { describeFileSink } from '../contracts/file-sink-contract.ts';
import { sqliteKind } from '../support/sinks/sqlite-kind.ts';
import { seenTransitions, wrongMoves, type Run } from '../support/sinks/observed-partitions.ts';

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
vi.mock('../../src/sinks/ledger/partitions/states.ts', async (importOriginal) => {
  const states = await importOriginal<typeof States>();
  const { observedTransition } = await import('../support/sinks/observed-partitions.ts');
  const transition = (one: Parameters<typeof states.transition<Run>>[0]): Run =>
    observedTransition(states.transition(one));
  return { ...states, transition };
});

describeFileSink('SQLite', sqliteKind);

/** A source that asks for quiet is a test of the engine. */
const elsewhere = ['putFirstBack'];

it('has led partitions through every transition by now, and only as their table says', async () => {
  const { transitions } = await import('../../src/sinks/ledger/partitions/transitions.ts');
  const unseen = Object.entries(transitions).filter(([, { what }]) => !seenTransitions.has(what));
  expect(unseen.map(([name]) => name)).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
