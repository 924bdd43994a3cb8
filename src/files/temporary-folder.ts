import { accessSync, constants, statSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SyncError, type ErrorCode } from '../core/errors.ts';

/** Makes a folder for temporary files that only this user can look into. Throws as `checkTemporaryFolder`. */
export async function makeTemporaryFolder(prefix: string, code?: ErrorCode): Promise<string> {
  checkTemporaryFolder([tmpdir()], code);
  return await mkdtemp(join(tmpdir(), prefix));
}

/** Throws `SyncError` where none of the folders can be written to. */
export function checkTemporaryFolder(folders: readonly string[], code: ErrorCode = 'SINK_FAILED'): void {
  const isUsable = (folder: string): boolean => {
    try {
      accessSync(folder, constants.W_OK | constants.X_OK);
      return statSync(folder).isDirectory();
    } catch {
      return false; // The next one may be usable.
    }
  };
  if (folders.some(isUsable)) return;
  throw new SyncError(
    `Expected a temporary folder that this user can write to, found none (${folders.join(', ')}). Mount one at /tmp (docker run --tmpfs /tmp), or name one in TMPDIR.`,
    { code, recovery: 'stop', context: { folders: folders.join(', ') } },
  );
}
