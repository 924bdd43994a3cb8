import { describe, expect, it } from 'vitest';
import { slipsAllowed, slipsBetween, textsIn, wordsOf } from '../../src/search/match-condition.ts';
import { isNear } from '../support/search/plain-search.ts';
import { seededRandom } from '../support/seeded-random.ts';

describe('words', () => {
  it.each<[text: string, words: readonly string[]]>([
    ['', []],
    [' -_!', []],
    ['Hello, WORLD-2 a_b', ['hello', 'world', '2', 'a', 'b']],
    ['Crème BRÛLÉE', ['creme', 'brulee']],
    ['cre\u0300me', ['creme']],
    ['Straße STRASSE', ['strasse', 'strasse']],
    ['ΟΔΟΣ οδος όδος', ['οδοσ', 'οδοσ', 'οδοσ']],
    ['İstanbul ﬁne ① Ｆｕｌｌ', ['istanbul', 'fine', '1', 'full']],
    ['किताब की का', ['किताब', 'की', 'का']],
    ['中文 東京タワー', ['中文', '東京タワー']],
    ['a\0b\ud800c', ['a', 'b', 'c']],
  ])('are runs of letters and digits, folded: %j', (text, words) => {
    expect(wordsOf(text)).toEqual(words.map((word) => word.normalize('NFKD')));
  });

  it('are themselves when they are folded again, whatever sign they began as', () => {
    const changed: string[] = [];
    for (let code = 0; code < 0x11_0000; code += 1) {
      // Han and Hangul are as one, and so is most of what lies beyond: a sample of it is enough.
      if (code > 0x3400 && code < 0xd700 && code % 64 !== 0) continue;
      if (code > 0x2_0000 && code % 1024 !== 0) continue;
      for (const word of wordsOf(`a${String.fromCodePoint(code)}`)) {
        if (wordsOf(word).join(' ') !== word) changed.push(code.toString(16));
      }
    }
    expect(changed).toEqual([]);
  });

  it('are in every text of a value, in its order, and never in the names of members', () => {
    const many = Array.from({ length: 300_000 }, () => 'x');
    expect(textsIn({ first: 'a', next: [{ second: 'b' }, 5, null, ['c']], last: 'd' })).toEqual([
      'a',
      'b',
      'c',
      'd',
    ]);
    expect(textsIn(many)).toHaveLength(300_000);
  });

  it.each([
    ['abc', 0],
    ['abcd', 1],
    ['abcdefg', 1],
    ['abcdefgh', 2],
    ['😀😀😀', 0],
    ['12345678', 0],
    ['abc12345', 2],
  ] as const)('may have slips by their length, and numbers none: %s %i', (word, allowed) => {
    expect(slipsAllowed(word)).toBe(allowed);
  });

  it.each([
    ['quarter', 'quarter', true],
    ['quarter', 'quartr', true],
    ['quarter', 'quartter', true],
    ['quarter', 'quorter', true],
    ['quarter', 'qaurter', true],
    ['quarter', 'qauretr', false],
    ['quarterly', 'qauretrly', true],
    ['cat', 'cut', false],
    ['2024', '2025', false],
    ['abcdefgh', 'x'.repeat(1_000_000), false],
  ] as const)('are near each other within their slips: %s', (word, other, near) => {
    expect(isNear(word, other)).toBe(near);
  });

  it('are as many slips apart as the fewest that lead from one to the other', () => {
    const random = seededRandom(11);
    const word = (): string =>
      Array.from({ length: Math.floor(random() * 7) }, () => 'ab😀'.at(Math.floor(random() * 2)) ?? '').join(
        '',
      );
    for (let trial = 0; trial < 2_000; trial += 1) {
      const [left, right] = [word(), word()];
      const fewest = fewestSlips(left, right);
      for (const most of [0, 1, 2, 3]) {
        expect(slipsBetween(left, right, most), `${left} ${right}`).toBe(fewest <= most ? fewest : null);
      }
    }
  });
});

function fewestSlips(left: string, right: string): number {
  if (left === '' || right === '') return left.length + right.length;
  const [a = '', b = ''] = left;
  const [c = '', d = ''] = right;
  if (a === c) return fewestSlips(left.slice(1), right.slice(1));
  const isSwapped = b !== '' && a === d && b === c;
  return (
    1 +
    Math.min(
      fewestSlips(left.slice(1), right),
      fewestSlips(left, right.slice(1)),
      fewestSlips(left.slice(1), right.slice(1)),
      isSwapped ? fewestSlips(left.slice(2), right.slice(2)) : Infinity,
    )
  );
}
