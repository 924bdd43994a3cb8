import { linearPattern } from '../linear-pattern.ts';

/** Whatever the pattern lets through stands in a host: it may be made of nothing but the characters of a host. */
export function checkHostPattern(pattern: string, note: (message: string) => void): string {
  let end = 0;
  for (const { 0: found, index } of pattern.matchAll(patternPart)) {
    if (index !== end) break;
    end = index + found.length;
  }
  const rest = pattern.slice(end);
  if (rest !== '') {
    const message = patternAdvice.find(([form]) => form.test(rest))?.[1] ?? '';
    note(`${message}; got ${JSON.stringify(rest.slice(0, 10))} at ${end + 1}`);
    return pattern;
  }
  try {
    const whole = linearPattern(pattern);
    if (whole.size > maxPatternSize) note('expected fewer repetitions in it: multiplied, they are too many');
    else if (whole.test('')) note('expected a pattern that does not match an empty text');
  } catch {
    note('expected a regular expression; its brackets or repetitions do not fit together');
  }
  return pattern;
}

/** Twice that of a pattern for a whole host name. */
const maxPatternSize = 1_000;
const patternPart =
  /\\[.d]|\[(?:[a-z0-9_-]-[a-z0-9]|[a-z0-9_-])+\]|\{\d{1,3}(?:,\d{0,3})?\}|\(\?:|\((?!\?)|[a-z0-9_)|?*+-]/gy;

/** Matched against what follows the part of a pattern that can be used. */
const patternAdvice: readonly (readonly [RegExp, string])[] = [
  [
    /^\(\?<?[=!]/,
    'look-around is not known, because a pattern is matched in linear time: write out, as alternatives if need be, what the whole value looks like',
  ],
  [
    /^\\(?:[1-9]|k)/,
    'back-references are not known, because a pattern is matched in linear time: write out, as alternatives if need be, what the whole value looks like',
  ],
  [/^\(\?/, 'expected (?: or ( where a group begins'],
  [
    /^/,
    'expected a pattern of a-z, 0-9, "-", "_", "\\.", "\\d", [classes] of them, groups and repetitions; it is matched from end to end without ^ and $',
  ],
];
