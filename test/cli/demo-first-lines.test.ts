import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { main } from '../support/run-cli.ts';

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
