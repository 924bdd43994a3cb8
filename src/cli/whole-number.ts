import { usage } from '../core/usage-error.ts';

/** The value of a flag, 0 to `max`. Throws USAGE that names the flag. */
export function wholeNumber(flag: string, text: string, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value <= max) return value;
  throw usage(`${flag}: expected a whole number from 0 to ${max}, got "${text}".`);
}
