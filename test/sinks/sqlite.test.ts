import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { transitions } from '../../src/sinks/ledger/partitions/transitions.ts';
import { fullDisk } from '../contracts/file-sink/full-disk.ts';
import { openingFiles } from '../contracts/file-sink/opening-files.ts';
import { describeSink } from '../contracts/sink-contract.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { observeTransitions, seenTransitions, wrongMoves } from '../support/sinks/observed-partitions.ts';

/** Every move of a partition, in all tests of this file, is one that the table of transitions names. */
let endObserving: () => void;
beforeAll(() => {
  endObserving = observeTransitions();
});
afterAll(() => endObserving());

describeSink('SQLite', sqliteKind);

describe('files of a SQLite sink', () => {
  describe('opening', () => openingFiles(sqliteKind));
  describe('on a full disk', () => fullDisk(sqliteKind));
});

/** A source that asks for quiet is a test of the engine, and what is masked in place one of whole syncs. */
const elsewhere = ['putFirstBack', 'forgetClear', 'hideFailure'];

it('has led partitions through every transition by now, and only as their table says', () => {
  const unseen = Object.entries(transitions).filter(([, { what }]) => !seenTransitions.has(what));
  expect(unseen.map(([name]) => name)).toEqual(elsewhere);
  expect(wrongMoves).toEqual([]);
});
