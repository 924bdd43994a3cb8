import type { CallFacts } from './call-failure.ts';
import { fileTooLarge, invalidFile } from './classify-failure.ts';

/** What is known of a file's length before its bytes come; in bytes, null: nothing. */
export interface FileLengths {
  /** By the answer's `Content-Length`. */
  readonly announced: number | null;
  /** By the record. */
  readonly recorded: number | null;
  readonly max: number;
}

/**
 * The chunks of a file, ended only where it is whole as far as that can be known: a connection that is closed too early looks like the
 * end of a body without a length. Throws `CallFailure` for a file that is empty, of another length, or too large.
 */
export async function* checkedBytes(
  chunks: AsyncIterable<Uint8Array>,
  { announced, recorded, max }: FileLengths,
  facts: CallFacts,
): AsyncGenerator<Uint8Array> {
  if (Math.max(announced ?? 0, recorded ?? 0) > max) throw fileTooLarge(facts, max);
  if (announced !== null && recorded !== null && announced !== recorded) {
    throw invalidFile(facts, `expected ${recorded} bytes by its record, the answer announces ${announced}`);
  }
  const expected = announced ?? recorded;
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.byteLength;
    if (length > max) throw fileTooLarge(facts, max);
    if (expected !== null && length > expected) {
      throw invalidFile(facts, `expected ${expected} bytes, got more`);
    }
    if (chunk.byteLength > 0) yield chunk;
  }
  if (length === 0) {
    throw invalidFile(facts, 'expected a file, got no bytes, as of one that the service does not know');
  }
  if (expected !== null && length < expected) {
    throw invalidFile(facts, `expected ${expected} bytes, got ${length}`);
  }
}
