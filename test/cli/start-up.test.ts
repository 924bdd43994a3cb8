import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { makeCliFolder, type CliFolder } from '../support/cli-config.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const noteLoaded = new URL('../support/note-loaded-modules.mjs', import.meta.url).href;

const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
`;

let folder: CliFolder;
beforeAll(async () => {
  folder = await makeCliFolder();
  await writeFile(join(folder.path, 'good.yaml'), config);
  await writeFile(join(folder.path, 'bad.yaml'), config.replace('sink: main', 'sink: man'));
});
afterAll(() => folder[Symbol.asyncDispose]());

const forSettings = ['yaml', 'zod'];
const forSinks = ['better-sqlite3'];

/** Libraries and a number of modules of its own, somewhat above what each loads today. A new library here costs every start. */
it.each([
  { args: ['--version'], code: 0, packages: [], most: 30 },
  { args: ['--help'], code: 0, packages: [], most: 30 },
  { args: ['sync', '-c', 'bad.yaml'], code: 2, packages: [...forSettings, ...forSinks], most: 135 },
  { args: ['worker', '-c', 'bad.yaml'], code: 2, packages: [...forSettings, 'pino'], most: 90 },
  { args: ['status', '-c', 'good.yaml'], code: 0, packages: [...forSettings, ...forSinks], most: 120 },
])('$args loads only the libraries that it needs', async ({ args, code, packages, most }) => {
  const loaded = await loadedBy(args, code);
  const libraries = loaded.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  expect([...new Set(libraries)].filter((name) => !['commander', ...packages].includes(name))).toEqual([]);
  expect(libraries).toContain('commander');
  const own = loaded.filter((url) => url.startsWith('file:') && !url.includes('/node_modules/'));
  expect(own.length).toBeLessThan(most);
});

/** The modules that the program loads, as addresses. */
async function loadedBy(args: readonly string[], expectedCode: number): Promise<readonly string[]> {
  const list = join(folder.path, 'loaded.txt');
  await rm(list, { force: true });
  const env = { PATH: process.env['PATH'], LOADED_MODULES: list };
  const code = await new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--import', noteLoaded, program, ...args],
      { cwd: folder.path, env },
      () => resolve(child.exitCode),
    );
  });
  expect(code).toBe(expectedCode);
  return (await readFile(list, 'utf8')).trimEnd().split('\n');
}
