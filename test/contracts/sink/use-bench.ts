import { afterEach, beforeEach } from 'vitest';
import { Bench, type SinkKind } from './fixture.ts';

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
