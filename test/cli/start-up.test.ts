import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { it } from '../support/it.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const noteLoaded = new URL('../support/note-loaded-modules.mjs', import.meta.url).href;

const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main, schedule: { cron: '0 4 * * *' } }
`;

let folder: string;
it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  await writeFile(join(folder, 'good.yaml'), config);
  await writeFile(join(folder, 'bad.yaml'), config.replace('sink: main', 'sink: man'));
});

const { dependencies } = createRequire(import.meta.url)('../../package.json') as {
  readonly dependencies: Readonly<Record<string, string>>;
};

/** Of these libraries. A new one here costs every start. What they load themselves is not named. */
const forSinks = ['better-sqlite3'];

/**
 * Files of its own and their KiB, somewhat above what each loads today. What grows beyond it has lost its place: a
 * command imports what it does not always need, or all of zod came in with an import of `{ z }`.
 */
// Proves promise 19.1
it.each([
  { args: ['--version'], code: 0, packages: [], files: 8, kib: 56 },
  { args: ['--help'], code: 0, packages: [], files: 8, kib: 56 },
  { args: ['sync', '-c', 'bad.yaml'], code: 2, packages: forSinks, files: 51, kib: 960 },
  { args: ['worker', '-c', 'bad.yaml'], code: 2, packages: ['pino'], files: 18, kib: 740 },
  { args: ['status', '-c', 'good.yaml'], code: 0, packages: [...forSinks, 'p-queue'], files: 70, kib: 1050 },
  {
    args: ['reset', 'newsletter', '-c', 'good.yaml'],
    code: 2,
    packages: [...forSinks, 'p-queue'],
    files: 60,
    kib: 1050,
  },
])('$args loads only what it needs', async ({ args, code, packages, files, kib }) => {
  const loaded = await loadedBy(args, code);
  const libraries = loaded.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  const direct = [...new Set(libraries)].filter((name) => Object.hasOwn(dependencies, name));
  expect(direct.filter((name) => !['commander', ...packages].includes(name))).toEqual([]);
  expect(libraries).toContain('commander');
  const own = loaded.filter((url) => url.startsWith('file:') && !url.includes('/node_modules/'));
  expect(own.length).toBeLessThan(files);
  const bytes = own.reduce((sum, url) => sum + statSync(new URL(url)).size, 0);
  expect(bytes / 1024).toBeLessThan(kib);
});

/** The modules that the program loads, as addresses. */
async function loadedBy(args: readonly string[], expectedCode: number): Promise<readonly string[]> {
  const list = join(folder, 'loaded.txt');
  await rm(list, { force: true });
  const env = { PATH: process.env['PATH'], LOADED_MODULES: list };
  const code = await new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--import', noteLoaded, program, ...args],
      { cwd: folder, env },
      () => resolve(child.exitCode),
    );
  });
  expect(code).toBe(expectedCode);
  return (await readFile(list, 'utf8')).trimEnd().split('\n');
}
