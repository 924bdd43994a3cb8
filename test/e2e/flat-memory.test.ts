import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { startSampleService } from '../support/sample-service.ts';
import { testCredentials } from '../support/sync-once.ts';
import { isLong } from '../support/trials.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const reporter = new URL('../support/report-peak-memory.mjs', import.meta.url).href;
/** What waits to be collected would hide what is held. */
const smallHeap = ['--max-semi-space-size=1', '--max-old-space-size=48'];
const [few, many] = isLong ? ([10_000, 60_000] as const) : ([4_000, 24_000] as const);
let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

/** Peak memory in MiB of the program while it reads one list of so many members. */
async function peakOf(members: number): Promise<number> {
  await using service = await startSampleService({ members });
  const config = path.join(folder, `${members}.yaml`);
  writeFileSync(
    config,
    [
      `api: { baseUrl: "${service.url}", clientId: ${testCredentials.clientId}, clientSecret: "\${TEST_SECRET}" }`,
      `sinks: { test: { type: sqlite, path: ${members}.db, durability: normal } }`,
      `connectors: { mailing: { definition: email-marketing, id: mailing, sink: test, include: [lists, list_members], rateLimit: { requestsPerSecond: 1000 } } }`,
    ].join('\n'),
  );
  const child = spawn(
    process.execPath,
    [...smallHeap, '--import', reporter, program, 'sync', '--config', config],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, TEST_SECRET: testCredentials.clientSecret },
    },
  );
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  expect({ members, code, stderr: code === 0 ? '' : stderr }).toEqual({ members, code: 0, stderr: '' });
  return Number(/peak (\d+)/.exec(stderr)?.[1]) / 1024;
}

// Proves promise 9
it('holds no more memory for six times the records', async () => {
  const [ofFew, ofMany] = [await peakOf(few), await peakOf(many)];
  console.log(
    `peak memory: ${Math.round(ofFew)} MiB for ${few} members, ${Math.round(ofMany)} MiB for ${many}`,
  );
  // The database's own cache, 32 MiB, may fill up on the way. Records that are held would add two kilobytes each: 40
  // MiB in all, for which the heap has no room, so the program would end with another code.
  expect(ofMany - ofFew).toBeLessThan(40);
}, 120_000);
