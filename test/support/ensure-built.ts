import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { buildSync } from 'esbuild';

/** What the build writes last. */
const lastBuilt = 'dist/definitions.json';
/** What it is made of; package-lock.json names the libraries that it puts in. */
const sources = ['src', 'config/definitions', 'package.json', 'package-lock.json'];
/**
 * Programs of the tests that run in processes of their own. Translated once, with their libraries inside: loading
 * TypeScript, or the hundreds of files of a library, takes a process longer than most of them work.
 */
const programs = [
  'test/contracts/sink/holder-process.ts',
  'test/core/private-folders-process.ts',
  'test/jobs/budget/firing-process.ts',
  'test/jobs/killed-publication-process.ts',
  'test/jobs/poison-process.ts',
  'test/notify/telling-process.ts',
  'test/search/process/pool-holder.mjs',
  'test/service/store/syncing-service.mjs',
  'test/sign-ins/renewing-process.ts',
  'test/sinks/sqlite/migrating-process.ts',
  'test/sinks/sqlite/opening-process.ts',
  'test/sinks/postgres/host-process.ts',
  'test/sinks/postgres/migrating-process.ts',
  'test/e2e/power-loss/recorded-syncs.ts',
  'test/publish/publisher-process.ts',
  'test/publish/row-file-process.ts',
  'test/support/worker-process.mjs',
  'test/upstream/slot-holder.mjs',
];

/**
 * Runs once before all tests: those of whole processes run the built program, so it must not be older than its sources.
 */
export function setup(): void {
  const builtAt = existsSync(lastBuilt) ? statSync(lastBuilt).mtimeMs : 0;
  const files = sources.flatMap((source) => [source, ...entriesBelow(source)]);
  const isNew = files.every((file) => statSync(file).mtimeMs <= builtAt);
  if (!isNew) execFileSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
  const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    readonly peerDependencies: object;
  };
  buildSync({
    entryPoints: programs,
    outdir: 'dist/.test',
    outbase: 'test',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    external: [
      'better-sqlite3',
      'fastify',
      'pino',
      'pg-native',
      '@bull-board/*',
      ...Object.keys(peerDependencies),
    ],
    banner: {
      js: "import { createRequire as forLibraries } from 'node:module'; const require = forLibraries(import.meta.url);",
    },
    format: 'esm',
    platform: 'node',
    target: 'node20.18',
    logLevel: 'warning',
  });
}

/** The built file of one of these programs. */
export function testProgram(path: string): string {
  return join(import.meta.dirname, '../../dist/.test', path);
}

/** Folders too: their time tells when a file was deleted. */
function entriesBelow(folder: string): readonly string[] {
  if (!statSync(folder).isDirectory()) return [];
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
}
