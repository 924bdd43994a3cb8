import type { JsonValue } from '../core/json.ts';
import type { WordCondition } from './search-request.ts';
import { slipsAllowed, slipsBetween, textsIn, wordsOf } from './words.ts';

/** How well a value meets a condition on words: more words are better, then fewer slips. */
interface WordMatch {
  readonly found: number;
  readonly slips: number;
}

/** Makes the function that tells how well a value meets the condition, null where it does not. */
export function wordMatcher({ kind, words }: WordCondition): (value: JsonValue) => WordMatch | null {
  return kind === 'keyword' ? keywordMatcher(words) : fuzzyMatcher(words);
}

function keywordMatcher(words: readonly string[]): (value: JsonValue) => WordMatch | null {
  const wanted = new Set(words);
  return (value) => {
    const found = new Set<string>();
    for (const text of textsIn(value)) {
      for (const word of wordsOf(text)) if (wanted.has(word)) found.add(word);
      if (found.size === wanted.size) break;
    }
    return found.size === 0 ? null : { found: found.size, slips: 0 };
  };
}

function fuzzyMatcher(words: readonly string[]): (value: JsonValue) => WordMatch | null {
  const wanted = words.map((word) => ({ word, most: slipsAllowed(word) }));
  return (value) => {
    let fewest = Infinity;
    for (const text of textsIn(value)) fewest = Math.min(fewest, fewestSlips(wanted, wordsOf(text)));
    return fewest === Infinity ? null : { found: words.length, slips: fewest };
  };
}

/** Of all ways to find the wanted words in this order; Infinity where there is none. */
function fewestSlips(
  wanted: readonly { readonly word: string; readonly most: number }[],
  words: readonly string[],
): number {
  // slips[n]: the fewest for the first n wanted words so far. From the last on, so that a word of the text is taken once.
  const slips = [0, ...wanted.map(() => Infinity)];
  for (const against of words) {
    for (let at = wanted.length; at > 0; at -= 1) {
      const before = slips[at - 1] ?? Infinity;
      const last = wanted[at - 1];
      if (before >= (slips[at] ?? Infinity) || last === undefined) continue;
      const between = slipsBetween(last.word, against, last.most);
      if (between !== null) slips[at] = Math.min(slips[at] ?? Infinity, before + between);
    }
  }
  return slips.at(-1) ?? Infinity;
}
