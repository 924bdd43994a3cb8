import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { onTestFinished } from 'vitest';

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

/** Of every connection that is open or will be. Gives what takes it back. */
function beforeEachStatement(work: () => void): () => void {
  const memory = new Database(':memory:');
  const statement = Object.getPrototypeOf(memory.prepare('SELECT 1')) as object;
  memory.close();
  const watched: readonly (readonly [object, string])[] = [
    [Database.prototype, 'exec'],
    ...['run', 'get', 'all'].map((name) => [statement, name] as const),
  ];
  const restores = watched.map(([owner, name]) => {
    const original = Reflect.get(owner, name) as (...args: unknown[]) => unknown;
    Reflect.set(owner, name, function (this: unknown, ...args: unknown[]): unknown {
      work();
      return original.apply(this, args);
    });
    return () => Reflect.set(owner, name, original);
  });
  return () => {
    for (const restore of restores) restore();
  };
}
