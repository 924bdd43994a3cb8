import { describe, expect, it } from 'vitest';
import { firstSeed, trials, tryIncrementalWalks } from '../support/pagination/incremental-trials.ts';
import { expectFoundOut } from '../support/pagination/found-out.ts';

describe('incremental walks: since', () => {
  // Proves promise 2
  it(`never leave anything behind their watermark, and a quiet one brings the rest (seed ${firstSeed})`, async () => {
    expect(await tryIncrementalWalks('activity', ['insert', 'event', 'event', 'late-event'])).toBeGreaterThan(
      trials,
    );
  }, 60_000);

  it.each([['since']] as const)(
    'find out a service that ignores the %s',
    async (ignores) => {
      await expectFoundOut('activity', ignores);
    },
    60_000,
  );
});
