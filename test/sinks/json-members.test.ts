import { describe, expect, it } from 'vitest';
import { jsonMembers, jsonObject } from '../../src/sinks/records/fill-from-extra.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';
import { hostileText } from '../support/sinks/hostile-texts.ts';

const seed = startSeed();
const trials = repeats('TRIALS', { share: 1_000, full: 50_000 });

function anyJson(random: () => number, depth: number): string {
  const kind = random();
  if (depth > 0 && kind < 0.25) {
    const members = Array.from(
      { length: Math.floor(random() * 4) },
      (_, index) => `${JSON.stringify(`${index}${hostileText(random, 3)}`)}:${anyJson(random, depth - 1)}`,
    );
    return `{${members.join(',')}}`;
  }
  if (depth > 0 && kind < 0.5) {
    const elements = Array.from({ length: Math.floor(random() * 4) }, () => anyJson(random, depth - 1));
    return `[${elements.join(',')}]`;
  }
  const scalars = ['null', 'true', '-0', '1e400', '12345678901234567890', '0.10', '"\\ud800"', '""'];
  return kind < 0.75
    ? JSON.stringify(hostileText(random))
    : (scalars[Math.floor(random() * scalars.length)] ?? '0');
}

describe('the members of a JSON object', () => {
  it(`are given as the texts that they are, and make up the same text again (seed ${seed})`, () => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < trials; trial += 1) {
      const members = new Map(
        Array.from({ length: 1 + Math.floor(random() * 5) }, (_, index) => [
          `${index}${hostileText(random, 4)}`,
          anyJson(random, 3),
        ]),
      );
      const text = jsonObject(members) ?? '';
      expect([...jsonMembers(text)]).toEqual([...members]);
    }
  });

  it('are found in a text with spaces, the last one of a name that comes twice', () => {
    const text = ' { "a" : 1.0 ,\n "b":[ "," , {"a": "}"} ] , "a":"\\"" } ';
    expect([...jsonMembers(text)]).toEqual([
      ['a', '"\\""'],
      ['b', '[ "," , {"a": "}"} ]'],
    ]);
  });

  it('are none of an empty object, and of what is no object', () => {
    for (const text of ['{}', '[]', '["a",{"b":1}]', '"a:b"', '1']) expect(jsonMembers(text).size).toBe(0);
    expect(jsonObject(new Map())).toBeNull();
  });
});
