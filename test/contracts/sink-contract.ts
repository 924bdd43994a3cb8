import { describe } from 'vitest';
import { classifying } from './sink/classifying.ts';
import { committing } from './sink/committing.ts';
import { continuing } from './sink/continuing.ts';
import { finishing } from './sink/finishing.ts';
import type { SinkKind } from './sink/fixture.ts';
import { fullDisk } from './sink/full-disk.ts';
import { holding } from './sink/holding.ts';
import { hostileValues } from './sink/hostile-values.ts';
import { opening } from './sink/opening.ts';
import { operating } from './sink/operating.ts';
import { tableChanges } from './sink/table-changes.ts';
import { trees } from './sink/trees.ts';

/** The promises of `src/sinks/sink.ts`, run on every sink. A sink that keeps them is one that the engine can use. */
export function describeSink(name: string, kind: SinkKind): void {
  describe(`${name} sink`, () => {
    describe('opening', () => opening(kind));
    describe('holding a connector', () => holding(kind));
    describe('starting and continuing', () => continuing(kind));
    describe('committing', () => committing(kind));
    describe('classifying', () => classifying(kind));
    describe('trees', () => trees(kind));
    describe('values', () => hostileValues(kind));
    describe('changed tables', () => tableChanges(kind));
    describe('on a full disk', () => fullDisk(kind));
    describe('finishing', () => finishing(kind));
    describe('operating', () => operating(kind));
  });
}
