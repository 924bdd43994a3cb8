import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openFileWorld, type FileWorld } from '../support/file-world.ts';
import type { Reply } from '../support/hostile/exchange.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const reporter = new URL('../support/report-peak-memory.mjs', import.meta.url).href;
/** A larger one on demand: FILE_MIB=1024. */
const largeMiB = Number(process.env['FILE_MIB'] ?? 128);

let world: FileWorld;
beforeEach(async () => {
  world = await openFileWorld();
});
afterEach(() => world[Symbol.asyncDispose]());

const mebibyte = Buffer.alloc(1024 * 1024, 'connector-sync');

/** So many mebibytes, as fast as they are read. */
function large(count: number): Reply {
  return async ({ response }) => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-length': String(count * 1024 * 1024) });
    for (let sent = 0; sent < count; sent += 1) {
      if (!response.write(mebibyte)) await once(response, 'drain');
    }
    response.end();
  };
}

/** Peak memory in MiB of the program while it fetches a file of so many. */
async function peakOf(count: number): Promise<number> {
  const config = join(world.folder, `${count}.yaml`);
  writeFileSync(
    config,
    [
      `api: { baseUrl: "${world.server.baseUrl}", clientId: me, clientSecret: "\${TEST_SECRET}" }`,
      `sinks: { main: { type: sqlite, path: ${count}.db, durability: normal } }`,
      `connectors: { library: { definition: document-library, id: c1, sink: main, downloads: { directory: ./${count}, maxBytes: 10GB } } }`,
    ].join('\n'),
  );
  const size = count * 1024 * 1024;
  const record = { size, checksum: String(count) };
  world.files.set('a1', { name: 'film.mp4', bytes: Buffer.from(''), record, reply: () => large(count) });
  const child = spawn(process.execPath, ['--import', reporter, program, 'sync', '--config', config], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, TEST_SECRET: 'hush-hush' },
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  expect({ count, code, stderr: code === 0 ? '' : stderr }).toEqual({ count, code: 0, stderr: '' });
  const place = join(world.folder, String(count), 'library', 'attachments');
  const [name = ''] = readdirSync(place);
  expect(statSync(join(place, name)).size).toBe(size);
  if (count < 16) {
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(join(place, name))) hash.update(chunk as Buffer);
    const expected = createHash('sha256');
    for (let part = 0; part < count; part += 1) expected.update(mebibyte);
    expect(hash.digest('hex')).toBe(expected.digest('hex'));
  }
  rmSync(place, { recursive: true });
  return Number(/peak (\d+)/.exec(stderr)?.[1]) / 1024;
}

// Proves promise 15
it('holds no more memory for a file of any length than for a small one', async () => {
  const little = await peakOf(4);
  const much = await peakOf(largeMiB);
  console.log(
    `peak memory: ${Math.round(little)} MiB for 4 MiB, ${Math.round(much)} MiB for ${largeMiB} MiB`,
  );
  expect(much - little).toBeLessThan(60);
}, 120_000);
