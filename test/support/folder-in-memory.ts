import { accessSync, chmodSync, constants, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const memory = '/dev/shm';
const leastBytes = 4 * 2 ** 30;

/**
 * Runs before all tests, and first: they have their folders in memory, where Linux has room for them and lets programs
 * run there. On a disk, tests of sinks wait for it half of their time, and none of them is about the disk: what a kill
 * leaves is the same, and a loss of power is played from the calls that were made. `TMPDIR` names another folder.
 */
export function setup(): (() => void) | undefined {
  if (process.env['TMPDIR'] !== undefined || !hasRoom()) return undefined;
  const folder = mkdtempSync(join(memory, 'tests-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  if (!runsPrograms(folder)) {
    remove();
    return undefined;
  }
  // PostgreSQL runs as another user below root.
  chmodSync(folder, 0o711);
  process.env['TMPDIR'] = folder;
  return remove;
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize >= leastBytes;
  } catch {
    return false; // Not Linux, or a container without it: the disk is slower, and as good.
  }
}

function runsPrograms(folder: string): boolean {
  const program = join(folder, 'program');
  writeFileSync(program, '', { mode: 0o700 });
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false; // Mounted with noexec, as Docker does.
  } finally {
    rmSync(program);
  }
}
