import { hash } from 'node:crypto';

/**
 * The first 16 bytes of the SHA-256 of a text (keys, parameters): what is looked up by it, because an entry of an index
 * has a limit and a text has none. Two texts with the same hash would take 2^64 tries to find.
 */
export function textHash(text: string): Buffer {
  // By way of the digits: such a buffer is part of a larger one, where `hash` would allocate 32 bytes outside of the
  // heap each time.
  return Buffer.from(hash('sha256', text, 'hex').slice(0, 32), 'hex');
}
