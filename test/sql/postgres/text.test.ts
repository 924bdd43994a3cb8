import { describe, expect, it } from 'vitest';
import { readText, writeText } from '../../../src/sql/postgres/text.ts';
import { textHash } from '../../../src/sql/text-hash.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import { hostileText } from '../../support/sinks/hostile-texts.ts';

const seed = startSeed();
const trials = repeats('TRIALS', { share: 2_000, full: 200_000 });

describe('texts as PostgreSQL stores them', () => {
  it(`hold no U+0000, and come back as they were (seed ${seed})`, () => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < trials; trial += 1) {
      const text = hostileText(random);
      const written = writeText(text);
      expect(written).not.toContain('\0');
      expect(readText(written)).toBe(text);
      expect(written === text).toBe(!/[\0\uE000]/.test(text));
    }
  });

  it('are hashed to sixteen bytes, whatever their length', () => {
    expect(textHash('').length).toBe(16);
    expect(textHash('k'.repeat(1_000_000)).toString('hex')).toBe(
      textHash('k'.repeat(1_000_000)).toString('hex'),
    );
    expect(textHash('a').equals(textHash('a\0'))).toBe(false);
  });
});
