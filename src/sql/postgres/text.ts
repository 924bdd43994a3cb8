import { hash } from 'node:crypto';

const escape = '\uE000';

/**
 * PostgreSQL refuses U+0000 in a text. It is stored as U+E000 `0`, and U+E000 itself as U+E000 `1`; nothing else changes, and two texts
 * are equal as they were before. `json` columns hold what came: there, U+0000 is written as six characters.
 */
export function writeText(text: string): string {
  if (!text.includes('\0') && !text.includes(escape)) return text;
  return text.replaceAll(escape, `${escape}1`).replaceAll('\0', `${escape}0`);
}

export function readText(text: string): string {
  if (!text.includes(escape)) return text;
  return text.replace(/\uE000([01])/g, (_, mark: string) => (mark === '0' ? '\0' : escape));
}

/**
 * The first 16 bytes of the SHA-256 of a text (keys, parameters): what is looked up by it, because an entry of an index has a limit and a
 * text has none. Two texts with the same hash would take 2^64 tries to find.
 */
export function textHash(text: string): Buffer {
  // By way of the digits: such a buffer is part of a larger one, where `hash` would allocate 32 bytes outside of the heap each time.
  return Buffer.from(hash('sha256', text, 'hex').slice(0, 32), 'hex');
}
