import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { it } from './support/it.ts';
import { openCliWorld } from './support/cli-world.ts';

const run = promisify(execFile);
const root = resolve(import.meta.dirname, '..');
let folder: string;
let installed: string;
let launcher: string;
const mebibyte = 1024 * 1024;

/** As npm would install it, but for its dependencies, which are those of this checkout. */
it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  const { name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { name: string };
  installed = join(folder, 'node_modules', name);
  launcher = join(installed, 'src', 'launch.cjs');
  await run('npm', ['run', '--silent', 'build:types'], { cwd: root });
  await run('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], { cwd: root });
  mkdirSync(installed, { recursive: true });
  const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  await run('tar', ['-xzf', join(folder, tarball), '-C', installed, '--strip-components', '1']);
  for (const library of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(join(root, 'node_modules', library), join(folder, 'node_modules', library));
  }
}, 120_000);

// Proves promise 19
it('holds what runs and its types, without tests, sources and source maps', () => {
  const files = readdirSync(installed, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const other = files
    .map(({ parentPath, name }) => join(parentPath, name).slice(installed.length + 1))
    .filter((path) => !/^dist\/.*\.js$/.test(path));
  expect(other.filter((path) => !path.startsWith('config/definitions/')).sort()).toEqual([
    'LICENSE',
    'README.md',
    'config/connector-sync.example.yaml',
    'config/publication-1.schema.json',
    'dist/THIRD-PARTY-LICENSES.txt',
    'dist/core/errors.d.ts',
    'dist/definitions.json',
    'dist/library-shapes.d.ts',
    'dist/library.d.ts',
    'dist/page/files/icon.svg',
    'dist/page/files/style.css',
    'package.json',
    'src/launch.cjs',
  ]);
  const [tarball = ''] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  // Three quarters of it are this program's own code, so it grows; which packages are put in, deployment.test.ts holds.
  expect(readFileSync(join(folder, tarball)).byteLength).toBeLessThan(1.25 * mebibyte);
});

// Proves promise 19
it('runs from where npm installed it', async () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect((await run(process.execPath, [launcher, '--version'], { cwd: folder })).stdout).toBe(`${version}\n`);
  const help = await run(process.execPath, [launcher, 'demo', '--help'], { cwd: folder });
  expect(help.stdout).toContain('Usage: connector-sync demo');
});

// Proves promise 19
it('says which Node.js it needs, on one that is too old', async () => {
  const pretend = `Object.defineProperty(process, 'version', { value: 'v18.20.4' }); require(${JSON.stringify(launcher)})`;
  const ended = await run(process.execPath, ['-e', pretend]).catch((error: unknown) => error);
  expect(ended).toMatchObject({
    code: 2,
    stderr: `connector-sync needs Node.js 20.18.1 or later; this is v18.20.4 (${process.execPath}). Install a later one, for example from https://nodejs.org.\n`,
  });
});

// Proves promise 19
it('says which command builds it, in a clone that is not built', async () => {
  const clone = join(folder, 'clone');
  cpSync(join(root, 'package.json'), join(clone, 'package.json'));
  cpSync(join(root, 'src', 'launch.cjs'), join(clone, 'src', 'launch.cjs'));
  const ended = await run(process.execPath, [join(clone, 'src', 'launch.cjs'), 'status']).catch(
    (error: unknown) => error,
  );
  expect(ended).toMatchObject({
    code: 2,
    stderr: `connector-sync is not built yet. Run "npm run build" in ${clone} first.\n`,
  });
});

// Proves promise 19
it('compiles and runs the example of docs/library.md', async () => {
  const [, example = ''] =
    /```ts\n([^]*?)```/.exec(readFileSync(join(root, 'docs/library.md'), 'utf8')) ?? [];
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, 'example.ts'), example);
  const flags = ['--strict', '--skipLibCheck', 'false', '--module', 'nodenext', '--target', 'es2023'];
  const more = ['--lib', 'es2023,esnext.disposable', '--types', 'node', '--exactOptionalPropertyTypes'];
  const tsc = join(folder, 'node_modules', '.bin', 'tsc');
  await run(tsc, [...flags, ...more, 'example.ts'], { cwd: folder }).catch((error: unknown) => {
    throw new Error((error as { stdout: string }).stdout);
  });
  await using world = await openCliWorld({ settings: '    include: [lists]\n' });
  cpSync(world.config, join(folder, 'connector-sync.yaml'));
  const env = { PATH: process.env['PATH'], ...world.env };
  const { stdout, stderr } = await run(process.execPath, ['example.js'], { cwd: folder, env });
  expect(stderr).toBe('');
  expect(stdout).toMatch(/^newsletter ok/);
  expect(stdout).toMatch(/upserts: [1-9]\d*,\s+deletes: 0,\s+nextSeq: [1-9]\d*,\s+asOf: '20/);
  expect(stdout).toMatch(/newsletter [1-9]\d* rows\nwiki 0 rows\n$/);
}, 60_000);
