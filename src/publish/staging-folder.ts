import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { systemClock } from '../core/clock.ts';
import { removeOld, type Leftover, type LeftoverAges, type Leftovers } from './object-store.ts';

/** A folder for files that wait for their upload, for their owner alone. Disposed, it is removed. */
interface StagingFolder extends AsyncDisposable {
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

interface Found extends Leftover {
  readonly folder: string;
}

/**
 * Of killed processes: those in which nothing was created for so long, by this machine's clock, which gave them their
 * times.
 */
export async function removeStagingFolders({ ageMs, isDryRun }: LeftoverAges): Promise<Leftovers> {
  const found: Found[] = [];
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix)) continue;
    const folder = path.join(tmpdir(), name);
    // Null: it is another user's, whose next prune removes it; or another process removes it now.
    const one = await lookInto(folder).catch(() => null);
    if (one !== null) found.push(one);
  }
  const ages = { ageMs, now: () => Promise.resolve(systemClock.now()), isDryRun };
  return await removeOld(found, ages, async (old) => {
    for (const { folder } of old) await rm(folder, { recursive: true }).catch(() => undefined);
  });
}

async function lookInto(folder: string): Promise<Found> {
  const { mtimeMs } = await stat(folder);
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map(async (each) => (await stat(path.join(folder, each))).size));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  return { folder, files: files.length, bytes, modifiedAtMs: mtimeMs };
}
