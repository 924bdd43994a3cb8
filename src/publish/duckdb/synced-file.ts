import { open } from 'node:fs/promises';

/** A file or a folder reaches the disk. */
export async function syncedFile(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
