import { execFileSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** Names the folder of one run in which `postgres.ts` keeps the files of an empty server for all test processes. */
export const initializedFolder = 'POSTGRES_INITIALIZED';

export const howToGetPostgres =
  'Tests of the PostgreSQL sink need the server programs of PostgreSQL 14 or later. Install the Debian package postgresql (apt-get install postgresql; ' +
  'root may also run the tests, which then do so), or set POSTGRES_BIN to the folder that holds initdb and postgres.';

/**
 * Runs once before all tests: those of the queue need a real Redis, those of the PostgreSQL sink a real server, 14 or
 * later. On a Debian machine where we may, what is missing is installed. Otherwise only the tests that need it fail,
 * and say why.
 */
export function setup(): () => void {
  if (findRedisServer() === null && canInstall('REDIS_SERVER')) install('redis-server');
  if (findPostgres() === null && canInstall('POSTGRES_BIN')) {
    // Without a server of its own.
    const settings = '/etc/postgresql-common/createcluster.conf';
    if (!existsSync(settings)) {
      mkdirSync('/etc/postgresql-common', { recursive: true });
      writeFileSync(settings, 'create_main_cluster = false\n');
    }
    install('postgresql');
  }
  if (findPostgres() === null) {
    console.warn(`Found no PostgreSQL, so tests of it will fail. ${howToGetPostgres}`);
  }
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-initialized-'));
  process.env[initializedFolder] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** `redis-server` as $REDIS_SERVER names it, or on the PATH; null: there is none. */
export function findRedisServer(): string | null {
  const named = process.env['REDIS_SERVER'] ?? '';
  const candidates = named === '' ? pathFolders().map((folder) => join(folder, 'redis-server')) : [named];
  return candidates.find(isExecutable) ?? null;
}

/** The folder with `initdb` and `postgres`: $POSTGRES_BIN, on the PATH, or where Debian puts them; null: none. */
export function findPostgres(): string | null {
  const named = process.env['POSTGRES_BIN'] ?? '';
  const candidates = named === '' ? [...pathFolders(), ...debianFolders()] : [named];
  return (
    candidates.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))) ??
    null
  );
}

function pathFolders(): readonly string[] {
  return (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
}

/** Newest version first. */
function debianFolders(): readonly string[] {
  const root = '/usr/lib/postgresql';
  if (!existsSync(root)) return [];
  const versions = readdirSync(root).toSorted((left, right) => Number(right) - Number(left));
  return versions.filter((version) => Number(version) >= 14).map((version) => join(root, version, 'bin'));
}

/** A person who names a program wants that one and no other. */
function canInstall(variable: string): boolean {
  if ((process.env[variable] ?? '') !== '') return false;
  return process.platform === 'linux' && process.getuid?.() === 0 && isExecutable('/usr/bin/apt-get');
}

function install(name: string): void {
  console.warn(`Installing the Debian package ${name} ...`);
  const quiet = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (...args: string[]): void => {
    execFileSync('apt-get', args, { env: quiet, stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 });
  };
  const keepSettings = ['-o', 'Dpkg::Options::=--force-confold'];
  try {
    run('update', '-qq');
    run('install', '-y', '-qq', '--no-install-recommends', ...keepSettings, name);
  } catch (error) {
    console.warn(`Installing ${name} failed (${String(error)}); tests that need it will fail.`);
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // Not there or not ours to run: the same for the caller.
  }
}
