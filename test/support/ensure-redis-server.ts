import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const installable = 'redis-server';

/**
 * Runs once before all tests: the queue's tests need a real Redis. It is looked for in $REDIS_SERVER, then on the PATH;
 * on a Debian machine where we may, the package is installed. Otherwise only the tests that need it fail, and say why.
 */
export function setup(): void {
  if (findRedisServer() !== null || !canInstall()) return;
  const quiet = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (...args: string[]): void => {
    execFileSync('apt-get', args, { env: quiet, stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 });
  };
  try {
    run('update', '-qq');
    run('install', '-y', '-qq', '--no-install-recommends', installable);
  } catch (error) {
    console.warn(`Installing ${installable} failed (${String(error)}); tests that need it will fail.`);
  }
}

/** Absolute path of the executable, or null. */
export function findRedisServer(): string | null {
  const named = process.env['REDIS_SERVER'];
  const candidates =
    named === undefined || named === ''
      ? (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'redis-server'))
      : [named];
  return candidates.find(isExecutable) ?? null;
}

function canInstall(): boolean {
  // A person who names an executable wants that one and no other.
  if ((process.env['REDIS_SERVER'] ?? '') !== '') return false;
  return process.platform === 'linux' && process.getuid?.() === 0 && isExecutable('/usr/bin/apt-get');
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // Not there or not ours to run: the same for the caller.
  }
}
