import { afterEach, beforeEach, it, onTestFinished } from 'vitest';
import { isLong } from '../../support/trials.ts';
import { Bench, type SinkKind } from './fixture.ts';

/**
 * `it` for rules that the ledger decides with statements which other cases run on every sink: `npm test` tries them on
 * SQLite, `npm run test:long` on all. What a driver can break is a `test`, of every sink.
 */
export function rulesOf(kind: SinkKind) {
  return it.runIf(isLong || kind.options('/nowhere').type === 'sqlite');
}

/** Gives each test a bench of its own. */
export function useBench(kind: SinkKind): () => Bench {
  let bench: Bench | null = null;
  beforeEach(() => {
    bench = new Bench(kind);
  });
  afterEach(async () => {
    await bench?.close();
    bench = null;
  });
  return () => {
    if (bench === null) throw new Error('Only inside a test');
    return bench;
  };
}

/** A bench of one test. */
export function benchOfTest(kind: SinkKind): Bench {
  const bench = new Bench(kind);
  onTestFinished(async () => await bench.close());
  return bench;
}
