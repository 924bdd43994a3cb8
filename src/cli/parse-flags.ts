import { usage } from '../core/usage-error.ts';
import { durationExamples, formatDuration, parseDuration } from '../settings/parse-unit.ts';

/** The value of a flag, `min` to `max`. Throws USAGE that names the flag, as all of these do. */
export function wholeNumber(flag: string, text: string, max = Number.MAX_SAFE_INTEGER, min = 0): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  const upTo = max === Number.MAX_SAFE_INTEGER ? '' : ` to ${max}`;
  throw usage(`${flag}: expected a whole number from ${min}${upTo}, got "${text}".`);
}

/** Milliseconds. */
export function durationOf(flag: string, text: string, minMs = 0, maxMs = Infinity): number {
  const ms = parseDuration(text);
  if (ms === null) throw usage(`${flag}: expected a duration such as ${durationExamples}, got "${text}".`);
  if (ms >= minMs && ms <= maxMs) return ms;
  throw usage(`${flag}: expected ${formatDuration(minMs)} to ${formatDuration(maxMs)}, got "${text}".`);
}

export function oneOf<const Choice extends string>(
  flag: string,
  text: string,
  choices: readonly Choice[],
): Choice {
  const found = choices.find((choice) => choice === text);
  if (found !== undefined) return found;
  const [last = '', ...others] = choices.toReversed();
  throw usage(`${flag}: expected ${others.toReversed().join(', ')} or ${last}, got "${text}".`);
}
