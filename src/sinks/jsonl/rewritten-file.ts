import { createHash } from 'node:crypto';
import { closeSync, existsSync, fsyncSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { openPrivateFile, syncDirectory } from '../../files/private-file.ts';
import type { ListedFile } from './file-list.ts';

/** A closed file without its purged lines, until it takes the place of the one at `path`. */
function rewrittenName(path: string): string {
  return `${path}.purged`;
}

/** Writes it beside the file at `path`, in place of one that a killed purge has left; gives its SHA-256. */
export function writeRewritten(path: string, lines: readonly Buffer[]): string {
  const name = rewrittenName(path);
  rmSync(name, { force: true });
  const descriptor = openPrivateFile(name);
  const hash = createHash('sha256');
  try {
    for (const line of lines) {
      for (let written = 0; written < line.length;) written += writeSync(descriptor, line, written);
      hash.update(line);
    }
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  return hash.digest('hex');
}

/** After the commit that lists it. */
export function takeRewritten(path: string): void {
  try {
    renameSync(rewrittenName(path), path);
    syncDirectory(dirname(path));
  } catch {
    // The ledger says which bytes count; `finishRewritten` repeats it when the connector is taken next.
  }
}

/** Of a file that is not as it is listed: what a process that was killed after its commit has left to do. */
export function finishRewritten(path: string, { hash }: ListedFile): void {
  const name = rewrittenName(path);
  if (!existsSync(name)) return;
  if (createHash('sha256').update(readFileSync(name)).digest('hex') === hash) takeRewritten(path);
}
