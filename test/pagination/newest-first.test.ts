import { describe, expect, it } from 'vitest';
import { firstSeed, trials, tryIncrementalWalks } from '../support/pagination/incremental-trials.ts';
import { expectFoundOut } from '../support/pagination/found-out.ts';

describe('incremental walks: newest-first', () => {
  // Proves promise 2
  it(`never leave anything behind their watermark, and a quiet one brings the rest (seed ${firstSeed})`, async () => {
    expect(
      await tryIncrementalWalks('tokens', ['append', 'delete', 'change', 'bulk-change', 'late-change']),
    ).toBeGreaterThan(trials);
  }, 60_000);

  it.each([['sort'], ['direction']] as const)(
    'find out a service that ignores the %s',
    async (ignores) => {
      await expectFoundOut('tokens', ignores);
    },
    60_000,
  );
});
