import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A folder for files that wait for their upload, for their owner alone. Disposed, it is gone. */
export interface StagingFolder extends AsyncDisposable {
  /** Of a file that is not there yet. */
  newPath(): Promise<string>;
}

const prefix = 'connector-sync-publish-';

export function openStagingFolder(): StagingFolder {
  let folder: Promise<string> | null = null;
  let files = 0;
  return {
    newPath: async () => {
      folder ??= mkdtemp(path.join(tmpdir(), prefix));
      files += 1;
      return path.join(await folder, String(files));
    },
    [Symbol.asyncDispose]: async () => {
      const made = await folder?.catch(() => null);
      if (typeof made === 'string') await rm(made, { recursive: true, force: true });
    },
  };
}

/** Of killed processes: in which nothing was created since `beforeMs` (since the epoch). */
export async function removeStagingFolders(
  beforeMs: number,
): Promise<{ readonly files: number; readonly bytes: number }> {
  let files = 0;
  let bytes = 0;
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue;
    const folder = path.join(tmpdir(), name);
    try {
      if ((await stat(folder)).mtimeMs >= beforeMs) continue;
      const staged = await readdir(folder);
      const sizes = await Promise.all(staged.map(async (each) => (await stat(path.join(folder, each))).size));
      await rm(folder, { recursive: true });
      files += staged.length;
      bytes += sizes.reduce((sum, size) => sum + size, 0);
    } catch {
      // It is another user's, whose next publication removes it; or another process removes it now.
    }
  }
  return { files, bytes };
}
