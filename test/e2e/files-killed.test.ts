import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterEach, expect, it } from 'vitest';
import * as z from 'zod';
import { openFileWorld, type FileWorld } from '../support/file-world.ts';
import type { Reply } from '../support/hostile/exchange.ts';
import { killedSync } from '../support/killed-sync.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hasMoreKills, repeats, startSeed } from '../support/trials.ts';

const kills = repeats('KILLS', { share: 50, full: 50 });
const seed = startSeed(17);
const files = 24;
const row = z.object({ file: z.string(), bytes: z.number(), sha256: z.string() });

let world: FileWorld | null = null;
afterEach(async () => {
  await world?.[Symbol.asyncDispose]();
  world = null;
});

/** Different in every byte position from file to file, and long enough to be killed in the middle. */
function bytesOf(id: string, version: number): Buffer {
  const block = createHash('sha512').update(`${id}/${version}`).digest();
  return Buffer.concat(Array.from({ length: 6_000 }, () => block));
}

/** With pauses, so that most kills find a file half written. */
function inParts(bytes: Buffer): Reply {
  return async ({ response }) => {
    response.writeHead(200, { 'content-type': 'image/jpeg', 'content-length': String(bytes.length) });
    for (let at = 0; at < bytes.length && !response.destroyed; at += bytes.length / 4) {
      response.write(bytes.subarray(at, at + bytes.length / 4));
      await setTimeout(10);
    }
    response.end();
  };
}

function configFor({ folder, server }: FileWorld): string {
  const config = join(folder, 'sync.yaml');
  writeFileSync(
    config,
    `api: { baseUrl: "${server.baseUrl}", clientId: me, clientSecret: "\${TEST_SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  library:
    definition: document-library
    id: c1
    sink: main
    rateLimit: { requestsPerSecond: 1000 }
    downloads: { directory: ./files }
`,
  );
  return config;
}

// Proves promise 15
it.runIf(hasMoreKills)(
  `shows no part of a file under its name after a kill, and the next run completes what is missing (seed ${seed})`,
  async () => {
    world = await openFileWorld();
    const { folder, files: held, asked } = world;
    const config = configFor(world);
    const random = seededRandom(seed);
    const place = join(folder, 'files', 'library', 'attachments');
    /** Every version that a file has had, by its hash. */
    const whole = new Set<string>();
    const phases = new Map<string, number>();
    for (let round = 0; round < kills; round += 1) {
      // Some change, so that every round has something to fetch and something to replace.
      for (let number = 0; number < files; number += 1) {
        if (round > 0 && random() < 0.5) continue;
        const id = `a${number}`;
        const bytes = bytesOf(id, round);
        whole.add(createHash('sha256').update(bytes).digest('hex'));
        const name = round % 2 === 0 ? 'photo.jpg' : 'renamed.jpg';
        held.set(id, { name, bytes, reply: () => inParts(bytes) });
      }
      const { code, phase } = await killedSync(
        config,
        'library',
        ['--full'],
        random() * 120,
        'files-started',
      );
      if (code === null) phases.set(phase, (phases.get(phase) ?? 0) + 1);
      for (const name of names(place)) {
        if (name.endsWith('.part')) continue;
        const hash = createHash('sha256')
          .update(readFileSync(join(place, name)))
          .digest('hex');
        expect({ name, isWhole: whole.has(hash) }).toEqual({ name, isWhole: true });
      }
    }
    console.log('killed in', Object.fromEntries(phases));
    expect(phases.size).toBeGreaterThan(0);

    expect((await killedSync(config, 'library', ['--full'], null)).code).toBe(0);
    const stored = Object.fromEntries(
      names(place).map((name) => [
        name,
        createHash('sha256')
          .update(readFileSync(join(place, name)))
          .digest('hex'),
      ]),
    );
    const expected = Array.from(held, ([id, { name, bytes }]) => [
      `${createHash('sha256')
        .update(JSON.stringify([id]))
        .digest('hex')
        .slice(0, 16)}-${name}`,
      createHash('sha256').update(bytes).digest('hex'),
    ]);
    expect(stored).toEqual(Object.fromEntries(expected));
    const db = new Database(join(folder, 'main.db'), { readonly: true });
    const known = z.array(row).parse(db.prepare('SELECT file, bytes, sha256 FROM _sync_downloads').all());
    db.close();
    expect(Object.fromEntries(known.map(({ file, sha256 }) => [file, sha256]))).toEqual(stored);
    const before = asked().length;
    expect((await killedSync(config, 'library', ['--full'], null)).code).toBe(0);
    expect(asked().length).toBe(before);
    rmSync(place, { recursive: true });
  },
  600_000,
);

function names(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // Killed before there was a folder.
  }
}
