import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { beforeEachStatement } from '../stored/killed-opening.ts';

/**
 * Does the work, and copies the folder in front of each statement whose number `every` divides: what a kill would leave
 * there. Gives the copies, which go with the test.
 */
export async function killedCopies(
  folder: string,
  every: number,
  work: () => Promise<unknown>,
): Promise<readonly string[]> {
  const copies: string[] = [];
  onTestFinished(() => {
    for (const copy of copies) rmSync(copy, { recursive: true });
  });
  let statement = 0;
  const restore = beforeEachStatement(() => {
    statement += 1;
    if (statement % every !== 0) return;
    const copy = mkdtempSync(join(tmpdir(), 'killed-'));
    copies.push(copy);
    cpSync(folder, copy, { recursive: true, filter: (path) => !path.endsWith('-shm') });
  });
  try {
    await work();
  } finally {
    restore();
  }
  return copies;
}
