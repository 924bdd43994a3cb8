import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import path from 'node:path';

/**
 * A disk of its own at this folder until it is disposed of. Mounting needs root and a kernel that allows it: elsewhere
 * the test is skipped.
 */
export function mountDisk(folder: string, size: string, skip: (note: string) => never) {
  mkdirSync(folder, { recursive: true });
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    skip('a tmpfs cannot be mounted here');
  }
  const ballast = path.join(folder, 'ballast');
  return {
    fill: () => fillUp(ballast),
    free: () => rmSync(ballast, { force: true }),
    remount: (how: string) => void execFileSync('mount', ['-o', `remount,${how}`, folder]),
    [Symbol.dispose]: () => void execFileSync('umount', ['-l', folder]),
  };
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
