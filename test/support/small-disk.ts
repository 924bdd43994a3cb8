import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';

/** A folder on a separate small disk, if this machine allows it. */
interface SmallDisk extends Disposable {
  /** Null, or why the disk cannot be made full. */
  readonly unavailable: string | null;
  fill(): void;
  free(): void;
}

const sizeMiB = 256;

/** Mounts a tmpfs on the folder, which needs root and kernel support; otherwise it is an ordinary folder. */
export function openSmallDisk(folder: string): SmallDisk {
  mkdirSync(folder, { recursive: true });
  const unavailable = mount(folder);
  const ballast = path.join(folder, 'ballast');
  const free = (): void => rmSync(ballast, { force: true });
  return {
    unavailable,
    fill: () => fillUp(ballast),
    free,
    [Symbol.dispose]: () => {
      free();
      if (unavailable === null) execFileSync('umount', [folder]);
    },
  };
}

function mount(folder: string): string | null {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMiB}m`, 'tmpfs', folder], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return error instanceof Error ? (error.message.trim().split('\n').at(-1) ?? '') : String(error);
  }
}

function fillUp(file: string): void {
  const handle = openSync(file, 'w');
  try {
    for (let size = 1024 * 1024; size >= 4096;) {
      try {
        // A write at the end of the disk is short.
        if (writeSync(handle, Buffer.alloc(size)) < size) size /= 2;
      } catch {
        // ENOSPC: a smaller piece may still fit.
        size /= 2;
      }
    }
  } finally {
    closeSync(handle);
  }
}
