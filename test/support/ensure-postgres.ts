import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * Runs once before all tests: those of the PostgreSQL sink need a real server, 14 or later. Its programs are looked for
 * in $POSTGRES_BIN, on the PATH, and where Debian puts them; on a Debian machine where we may, the package is
 * installed, without a server of its own. Otherwise only the tests that need it fail, and say why.
 */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'connector-sync-initialized-'));
  process.env[initializedFolder] = folder;
  installPostgres();
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Of a folder that all test processes share during one run: there `postgres.ts` keeps the files of an empty server. */
export const initializedFolder = 'POSTGRES_INITIALIZED';

function installPostgres(): void {
  if (findPostgres() !== null) return;
  if (!canInstall()) {
    console.warn(`Found no PostgreSQL, so tests of it will fail. ${howToGetPostgres}`);
    return;
  }
  console.warn(
    'Found no PostgreSQL: installing the Debian package postgresql, without a server of its own ...',
  );
  const quiet = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
  const run = (...args: string[]): void => {
    execFileSync('apt-get', args, { env: quiet, stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 });
  };
  try {
    if (!existsSync('/etc/postgresql-common/createcluster.conf')) {
      mkdirSync('/etc/postgresql-common', { recursive: true });
      writeFileSync('/etc/postgresql-common/createcluster.conf', 'create_main_cluster = false\n');
    }
    run('update', '-qq');
    run(
      'install',
      '-y',
      '-qq',
      '--no-install-recommends',
      '-o',
      'Dpkg::Options::=--force-confold',
      'postgresql',
    );
  } catch (error) {
    console.warn(`Installing postgresql failed (${String(error)}); tests that need it will fail.`);
  }
}

/** The folder with `initdb` and `postgres`, or null. */
export function findPostgres(): string | null {
  const named = process.env['POSTGRES_BIN'] ?? '';
  const candidates = named === '' ? [...pathFolders(), ...debianFolders()] : [named];
  return (
    candidates.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))) ??
    null
  );
}

export const howToGetPostgres =
  'Tests of the PostgreSQL sink need the server programs of PostgreSQL 14 or later. Install the Debian package postgresql (apt-get install postgresql; ' +
  'root may also run the tests, which then do so), or set POSTGRES_BIN to the folder that holds initdb and postgres.';

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

function canInstall(): boolean {
  if ((process.env['POSTGRES_BIN'] ?? '') !== '') return false;
  return process.platform === 'linux' && process.getuid?.() === 0 && existsSync('/usr/bin/apt-get');
}
