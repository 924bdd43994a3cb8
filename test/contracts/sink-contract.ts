import { describe } from 'vitest';
import { deleting, orphans, sweeping } from './sink/deletes.ts';
import type { SinkKind } from './sink/fixture.ts';
import { files, undoing, versions } from './sink/history.ts';
import { holding, opening, serving } from './sink/holding.ts';
import { becomingDue, leftovers, windows } from './sink/partitions.ts';
import { noting, operating, telling } from './sink/people.ts';
import { completeReads, doubting, storedKeys, trees } from './sink/proofs.ts';
import { classifying, hostileValues, sameBytes, unparsedRecords } from './sink/records.ts';
import { expiring, purging, resetting } from './sink/removals.ts';
import { committing, continuing, finishing } from './sink/runs.ts';
import { drifting, evolving, tableChanges } from './sink/tables.ts';

/** The promises of `src/sinks/sink.ts`, run on every database that has a ledger of its own. */
export function describeSink(name: string, kind: SinkKind): void {
  describe(`${name} sink`, () => {
    describe('opening', () => opening(kind));
    describe('serving for days', () => serving(kind));
    describe('holding a connector', () => holding(kind));
    describe('starting and continuing', () => continuing(kind));
    describe('committing', () => committing(kind));
    describe('classifying', () => classifying(kind));
    describe('records that were not parsed', () => unparsedRecords(kind));
    describe('deleting', () => deleting(kind));
    describe('resetting', () => resetting(kind));
    describe('undoing', () => undoing(kind));
    describe('purging', () => purging(kind));
    describe('retention', () => expiring(kind));
    describe('values', () => hostileValues(kind));
    describe('changed tables', () => tableChanges(kind));
    describe('drift', () => drifting(kind));
    describe('added columns', () => evolving(kind));
    describe('files', () => files(kind));
    describe('versions of rows', () => versions(kind));
    describe('finishing', () => finishing(kind));
    describe('becoming due', () => becomingDue(kind));
    describe('leftovers', () => leftovers(kind));
    describe('windows', () => windows(kind));
    describe('stored keys', () => storedKeys(kind));
    describe('records of the same bytes', () => sameBytes(kind));
    describe('sweeping', () => sweeping(kind));
    describe('below vanished records', () => orphans(kind));
    describe('trees', () => trees(kind));
    describe('complete reads', () => completeReads(kind));
    describe('doubts', () => doubting(kind));
    describe('operating', () => operating(kind));
    describe('noting acts', () => noting(kind));
    describe('notifying people', () => telling(kind));
  });
}
