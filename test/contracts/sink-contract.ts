import { describe } from 'vitest';
import { becomingDue } from './sink/becoming-due.ts';
import { classifying } from './sink/classifying.ts';
import { committing } from './sink/committing.ts';
import { completeReads } from './sink/complete-reads.ts';
import { continuing } from './sink/continuing.ts';
import { copying } from './sink/copying.ts';
import { deleting } from './sink/deleting.ts';
import { doubting } from './sink/doubting.ts';
import { drifting } from './sink/drifting.ts';
import { finishing } from './sink/finishing.ts';
import { files } from './sink/files.ts';
import type { SinkKind } from './sink/fixture.ts';
import { holding } from './sink/holding.ts';
import { hostileValues } from './sink/hostile-values.ts';
import { noting } from './sink/noting.ts';
import { telling } from './sink/telling.ts';
import { leftovers } from './sink/leftovers.ts';
import { opening } from './sink/opening.ts';
import { operating } from './sink/operating.ts';
import { orphans } from './sink/orphans.ts';
import { evolving } from './sink/evolving.ts';
import { expiring } from './sink/expiring.ts';
import { purging } from './sink/purging.ts';
import { resetting } from './sink/resetting.ts';
import { serving } from './sink/serving.ts';
import { sameBytes } from './sink/same-bytes.ts';
import { storedKeys } from './sink/stored-keys.ts';
import { sweeping } from './sink/sweeping.ts';
import { tableChanges } from './sink/table-changes.ts';
import { trees } from './sink/trees.ts';
import { undoing } from './sink/undoing.ts';
import { unparsedRecords } from './sink/unparsed-records.ts';
import { versions } from './sink/versions.ts';
import { windows } from './sink/windows.ts';
import { isLong } from '../support/trials.ts';

/**
 * The promises of `src/sinks/sink.ts`, run on every sink. A sink that keeps them is one that the engine can use. Of one
 * whose ledger is another sink's, `npm test` tries only what it stores itself.
 */
export function describeSink(
  name: string,
  kind: SinkKind,
  { sharesLedger = false }: { readonly sharesLedger?: boolean } = {},
): void {
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
    describe('copying', () => copying(kind));
    if (sharesLedger && !isLong) return;
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
    describe('noting days and acts', () => noting(kind));
    describe('notifying people', () => telling(kind));
  });
}
