import type { JsonValue } from '../core/json.ts';
import { valueAt } from './field-value.ts';
import { comparable } from './instants.ts';
import { isLike, likePattern } from './like-pattern.ts';
import type { Condition, FieldCondition, Ordering, Scalar, WordCondition } from './search-request.ts';
import { slipsAllowed, slipsBetween, textsIn, wordsOf } from './words.ts';

/** Makes the function that says whether a value (an object, for its paths to lead anywhere) meets the condition. */
export function conditionMatcher(condition: Condition): (value: JsonValue) => boolean {
  if (condition.kind === 'and' || condition.kind === 'or') {
    const all = condition.conditions.map(conditionMatcher);
    return condition.kind === 'and'
      ? (value) => all.every((meets) => meets(value))
      : (value) => all.some((meets) => meets(value));
  }
  if (condition.kind === 'not') {
    const meets = conditionMatcher(condition.condition);
    return (value) => !meets(value);
  }
  const find = valueAt(condition.path);
  const meets = valueMatcher(condition);
  return (value) => meets(find(value));
}

/** The same for the value that the condition's path leads to. */
export function valueMatcher(condition: FieldCondition): (found: JsonValue) => boolean {
  switch (condition.kind) {
    case 'eq':
      return (found) => equals(found, condition.value);
    case 'neq':
      return (found) => !equals(found, condition.value);
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte':
      return (found) => {
        const difference = compareScalars(found, condition.value);
        return difference !== null && holds[condition.kind](difference);
      };
    case 'in':
      return (found) => condition.values.some((value) => equals(found, value));
    case 'like': {
      const pattern = likePattern(condition.pattern);
      return (found) => typeof found === 'string' && isLike(pattern, found);
    }
    case 'keyword':
    case 'fuzzy': {
      const match = wordMatcher(condition);
      return (found) => match(found) !== null;
    }
    case 'contains':
      return (found) => {
        if (Array.isArray(found)) return found.some((element: JsonValue) => equals(element, condition.value));
        return (
          typeof found === 'string' && typeof condition.value === 'string' && found.includes(condition.value)
        );
      };
    case 'any': {
      const meets = conditionMatcher(condition.condition);
      return (found) => Array.isArray(found) && found.some((element: JsonValue) => meets(element));
    }
  }
}

/**
 * Of one type and worth the same; an object or an array equals nothing. Numbers are exact beyond what a double holds,
 * and times are equal that name the same instant.
 */
function equals(value: JsonValue, other: Scalar): boolean {
  if (isNumber(value) && isNumber(other)) return compareNumbers(value, other) === 0;
  if (typeof value === 'string' && typeof other === 'string') return comparable(value) === comparable(other);
  return value === other;
}

/** Of how two values differ. */
const holds: Readonly<Record<Ordering, (difference: number) => boolean>> = {
  gt: (difference) => difference > 0,
  gte: (difference) => difference >= 0,
  lt: (difference) => difference < 0,
  lte: (difference) => difference <= 0,
};

/** Null where the two are not of one type, or have no order. */
function compareScalars(left: JsonValue, right: Scalar): number | null {
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right);
  if (typeof left === 'string' && typeof right === 'string') {
    return compareTexts(comparable(left), comparable(right));
  }
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right);
  return null;
}

function isNumber(value: JsonValue): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint';
}

function compareNumbers(left: number | bigint, right: number | bigint): number {
  if (left < right) return -1;
  return left > right ? 1 : 0;
}

/** By code point, which is the order of UTF-8's bytes and so of SQLite's BINARY. `<` compares UTF-16. */
export function compareTexts(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index += 1) {
    const difference = rank(left.charCodeAt(index)) - rank(right.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Surrogates stand for code points beyond all others. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x1_0000 : unit;
}

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
  // slips[n]: the fewest for the first n wanted words so far. From the last on, so that a word of the text is taken
  // once.
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
