import { expect, it, vi } from 'vitest';
import type * as Transitions from '../../src/sinks/ledger/partitions/transitions.ts';
import { describeFileSink } from '../contracts/file-sink-contract.ts';
import { sqliteKind } from '../support/sinks/sqlite-kind.ts';
import { seenTransitions, wrongMoves } from '../support/sinks/observed-partitions.ts';

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
vi.mock('../../src/sinks/ledger/partitions/transitions.ts', async (importOriginal) => {
  const { transitions } = await importOriginal<typeof Transitions>();
  const { observedTransitions } = await import('../support/sinks/observed-partitions.ts');
  return { transitions: observedTransitions(transitions) };
});

describeFileSink('SQLite', sqliteKind);

/** A source that asks for quiet is a test of the engine. */
const elsewhere = ['putFirstBack'];

it('has led partitions through every transition by now, and only as their table says', async () => {
  const { transitions } = await import('../../src/sinks/ledger/partitions/transitions.ts');
  expect(Object.keys(transitions).filter((name) => !seenTransitions.has(name))).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
