import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import * as z from 'zod';
import type { ListedFile } from './file-list.ts';

export interface KeptLines extends Pick<ListedFile, 'length' | 'lastSeq' | 'hash'> {
  readonly isToKeepAside: boolean;
}

const nothing: KeptLines = { length: 0, lastSeq: 0, hash: null, isToKeepAside: false };

/**
 * Null when the committed bytes are there. Else the whole lines in front of what is missing: blocks that did not reach
 * the disk are behind the end or full of zeros, which no line holds. Where neither explains the difference no line can
 * be relied on.
 */
export function readKept(path: string, file: ListedFile): KeptLines | null {
  const bytes = existsSync(path) ? readFileSync(path).subarray(0, file.length) : Buffer.alloc(0);
  const hole = bytes.indexOf(0);
  const isWhole = bytes.length === file.length && hole < 0;
  if (isWhole && (file.hash === null || file.hash === hashOf(bytes))) return null;
  if (isWhole) return { ...nothing, isToKeepAside: true };
  const good = hole < 0 ? bytes : bytes.subarray(0, hole);
  const length = good.lastIndexOf(10) + 1;
  if (length === 0) return nothing;
  const lastStart = length < 2 ? 0 : good.lastIndexOf(10, length - 2) + 1;
  const lastSeq = readSeq(good.toString('utf8', lastStart, length));
  const isOurs = lastSeq !== null && lastSeq >= file.firstSeq && lastSeq <= file.lastSeq;
  return isOurs
    ? { length, lastSeq, hash: hashOf(good.subarray(0, length)), isToKeepAside: false }
    : { ...nothing, isToKeepAside: true };
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const sequenced = z.object({ _seq: z.number().int() });

function readSeq(line: string): number | null {
  try {
    return sequenced.parse(JSON.parse(line))._seq;
  } catch {
    // Not one of our lines (zeros after a power loss, say): nothing in the file can be trusted.
    return null;
  }
}
