import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { openFileWorld } from '../support/file-world.ts';
import type { Reply } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { startSampleService } from '../support/sample-service.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong } from '../support/trials.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const reporter = new URL('../support/report-peak-memory.mjs', import.meta.url).href;
/** What waits to be collected would hide what is held. */
const smallHeap = ['--max-semi-space-size=1', '--max-old-space-size=48'];

/** Peak memory in MiB of a sync by the program. `lines`: its config, which has `${SECRET}`. */
async function peakOf(
  file: string,
  lines: readonly string[],
  flags: readonly string[] = [],
): Promise<number> {
  writeFileSync(file, lines.join('\n'));
  const child = spawn(process.execPath, [...flags, '--import', reporter, program, 'sync', '--config', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, SECRET: testCredentials.clientSecret },
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  expect({ file, code, stderr: code === 0 ? '' : stderr }).toEqual({ file, code: 0, stderr: '' });
  return Number(/peak (\d+)/.exec(stderr)?.[1]) / 1024;
}

async function peakOfMembers(folder: string, members: number): Promise<number> {
  await using service = await startSampleService({ members });
  const lines = [
    `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${SECRET}" }`,
    `sinks: { test: { type: sqlite, path: ${members}.db, durability: normal } }`,
    `connectors: { mailing: { definition: email-marketing, id: mailing, sink: test, include: [lists, list_members], rateLimit: { requestsPerSecond: 1000 } } }`,
  ];
  return await peakOf(join(folder, `${members}.yaml`), lines, smallHeap);
}

// Proves promise 9
it('holds no more memory for six times the records', async ({ folder }) => {
  const [few, many] = isLong ? ([10_000, 60_000] as const) : ([4_000, 24_000] as const);
  const [ofFew, ofMany] = [await peakOfMembers(folder, few), await peakOfMembers(folder, many)];
  console.log(
    `peak memory: ${Math.round(ofFew)} MiB for ${few} members, ${Math.round(ofMany)} MiB for ${many}`,
  );
  // The database's own cache, 32 MiB, may fill up on the way. Records that are held would add two kilobytes each: 40
  // MiB in all, for which the heap has no room, so the program would end with another code.
  expect(ofMany - ofFew).toBeLessThan(40);
}, 120_000);

const mebibyte = Buffer.alloc(1024 * 1024, 'connector-sync');

/** So many mebibytes, as fast as they are read. */
const large =
  (count: number): Reply =>
  async ({ response }) => {
    response.writeHead(200, {
      'content-type': 'text/plain',
      'content-length': String(count * mebibyte.length),
    });
    for (let sent = 0; sent < count; sent += 1) {
      if (!response.write(mebibyte)) await once(response, 'drain');
    }
    response.end();
  };

// Proves promise 15
it('holds no more memory for a file of any length than for a small one', async () => {
  await using world = await openFileWorld();
  const peakOfFile = async (count: number): Promise<number> => {
    const size = count * mebibyte.length;
    const record = { size, checksum: String(count) };
    world.files.set('a1', { name: 'film.mp4', bytes: Buffer.from(''), record, reply: () => large(count) });
    const peak = await peakOf(join(world.folder, `${count}.yaml`), [
      `api: { baseUrl: "${world.server.baseUrl}", clientId: me, clientSecret: "\${SECRET}" }`,
      `sinks: { main: { type: sqlite, path: ${count}.db, durability: normal } }`,
      `connectors: { library: { definition: document-library, id: c1, sink: main, downloads: { directory: ./${count}, maxBytes: 10GB } } }`,
    ]);
    const place = join(world.folder, String(count), 'library', 'attachments');
    const [name = ''] = readdirSync(place);
    expect(statSync(join(place, name)).size).toBe(size);
    return peak;
  };
  // A larger one on demand: FILE_MIB=1024.
  const largeMiB = Number(process.env['FILE_MIB'] ?? 128);
  const [little, much] = [await peakOfFile(4), await peakOfFile(largeMiB)];
  console.log(
    `peak memory: ${Math.round(little)} MiB for 4 MiB, ${Math.round(much)} MiB for ${largeMiB} MiB`,
  );
  expect(much - little).toBeLessThan(60);
}, 120_000);
