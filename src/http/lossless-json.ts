import { parse as parseLossless } from 'lossless-json';
import type { JsonValue } from '../core/json.ts';

/** The text is no JSON, or JSON this program cannot hold. */
export class JsonTextError extends Error {
  override readonly name = 'JsonTextError';
  /** True when the text may be fine and only too deeply nested to be read without loss. */
  readonly isTooDeep: boolean;

  constructor(message: string, isTooDeep: boolean) {
    super(message);
    this.isTooDeep = isTooDeep;
  }
}

// A literal that a double may not hold: an integer of 16 or more digits, or an exponent of 3 or more.
const suspicious = /(?:^|[[:,])\s*-?(?:\d{16,}|\d+(?:\.\d+)?[eE]\+?\d{3,})/;
// A cheap check first: a suspicious text has one of these. It halves the time for all other texts.
const longDigits = /\d{16}/;
const longExponent = /\d[eE]\+?\d{3}/;
const maxExponent = 4_096;

/**
 * Reads JSON; an integer literal that a double cannot hold exactly becomes a bigint. The lossless reader is some
 * thirty times slower than `JSON.parse`, so it runs only on a text that holds a suspicious literal.
 * Throws `JsonTextError`, also where `JSON.parse` would not (nesting too deep for the lossless reader's stack).
 */
export function parseJsonText(text: string): JsonValue {
  try {
    const isSuspicious = (longDigits.test(text) || longExponent.test(text)) && suspicious.test(text);
    // `as`: both readers return JSON and nothing else.
    if (!isSuspicious) return JSON.parse(text) as JsonValue;
    return parseLossless(text, null, {
      parseNumber: readNumber,
      // As JSON.parse does it: the last one counts.
      onDuplicateKey: ({ newValue }) => newValue,
    }) as JsonValue;
  } catch (error) {
    if (error instanceof JsonTextError) throw error;
    const isTooDeep = error instanceof RangeError;
    // The reader's own message quotes the text, which may hold personal data.
    throw new JsonTextError(isTooDeep ? 'JSON nested too deeply' : 'not JSON', isTooDeep);
  }
}

/** The same; undefined for a text that cannot be read. */
export function tryJsonText(text: string): JsonValue | undefined {
  try {
    return parseJsonText(text);
  } catch {
    // The error says no more than that: its caller has something else to say.
    return undefined;
  }
}

function readNumber(literal: string): number | bigint {
  const value = Number(literal);
  if (/^-?\d+$/.test(literal)) return Number.isSafeInteger(value) ? value : BigInt(literal);
  return Number.isFinite(value) ? value : expand(literal);
}

/** `1e400`: beyond a double, but an integer. Writes it out; refuses exponents that would only cost memory. */
function expand(literal: string): bigint {
  const parts = /^(-?\d+)(?:\.(\d+))?[eE]\+?(\d+)$/.exec(literal);
  const fraction = parts?.[2] ?? '';
  const exponent = Number(parts?.[3] ?? Number.NaN);
  if (parts === null || !(exponent <= maxExponent) || exponent < fraction.length) {
    throw new JsonTextError('a number beyond every range', false);
  }
  return BigInt(`${parts[1]}${fraction}${'0'.repeat(exponent - fraction.length)}`);
}
