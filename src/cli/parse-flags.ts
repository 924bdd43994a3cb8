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

/** The parts of `process.stdin` that are used. */
export interface Input extends AsyncIterable<string | Uint8Array> {
  readonly isTTY?: boolean;
}

/**
 * All of standard input as text, for a flag whose value is `-`. Throws USAGE for more than `maxBytes` and for what is
 * no UTF-8, or the signal's reason.
 */
export async function readInput(input: Input, maxBytes: number, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_resolve, reject) => {
    // `as`: this program aborts with errors alone.
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  return await Promise.race([collect(input, maxBytes), aborted]);
}

async function collect(input: Input, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > maxBytes) throw usage(`Standard input: expected at most ${maxBytes} bytes, got more.`);
    chunks.push(bytes);
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw usage('Standard input: expected a text in UTF-8, got other bytes.');
  }
}
