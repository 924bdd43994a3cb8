/**
 * Words up to this length are in the index. Longer ones are not searched for and would only take space.
 * Counted in UTF-16 units.
 */
export const maxIndexedWord = 64;

/**
 * Letters (code points) and digits of words that can be found by their spelling: ids and numbers would fill the list
 * and are not misspelled.
 */
const maxSpelledLetters = 24;
const maxSpelledDigits = 6;

/** No word holds it, and the tokenizer takes every sign beyond ASCII for a letter. */
const edge = '·';

/** Whether the word is in the list of spellings. */
export function isSpelled(word: string): boolean {
  return isWithin(word, 0);
}

/** Whether every word that is this one with up to `slips` slips would be in the list of spellings. */
export function areSpellingsListed(word: string, slips: number): boolean {
  return isWithin(word, slips);
}

/** The distinct groups of three letters in a row, those at its edges filled up. */
export function trigramsOf(word: string): readonly string[] {
  const letters = [edge, edge, ...Array.from(word), edge, edge];
  return [
    ...new Set(letters.slice(2).map((letter, index) => `${letters[index]}${letters[index + 1]}${letter}`)),
  ];
}

/**
 * Trigrams of which every word with up to `slips` slips has one; null where there are too few for that. A slip changes
 * four at most (two letters that change places), so one of any `4 * slips + 1` is left.
 */
export function tellingTrigrams(word: string, slips: number): readonly string[] | null {
  const needed = 4 * slips + 1;
  const trigrams = trigramsOf(word);
  if (trigrams.length < needed) return null;
  // Those with the fewest edges tell the most.
  return trigrams.toSorted((left, right) => edgesIn(left) - edgesIn(right)).slice(0, needed);
}

function edgesIn(trigram: string): number {
  return trigram.split(edge).length - 1;
}

function isWithin(word: string, margin: number): boolean {
  if (word.length > 2 * maxSpelledLetters) return false;
  const digits = word.match(/\p{N}/gu)?.length ?? 0;
  return Array.from(word).length <= maxSpelledLetters - margin && digits <= maxSpelledDigits - margin;
}
