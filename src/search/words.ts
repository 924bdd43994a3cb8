import type { JsonValue } from '../core/json.ts';

const plainText = /^[\0-\x7f]*$/;
const plainWord = /[a-z0-9]+/g;
/** Marks of one script alone (vowel signs, say) are as good as letters; those that go with any script are accents. */
const word = /[\p{L}\p{N}\p{M}]+/gu;
const accents = /(?=\p{M})\p{Script=Inherited}/gu;

/**
 * The words of a text, in its order: runs of letters and digits, folded so that case, accents and ways of writing a
 * sign (`ﬁ`, `①`, full width) make no difference. The folded word of a folded word is itself.
 */
export function wordsOf(text: string): readonly string[] {
  return plainText.test(text)
    ? (text.toLowerCase().match(plainWord) ?? [])
    : (folded(text).match(word) ?? []);
}

/** By way of the upper case, which knows more (`ß` is `ss`); the two small sigmas are one. */
function folded(text: string): string {
  const plain = text.normalize('NFKD').replaceAll(accents, '').toLowerCase();
  const cased = plain.toUpperCase().toLowerCase();
  return cased.normalize('NFKD').replaceAll(accents, '').replaceAll('ς', 'σ');
}

/** Every text in a value, in its order, at any depth; names of members are none. What has words has them from these. */
export function textsIn(value: JsonValue): readonly string[] {
  const texts: string[] = [];
  const waiting: JsonValue[] = [value];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (typeof next === 'string') texts.push(next);
    // One by one: an array may have more elements than a call can have arguments.
    else if (typeof next === 'object' && next !== null) {
      for (const inner of Object.values<JsonValue>(next).toReversed()) waiting.push(inner);
    }
  }
  return texts;
}

/** How many slips of the pen a word may have. A number with a slip is another number: it may have none. */
export function slipsAllowed(word: string): 0 | 1 | 2 {
  if (/^\p{N}+$/u.test(word)) return 0;
  const letters = Array.from(word).length;
  if (letters <= 3) return 0;
  return letters <= 7 ? 1 : 2;
}

/**
 * The slips that make one word of the other: letters left out, put in, taken for another, or two neighbours swapped (a
 * letter takes part in one slip only). Null: more than `most`.
 */
export function slipsBetween(word: string, other: string, most: number): number | null {
  if (word === other) return 0;
  // A letter has one or two code units.
  if (most === 0 || other.length > 2 * (word.length + most)) return null;
  const left = Array.from(word);
  const right = Array.from(other);
  if (Math.abs(left.length - right.length) > most) return null;
  let before: readonly number[] = [];
  let above: readonly number[] = right.map((_, column) => column).concat(right.length);
  for (const [row, letter] of left.entries()) {
    const slips = [row + 1];
    for (const [column, against] of right.entries()) {
      const replaced = (above[column] ?? 0) + (letter === against ? 0 : 1);
      const dropped = (above[column + 1] ?? 0) + 1;
      const added = (slips[column] ?? 0) + 1;
      const isSwapped = row > 0 && column > 0 && letter === right[column - 1] && left[row - 1] === against;
      const swapped = isSwapped ? (before[column - 1] ?? 0) + 1 : replaced;
      slips.push(Math.min(replaced, dropped, added, swapped));
    }
    if (Math.min(...slips) > most && Math.min(...above) > most) return null;
    before = above;
    above = slips;
  }
  const total = above.at(-1) ?? 0;
  return total <= most ? total : null;
}
