import { describe, expect } from 'vitest';
import { isLikeGlob } from '../../src/core/glob.ts';
import { it } from '../support/it.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

describe('a glob', () => {
  const seed = startSeed();
  it(`means what the regular expression does that has .* for each * (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const text = (signs: string): string =>
      Array.from({ length: Math.floor(random() * 7) }, () => signs[Math.floor(random() * signs.length)]).join(
        '',
      );
    const differences: string[] = [];
    let hits = 0;
    for (let trial = 0; trial < 20_000; trial += 1) {
      const [glob, name] = [text('ab.**'), text('ab.')];
      const expected = new RegExp(`^${glob.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(name);
      hits += Number(expected);
      if (isLikeGlob(name, glob) !== expected) differences.push(`${glob} ${name}`);
    }
    expect(differences).toEqual([]);
    expect(hits).toBeGreaterThan(1_000);
  });

  it('of many stars is matched without trying all the ways in which it could be', () => {
    expect(isLikeGlob('a'.repeat(100_000), `${'*a'.repeat(1_000)}*b`)).toBe(false);
  });
});
