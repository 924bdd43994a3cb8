import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { main } from '../support/run-cli.ts';

describe('start-up', () => {
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
    { args: ['worker', '-c', 'bad.yaml'], code: 2, packages: ['pino'], files: 18, kib: 770 },
    {
      args: ['status', '-c', 'good.yaml'],
      code: 0,
      packages: [...forSinks, 'p-queue'],
      files: 70,
      kib: 1080,
    },
    {
      args: ['reset', 'newsletter', '-c', 'good.yaml'],
      code: 2,
      packages: [...forSinks, 'p-queue'],
      files: 60,
      kib: 1120,
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
});

describe('the demo', () => {
  const noteLoaded = new URL('../support/note-loaded-modules.mjs', import.meta.url).href;
  const starting = 'Starting a local API with sample data ...';

  let folder: string;
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  // Proves promise 19.1
  it('demo says what it does before it loads what the local API needs', async () => {
    const list = join(folder, 'loaded.txt');
    const child = spawn(process.execPath, ['--import', noteLoaded, main, 'demo'], {
      cwd: folder,
      env: { PATH: process.env['PATH'], LOADED_MODULES: list },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'close');
    await once(child.stderr, 'data');
    child.kill('SIGKILL');
    await ended;
    const lines = readFileSync(list, 'utf8').split('\n');
    const first = lines.findIndex((line) => line.startsWith('wrote '));
    expect(lines[first]).toBe(`wrote ${JSON.stringify(`${starting}\n`)}`);
    const before = lines.slice(0, first);
    expect(before.filter((url) => url.endsWith('/dist/main.js'))).toHaveLength(1);
    expect(before.filter((url) => /\/(fastify|undici|bullmq|ioredis|pino)\/|\/start-/.test(url))).toEqual([]);
  });

  // Proves promise 19.1
  it('npm run demo says that it builds, then what the demo does', async () => {
    for (const name of ['src', 'config', 'package.json']) {
      cpSync(name, join(folder, name), { recursive: true });
    }
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    const child = spawn('npm', ['run', '--silent', 'demo'], {
      cwd: folder,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'close');
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stderr })) {
      // Of npm's own, about the settings of the machine.
      if (!line.startsWith('npm ')) lines.push(line);
      if (lines.length === 2) break;
    }
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    await ended;
    expect(lines).toEqual(['Building the program ...', starting]);
  });
});
