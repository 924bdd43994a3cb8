import { describe, expect, it } from 'vitest';
import { isConnectorName, isDeclaredName, maxNameLength } from '../../../src/core/names.ts';
import { tableName } from '../../../src/sinks/postgres/records/names.ts';
import { indexSuffixes } from '../../../src/sinks/records/own-names.ts';
import { quoted } from '../../../src/sql/quoted.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';

const seed = startSeed();
const trials = repeats('TRIALS', { share: 3_000, full: 100_000 });

/** A name of few different letters, so that two are often alike at their beginning. */
function anyName(random: () => number, separators: readonly string[]): string {
  const most = 1 + Math.floor(random() * maxNameLength);
  let name = 'a';
  while (name.length < most) {
    const isWord = random() < 0.9 || name.length + 2 > most;
    name += isWord
      ? (['a', 'b', '1'][Math.floor(random() * 3)] ?? '')
      : `${separators[Math.floor(random() * separators.length)]}a`;
  }
  return name.slice(0, maxNameLength);
}

describe('the name of an entity in PostgreSQL', () => {
  it('is that of the file sinks where it is short enough', () => {
    expect(tableName('my-news', 'list_members')).toBe('my_news__list_members');
  });

  it(`fits with every suffix, and is no other's (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const owners = new Map<string, string>();
    for (let trial = 0; trial < trials; trial += 1) {
      const connector = anyName(random, ['_', '-']);
      const entity = anyName(random, ['_']);
      expect(isConnectorName(connector) && isDeclaredName(entity), `${connector} ${entity}`).toBe(true);
      const name = tableName(connector, entity);
      for (const suffix of Object.values(indexSuffixes)) {
        expect(Buffer.byteLength(`${name}${suffix}`)).toBeLessThanOrEqual(63);
      }
      expect(name).toMatch(/^[a-z]/);
      // A config has no two connectors that differ in this alone.
      const owner = `${connector.replaceAll('-', '_')} ${entity}`;
      expect(owners.get(name) ?? owner).toBe(owner);
      owners.set(name, owner);
    }
  });

  it('differs from another by its end alone, where both are cut', () => {
    const connector = 'a'.repeat(maxNameLength);
    const names = ['x', 'y'].map((end) => tableName(connector, `${'b'.repeat(maxNameLength - 1)}${end}`));
    expect(new Set(names).size).toBe(2);
    expect(names.every((name) => name.length === 52 && name.startsWith(connector.slice(0, 39)))).toBe(true);
  });

  it('is quoted, so that it is a name whatever is in it', () => {
    expect(quoted('a"b; DROP')).toBe('"a""b; DROP"');
  });
});
