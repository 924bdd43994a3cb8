import { statfsSync } from 'node:fs';
import { dirname } from 'node:path';

const fullCodes: ReadonlySet<string> = new Set(['SQLITE_FULL', 'ENOSPC', 'EDQUOT']);

/** Of SQLite or of a system call. */
export function saysFull(code: string): boolean {
  return fullCodes.has(code);
}

/**
 * `No space is left for /data/sync.db (ENOSPC; 12.0 KiB free on its disk)`: a quota, or a place for temporary files,
 * may be full where the disk is not.
 */
export function noSpaceText(path: string, code: string): string {
  return `No space is left for ${path} (${code}; ${freeText(path)} on its disk)`;
}

function freeText(path: string): string {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(path);
    if (files > 0 && ffree === 0) return 'no inodes free';
    return `${sizeText(bavail * bsize)} free`;
  } catch {
    // A file that could not be made: what its folder says is the same.
    const folder = dirname(path);
    return folder === path ? 'unknown how much is free' : freeText(folder);
  }
}

function sizeText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit += 1) size /= 1024;
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}
