// node test/on-node.mjs 24 26: installs this checkout with each of these Node.js majors, as a newcomer would, and runs
// the demo and the tests of the package, of sinks, of crashes and of Parquet there; with 24 also what documents advise
// to install.
// The Node.js binaries come from the npm registry.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const tests = [
  // The package as programs use it.
  'test/package.test.ts',
  // The ledger of a JSONL sink is such a file too.
  'test/sinks/sqlite.test.ts',
  'test/e2e/kills.test.ts',
  // Node.js has zstd since 22.15: DuckDB reads what is compressed by it.
  'test/publish/row-files.test.ts',
  'test/publish/publish-once.test.ts',
  'test/publish/row-files.test.ts',
];
/** Installs from the registry too, which takes a minute: with one major, the latest that has long-term support. */
const installing = { major: '24', test: 'test/install.test.ts' };
const checkout = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '..');

const majors = process.argv.slice(2);
if (majors.length === 0 || !majors.every((major) => /^\d+$/.test(major))) {
  console.error('usage: node test/on-node.mjs <major> [<major>...], for example 20 22 24 26');
  process.exit(2);
}
for (const major of majors) {
  const folder = mkdtempSync(path.join(tmpdir(), `on-node-${major}-`));
  try {
    const PATH = `${installNode(major, folder)}${path.delimiter}${process.env.PATH}`;
    const copy = path.join(folder, 'checkout');
    copyTracked(copy);
    const env = { ...process.env, PATH, KILLS: process.env.KILLS ?? '1', TEST_INSTALL: '1' };
    const run = (...words) => runIn(copy, env, words);
    run('node', '--version');
    run('npm', 'ci');
    run('npm', 'run', 'demo');
    run('npx', 'vitest', 'run', ...tests, ...(major === installing.major ? [installing.test] : []));
    console.log(`Node.js ${major}: demo and tests passed.`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function installNode(major, folder) {
  const name = `node-${process.platform}-${process.arch}`;
  const prefix = path.join(folder, 'node');
  mkdirSync(prefix);
  runIn(prefix, process.env, ['npm', 'install', '--no-save', '--prefix', prefix, `${name}@${major}`]);
  return path.join(prefix, 'node_modules', name, 'bin');
}

function copyTracked(folder) {
  const files = execFileSync('git', ['ls-files', '-z'], { cwd: checkout, encoding: 'utf8' }).split('\0');
  for (const file of files.filter(Boolean)) cpSync(path.join(checkout, file), path.join(folder, file));
}

function runIn(cwd, env, [command, ...args]) {
  console.log(`$ ${[command, ...args].join(' ')}`);
  const { status, error } = spawnSync(command, args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) throw error ?? new Error(`${command} ${args.join(' ')} ended with ${status}`);
}
