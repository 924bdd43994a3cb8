import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { hasCode } from '../ledger/private-file.ts';
import { SyncError } from '../../core/errors.ts';
import { type ListedFile, closedName, growingName } from './file-list.ts';

const chunkBytes = 256 * 1024;
const newline = 10;
const seqMark = Buffer.from('"_seq":');

export interface ChangeLine {
  readonly seq: number;
  readonly text: () => string;
}

/** The committed lines of files (by their numbers), in order, one at a time. Throws `SyncError` SINK_FAILED for a file that is gone or holds less. */
export function* readLines(directory: string, files: readonly ListedFile[]): Generator<ChangeLine> {
  for (const file of files) yield* readFile(directory, file);
}

function* readFile(directory: string, file: ListedFile): Generator<ChangeLine> {
  const descriptor = open(directory, file);
  try {
    let rest = Buffer.alloc(0);
    for (let position = 0; position < file.length;) {
      const chunk = Buffer.allocUnsafe(Math.min(chunkBytes, file.length - position));
      const bytes = readSync(descriptor, chunk, 0, chunk.length, position);
      if (bytes === 0) throw damaged(directory, file, `it ends after ${position} of ${file.length} bytes`);
      position += bytes;
      const read = Buffer.concat([rest, chunk.subarray(0, bytes)]);
      let start = 0;
      for (let end = read.indexOf(newline, start); end >= 0; end = read.indexOf(newline, start)) {
        const line = read.subarray(start, end);
        yield { seq: seqOf(line, directory, file), text: () => line.toString('utf8') };
        start = end + 1;
      }
      rest = read.subarray(start);
    }
    if (rest.length > 0) throw damaged(directory, file, 'its last line has no end');
  } finally {
    closeSync(descriptor);
  }
}

/** A file that was growing when the ledger was read may have got its final name since. */
function open(directory: string, file: ListedFile): number {
  for (const name of [closedName(file), growingName(file), closedName(file)]) {
    const path = join(directory, name);
    if (existsSync(path)) {
      try {
        return openSync(path, 'r');
      } catch (error) {
        if (!hasCode(error, 'ENOENT')) throw error;
      }
    }
  }
  throw damaged(directory, file, 'it is not there');
}

/** From the end: only the time and the run stand behind it, and neither can look like it. */
function seqOf(line: Buffer, directory: string, file: ListedFile): number {
  const at = line.lastIndexOf(seqMark);
  const seq =
    at < 0 ? Number.NaN : Number.parseInt(line.toString('latin1', at + seqMark.length, at + 40), 10);
  if (Number.isSafeInteger(seq)) return seq;
  throw damaged(directory, file, 'a line of it has no number');
}

function damaged(directory: string, file: ListedFile, found: string): SyncError {
  const path = join(directory, closedName(file));
  return new SyncError(
    `${path} should hold ${file.length} bytes of committed lines, but ${found}. Restore it from a backup; without one, the next sync says how to read its records again.`,
    { code: 'SINK_FAILED', recovery: 'stop', context: { file: path } },
  );
}
