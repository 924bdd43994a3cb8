import { usage } from '../core/usage-error.ts';

/** The parts of `process.stdin` that are used. */
export interface Input extends AsyncIterable<string | Uint8Array> {
  readonly isTTY?: boolean;
}

/**
 * All of standard input as text. Throws USAGE for more than `maxBytes` and for what is no UTF-8, or the signal's
 * reason.
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
