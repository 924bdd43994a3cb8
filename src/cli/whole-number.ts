import { usage } from '../core/usage-error.ts';

/** The value of a flag, `min` to `max`. Throws USAGE that names the flag. */
export function wholeNumber(flag: string, text: string, max: number, min = 0): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw usage(`${flag}: expected a whole number from ${min} to ${max}, got "${text}".`);
}
