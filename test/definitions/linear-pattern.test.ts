import { describe, expect } from 'vitest';
import { linearPattern } from '../../src/definitions/linear-pattern.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { partNamePattern } from '../../src/publish/object-target.ts';
import { it } from '../support/it.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

const patterns = [...loadDefinitions([builtInDefinitionsFolder]).values()].flatMap(({ upstream }) =>
  [...(upstream?.host.values() ?? [])].map(({ pattern }) => pattern),
);
const texts = [
  'us1',
  'us9',
  'us10',
  'us21',
  'us100',
  'us999',
  'us1000',
  'us0',
  'us01',
  'us',
  'eu1',
  'US1',
  '',

  'xus1',
  'us1x',
  'us1.evil.example',
  'us1/',
  'us1@a',
  'us1:80',
  'us1#',
  'us1\n',
  '\nus1',
  'us1\r',
  ' us1',

  'us１',
  'us\u0661',
  'ｕs1',
  'us1\u0000',
  'us1\u2028',
  'u\u017f1',
  '\ud800us1',
  'us1😀',
  'us1'.repeat(400),
];

describe('a pattern of a definition', () => {
  const seed = startSeed();
  it(`that comes with the program takes and refuses what RegExp does (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const signs = 'us0123456789-a.\n';
    const more = Array.from({ length: 5_000 }, () =>
      Array.from({ length: Math.floor(random() * 7) }, () => signs[Math.floor(random() * signs.length)]).join(
        '',
      ),
    );
    expect(patterns).not.toEqual([]);
    for (const pattern of patterns) {
      const expected = new RegExp(`^(?:${pattern})$`, 'u');
      const linear = linearPattern(pattern);
      const all = [...texts, ...more.map((text) => (random() < 0.5 ? `us${text}` : text))];
      expect(all.filter((text) => linear.test(text) !== expected.test(text))).toEqual([]);
      expect(all.filter((text) => expected.test(text)).length).toBeGreaterThan(100);
    }
  });

  it('is matched in linear time', () => {
    for (const pattern of ['(a+)+b', '(a*)*b', '(a|a)*b', '(a|aa)+b', '(?:a?){99}b']) {
      const slow = linearPattern(pattern);
      expect(slow.test('a'.repeat(4_000)), pattern).toBe(false);
      expect(slow.test('aaab'), pattern).toBe(true);
    }
  });

  it.each(['a(?=b)', '(?<=a)b', '(a)\\1', '(?<n>a)\\k<n>', 'a(', '[b-a]', 'a**', '(a{500}){500}'])(
    'is refused: %s',
    (pattern) => expect(() => linearPattern(pattern)).toThrow(SyntaxError),
  );
});

describe('the names of published files', () => {
  it('are recognized in linear time, whatever the layout', () => {
    const pattern = partNamePattern('{connector}{entity}{generation}{publication}{part}{kind}');
    expect(pattern.test('1'.repeat(1_000))).toBe(false);
    expect(pattern.test(`newsletterlists1${'2'.repeat(8)}0001snapshot-0123abcd.parquet`)).toBe(true);
  });
});
