import type { JsonValue } from '../core/json.ts';
import { readTime } from '../core/clock.ts';
import { valueAt } from './field-value.ts';
import type { Condition, FieldCondition, Ordering, Scalar, WordCondition } from './search-request.ts';

/**
 * Form in which texts are compared: a time as the same instant in UTC, spelled so that equal instants are equal texts
 * and earlier ones come first by code point (`2026-03-01T09:00:00.5`); any other text as it is. A date without a time
 * of day names no instant.
 */
export function comparable(text: string): string {
  return instantOf(text) ?? text;
}

/** Whether the text is a time, and so compared as an instant. */
export function isTime(text: string): boolean {
  return instantOf(text) !== null;
}

function instantOf(text: string): string | null {
  // Most texts are no times; this is called for every value that a search reads.
  if (text.length < 16 || text[10] !== 'T') return null;
  const time = readTime(text);
  if (time === null) return null;
  const utc = new Date(time.ms).toISOString();
  // Years before 0000 and after 9999 are written with a sign: they would not sort.
  if (utc.length !== 24) return null;
  const digits = time.fraction.replace(/0+$/, '');
  return digits === '' ? utc.slice(0, 19) : `${utc.slice(0, 19)}.${digits}`;
}

/**
 * A range of texts, without `to` itself: those outside of it are on the same side of the bound, whether they are
 * compared as they stand or as instants. `none`: the order of times does not depend on the bound. Null: unknown.
 */
export function rangeAround(bound: string) {
  if (!/^\d/.test(bound)) return 'none';
  const [, year, month = '01', day = '01'] =
    /^(\d{4})(?:-(\d\d)(?:-(\d\d)[^]*)?)?$/.exec(comparable(bound)) ?? [];
  const date = `${year}-${month}-${day}`;
  const midnight = Date.parse(`${date}T00:00:00Z`);
  const isDate = !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(date);
  if (!isDate || year === '0000' || year === '9999') return null;
  // An offset is less than a day.
  return { from: dayText(midnight - dayMs), to: dayText(midnight + 2 * dayMs) };
}

const dayMs = 86_400_000;

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** One sign of a pattern: a character as it is, any one (`_`), or any run (`%`). */
type Sign = { readonly kind: 'literal'; readonly text: string } | { readonly kind: 'one' | 'run' };

/** A `like` pattern taken apart. */
export type LikePattern = ReturnType<typeof likePattern>;

/** `\` takes the next sign as it is; at the end it stands for itself. Runs of `%` are one. */
export function likePattern(pattern: string) {
  const signs: Sign[] = [];
  /** Between signs for anything. */
  const literals = [''];
  const characters = Array.from(pattern);
  for (let index = 0; index < characters.length; index += 1) {
    const character = characters[index] ?? '';
    if (character === '%' || character === '_') {
      const isAgain = character === '%' && signs.at(-1)?.kind === 'run';
      if (!isAgain) signs.push({ kind: character === '%' ? 'run' : 'one' });
      literals.push('');
    } else {
      if (character === '\\') index += 1;
      const text = characters[index] ?? character;
      signs.push({ kind: 'literal', text });
      literals.push(`${literals.pop() ?? ''}${text}`);
    }
  }
  return {
    signs,
    /** Every text that matches begins with it. */
    prefix: literals[0] ?? '',
    /** The prefix is the only text that matches. */
    isExact: literals.length === 1,
    /** Longest text that every text that matches has in it. */
    longest: literals.reduce((longest, one) => (one.length > longest.length ? one : longest)),
  };
}

/** Without regular expressions: two marks that only move forward, so the work is bounded by both lengths. */
export function isLike({ signs }: LikePattern, text: string): boolean {
  const characters = Array.from(text);
  let at = 0;
  let sign = 0;
  let runAt = -1;
  let retryAt = 0;
  while (at < characters.length) {
    const wanted = signs[sign];
    if (wanted?.kind === 'run') {
      runAt = sign;
      retryAt = at;
      sign += 1;
    } else if (wanted?.kind === 'one' || (wanted?.kind === 'literal' && wanted.text === characters[at])) {
      at += 1;
      sign += 1;
    } else if (runAt >= 0) {
      retryAt += 1;
      at = retryAt;
      sign = runAt + 1;
    } else {
      return false;
    }
  }
  return signs.slice(sign).every(({ kind }) => kind === 'run');
}

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

/** Folds case by way of the upper case, which covers more (`ß` is `ss`); the two small sigmas are one. */
function folded(text: string): string {
  const plain = text.normalize('NFKD').replaceAll(accents, '').toLowerCase();
  const cased = plain.toUpperCase().toLowerCase();
  return cased.normalize('NFKD').replaceAll(accents, '').replaceAll('ς', 'σ');
}

/** Every text in a value, in its order, at any depth, without names of members. Words are searched in these. */
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

/** Number of typing errors that a word may have. A number with an error is another number: it may have none. */
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
function valueMatcher(condition: FieldCondition): (found: JsonValue) => boolean {
  switch (condition.kind) {
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
 * True for values of one type that are equal; an object or an array equals nothing. Numbers are exact beyond what a
 * double holds, and times are equal that name the same instant.
 */
function equals(value: JsonValue, other: Scalar): boolean {
  if (isNumber(value) && isNumber(other)) return compareNumbers(value, other) === 0;
  if (typeof value === 'string' && typeof other === 'string') return comparable(value) === comparable(other);
  return value === other;
}

/** Compares by the sign of the difference of two values. */
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

/** Compares by code point, the order of UTF-8's bytes and so of SQLite's BINARY. `<` compares UTF-16. */
function compareTexts(left: string, right: string): number {
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

/** Quality of a match of a condition on words: more words are better, then fewer slips. */
interface WordMatch {
  readonly found: number;
  readonly slips: number;
}

/** Makes the function that tells how well a value meets the condition, null where it does not. */
export function wordMatcher({ kind, words }: WordCondition): (value: JsonValue) => WordMatch | null {
  if (kind === 'fuzzy') return fuzzyMatcher(words);
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

/** Fewest slips over all ways to find the wanted words in this order; Infinity where there is none. */
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
