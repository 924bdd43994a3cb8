import { createHash } from 'node:crypto';
import { diceFor } from '../dice.ts';
import { fileChunks, type FileContent } from './file-bytes.ts';
import { libraryKind, type Attachment } from './library.ts';

/** What the attachment's bytes are made of: others for each version. */
export function contentOf(seed: number, { index, version, kind, size }: Attachment): FileContent {
  return { seed: diceFor(seed, libraryKind.bytes, index, version).next(), kind, size };
}

/**
 * By content: every look at an account, and every revision of it, shows the same files again, and the largest takes a
 * tenth of a second to hash. Emptied when it is full: what it says can always be worked out again.
 */
const known = new Map<string, string>();
const maxKnown = 10_000;

/** SHA-256 of the bytes, in hex. */
export function checksumOf(content: FileContent): string {
  const name = JSON.stringify([content.seed, content.kind, content.size]);
  const before = known.get(name);
  if (before !== undefined) return before;
  const hash = createHash('sha256');
  for (const chunk of fileChunks(content)) hash.update(chunk);
  const checksum = hash.digest('hex');
  if (known.size >= maxKnown) known.clear();
  known.set(name, checksum);
  return checksum;
}
