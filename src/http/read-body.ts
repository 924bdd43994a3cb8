import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { parse as parseLossless, stringify } from 'lossless-json';
import type { JsonValue } from '../core/json.ts';

const gunzipBytes = promisify(gunzip);
/** Refuses what is no UTF-8, and takes a byte order mark away. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** One attempt took longer than it may take in all, or its body came too slowly. */
export class AttemptTimeoutError extends Error {
  override readonly name = 'AttemptTimeoutError';
}

/** A body that arrived but cannot be read as text. */
export class UnreadableBodyError extends Error {
  override readonly name = 'UnreadableBodyError';
  readonly fault: 'too-large' | 'invalid';

  constructor(fault: 'too-large' | 'invalid', message: string) {
    super(message);
    this.fault = fault;
  }
}

/**
 * The text of a whole body. gzip is asked for because pages of records shrink 5-10 times on the wire for about 2 us a
 * record; it is inflated here, by one call that stops at `maxBytes` (undici's own decompression has no limit).
 * Throws `UnreadableBodyError`.
 */
export async function readBody(
  wire: Uint8Array,
  contentEncoding: string | null,
  maxBytes: number,
): Promise<string> {
  const bytes = await inflate(wire, contentEncoding, maxBytes);
  try {
    return utf8.decode(bytes);
  } catch {
    // It says no more than that the bytes are no UTF-8.
    throw new UnreadableBodyError('invalid', 'expected UTF-8, got other bytes');
  }
}

async function inflate(
  wire: Uint8Array,
  contentEncoding: string | null,
  maxBytes: number,
): Promise<Uint8Array> {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') {
    if (wire.byteLength > maxBytes) throw tooLarge(maxBytes);
    return wire;
  }
  if (encoding !== 'gzip' && encoding !== 'x-gzip') {
    throw new UnreadableBodyError('invalid', 'expected gzip or no content encoding, got another one');
  }
  try {
    return await gunzipBytes(wire, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(maxBytes);
    throw new UnreadableBodyError('invalid', 'the gzip body is cut or damaged');
  }
}

function tooLarge(maxBytes: number): UnreadableBodyError {
  return new UnreadableBodyError('too-large', `expected at most ${maxBytes} bytes, got more`);
}

/** At most the first `maxBytes` of a body; what was received before it broke off. Closes the body in any case. */
export async function readStart(body: AsyncIterable<unknown>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const chunk of body) {
      // `as`: a body without an encoding set yields Buffers.
      const bytes = chunk as Uint8Array;
      chunks.push(bytes);
      length += bytes.byteLength;
      // Leaving the loop destroys the body and with it the socket.
      if (length > maxBytes) break;
    }
  } catch {
    // A failure's body was cut: what came of it is enough, the status decides.
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

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
const maxExponent = 4_096;

/**
 * Reads JSON; an integer literal that a double cannot hold exactly becomes a bigint. The lossless reader is some
 * thirty times slower than `JSON.parse`, so it runs only on a text that holds a suspicious literal.
 * Throws `JsonTextError`, also where `JSON.parse` would not (nesting too deep for the lossless reader's stack).
 */
export function parseJsonText(text: string): JsonValue {
  try {
    // `as`: both readers return JSON and nothing else.
    if (!suspicious.test(text)) return JSON.parse(text) as JsonValue;
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

/** JSON for a request: a bigint (an id taken from a record, say) is written with all its digits. */
export function stringifyParams(value: JsonValue): string {
  // Undefined only for a value that is no JSON; the type leaves none.
  return stringify(value) ?? 'null';
}
