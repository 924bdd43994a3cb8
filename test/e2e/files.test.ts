import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { openHistory } from '../../src/sinks/registry.ts';
import {
  file,
  fileReply,
  openFileWorld,
  type FileWorld,
  type FileWorldOptions,
} from '../support/file-world.ts';
import { resetBeforeHeaders, type Reply, apiError, text, throttled } from '../support/hostile/replies.ts';
import { killedSync } from '../support/killed-sync.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { hasMoreKills, repeats, startSeed, triedSinks } from '../support/trials.ts';
import { mountDisk } from '../support/small-disk.ts';

describe('files of records', () => {
  let world: FileWorld | null = null;
  afterEach(async () => {
    await world?.[Symbol.asyncDispose]();
    world = null;
  });

  const open = async (options: FileWorldOptions = {}): Promise<FileWorld> => {
    world = await openFileWorld(options);
    return world;
  };

  const nameOf = (id: string, name = 'notes.txt'): string =>
    `${createHash('sha256')
      .update(JSON.stringify([id]))
      .digest('hex')
      .slice(0, 16)}-${name}`;

  describe.each(triedSinks)('the files of records in a %s sink', (sink) => {
    // Proves promise 15
    it('are stored whole under names of their own, and never asked for again', async () => {
      const { files, sync, stored, asked, directory } = await open({ sink });
      files.set('a1', file('one')).set('a2', file('two'));
      const report = await sync();
      expect(report).toMatchObject({
        outcome: 'ok',
        files: [{ entity: 'attachments', stored: 2, bytes: 6, failed: 0, left: 0 }],
      });
      expect(stored()).toEqual({ [nameOf('a1')]: 'one', [nameOf('a2')]: 'two' });
      const place = join(directory, 'library', 'attachments');
      expect(statSync(place).mode & 0o777).toBe(0o700);
      expect(statSync(join(place, nameOf('a1'))).mode & 0o777).toBe(0o600);

      expect(await sync()).toMatchObject({ outcome: 'ok', files: [] });
      expect(asked()).toEqual(['a1', 'a2']);
    });

    // Proves promise 15
    it('follow their records: a changed one is fetched again, one under a new name replaces the old, a deleted one stays', async () => {
      const { files, sync, stored, asked } = await open({ sink });
      files.set('a1', file('one')).set('a2', file('two')).set('a3', file('three'));
      await sync();
      files.set('a1', file('one, new')).set('a2', file('two, new', { name: 'renamed.txt' }));
      files.delete('a3');
      expect(await sync({ run: { isFull: true, allowDeletes: true } })).toMatchObject({
        outcome: 'ok',
        files: [{ stored: 2 }],
      });
      expect(stored()).toEqual({
        [nameOf('a1')]: 'one, new',
        [nameOf('a2', 'renamed.txt')]: 'two, new',
        [nameOf('a3')]: 'three',
      });
      expect(asked().slice(3).sort()).toEqual(['a1', 'a2']);
    });

    // Proves promise 15
    it('that do not come are set aside, make the run degraded, and are asked for by the next one', async () => {
      const { files, sync, stored, sink: place } = await open({ sink });
      let isBack = false;
      files.set('good', file('good'));
      files.set(
        'gone',
        file('gone', { reply: () => (isBack ? fileReply(Buffer.from('gone'), 'x') : apiError(404, 'none')) }),
      );
      files.set(
        'empty',
        file('empty', {
          reply: () => (isBack ? fileReply(Buffer.from('empty'), 'x') : fileReply(Buffer.from(''), 'x')),
        }),
      );
      const report = await sync();
      expect(report).toMatchObject({
        outcome: 'degraded',
        error: null,
        files: [{ entity: 'attachments', stored: 1, bytes: 4, failed: 2, left: 2 }],
      });
      const failures = report.failures.map(({ entity, params, code }) => ({ entity, params, code }));
      expect(failures).toHaveLength(2);
      expect(failures).toEqual(
        expect.arrayContaining([
          { entity: 'attachments', params: { attachment_id: 'empty' }, code: 'FILE_INVALID' },
          { entity: 'attachments', params: { attachment_id: 'gone' }, code: 'NOT_FOUND' },
        ]),
      );
      // What is known of the records is not touched by that.
      expect(report.entities.find(({ entity }) => entity === 'attachments')).toMatchObject({
        isWhole: true,
        setAside: 0,
      });
      expect(Object.keys(stored())).toEqual([nameOf('good')]);
      await using history = await openHistory(place);
      const [connector] = await history.connectors();
      expect(connector?.entities.find(({ entity }) => entity === 'attachments')?.files).toEqual({
        stored: 1,
        bytes: 4,
        wanted: 2,
        failed: 2,
      });
      expect(await history.fileFailures(connector?.connector ?? ('' as never), 5)).toHaveLength(2);

      isBack = true;
      expect(await sync()).toMatchObject({ outcome: 'ok', files: [{ stored: 2, failed: 0, left: 0 }] });
      expect(Object.keys(stored())).toHaveLength(3);
    });
  });

  describe('fetching files', () => {
    // Proves promise 15
    it('resumes where a budget of calls has ended a run', async () => {
      const { files, sync, asked } = await open();
      for (let number = 1; number <= 6; number += 1) files.set(`a${number}`, file(`file ${number}`));
      const first = await sync({ concurrency: 1, run: { isFull: true, maxCalls: 5 } });
      expect(first).toMatchObject({
        outcome: 'partial',
        calls: 5,
        files: [{ stored: 2, failed: 0, left: 4 }],
      });
      expect(await sync({ concurrency: 1 })).toMatchObject({
        outcome: 'ok',
        files: [{ stored: 4, left: 0 }],
      });
      expect(asked()).toHaveLength(6);
    });

    it('ends at a long pause of the service, and resumes after it', async () => {
      const { files, sync } = await open();
      let isBusy = true;
      files.set(
        'a1',
        file('one', {
          reply: () => (isBusy ? throttled({ seconds: 3_600 }) : fileReply(Buffer.from('one'), 'x')),
        }),
      );
      expect(await sync()).toMatchObject({
        outcome: 'partial',
        error: null,
        files: [{ failed: 0, left: 1 }],
      });
      isBusy = false;
      expect(await sync()).toMatchObject({ outcome: 'ok', files: [{ stored: 1 }] });
    });

    it('stops when the API does not answer, and says what remains', async () => {
      const { files, sync, asked } = await open();
      for (let number = 10; number < 40; number += 1) {
        files.set(`a${number}`, file('x', { reply: () => resetBeforeHeaders }));
      }
      const report = await sync({ concurrency: 1, limits: { retries: 1 } });
      expect(report).toMatchObject({ outcome: 'degraded', files: [{ stored: 0, failed: 5, left: 30 }] });
      expect(new Set(asked()).size).toBe(5);
    });

    it('skips a file that is larger than allowed, by its record or by its bytes', async () => {
      const { files, sync, stored, asked } = await open();
      files.set('small', file('small'));
      files.set('said', file('a'.repeat(100)));
      files.set('sent', file('a'.repeat(100), { record: { size: null } }));
      const report = await sync({ files: { directory: world?.directory ?? '', maxBytes: 50 } });
      expect(report).toMatchObject({ outcome: 'degraded', files: [{ stored: 1, failed: 2, left: 2 }] });
      expect(report.failures.map(({ code }) => code)).toEqual(['BODY_TOO_LARGE', 'BODY_TOO_LARGE']);
      expect([...asked()].sort()).toEqual(['sent', 'small']);
      expect(Object.keys(stored())).toEqual([nameOf('small')]);
    });

    it('writes nothing through a link that stands where its folder should', async () => {
      const { files, sync, folder, directory } = await open();
      files.set('a1', file('one'));
      mkdirSync(join(directory, 'library'), { recursive: true });
      mkdirSync(join(folder, 'elsewhere'));
      symlinkSync(join(folder, 'elsewhere'), join(directory, 'library', 'attachments'));
      const report = await sync();
      expect(report).toMatchObject({ outcome: 'failed', error: { code: 'SINK_INCOMPATIBLE' } });
      expect(report.entities.find(({ entity }) => entity === 'attachments')?.counts.inserted).toBe(1);
      expect(() => statSync(join(folder, 'elsewhere', nameOf('a1')))).toThrow('ENOENT');
    });

    it('ends the run on a full disk, and resumes when there is space', async ({ skip }) => {
      const { files, sync, stored, directory } = await open();
      using disk = mountDisk(directory, '1m', skip);
      for (const id of ['a1', 'a2', 'a3', 'a4']) files.set(id, file('x'.repeat(400_000)));
      const full = await sync({ concurrency: 1 });
      expect(full).toMatchObject({
        outcome: 'failed',
        error: { code: 'SINK_FULL', recovery: 'retry' },
        files: [{ stored: 2, failed: 0, left: 2 }],
      });
      disk.remount('size=8m');
      expect(await sync()).toMatchObject({ outcome: 'ok', files: [{ stored: 2 }] });
      expect(Object.values(stored()).map(({ length }) => length)).toEqual(Array(4).fill(400_000));
    });

    it('fetches files of records that were stored before downloads were configured', async () => {
      const { files, sync, stored } = await open();
      files.set('a1', file('one'));
      expect(await sync({ files: null })).toMatchObject({ outcome: 'ok', files: [] });
      expect(await sync({ run: {} })).toMatchObject({ outcome: 'ok', files: [{ stored: 1 }] });
      expect(Object.values(stored())).toEqual(['one']);
    });

    it('rejects a file with fewer or more bytes than its record says', async () => {
      const { files, sync } = await open();
      files.set('cut', file('all of it', { reply: () => text(200, 'all', { connection: 'close' }) }));
      files.set('long', file('short', { reply: () => text(200, 'longer than said') }));
      expect(await sync()).toMatchObject({ outcome: 'degraded', files: [{ stored: 0, failed: 2 }] });
    });

    it('removes what a killed process left in its folder, and nothing else', async () => {
      const { files, sync, stored, directory } = await open();
      const place = join(directory, 'library', 'attachments');
      mkdirSync(place, { recursive: true });
      const dead = `.${'a'.repeat(16)}.4194303.${'b'.repeat(8)}.part`;
      const alive = `.${'a'.repeat(16)}.1.${'b'.repeat(8)}.part`;
      for (const name of [dead, alive, '.hidden', 'mine.txt']) writeFileSync(join(place, name), name);
      files.set('a1', file('one'));
      await sync();
      expect(Object.keys(stored()).sort()).toEqual([nameOf('a1'), alive, '.hidden', 'mine.txt'].sort());
    });

    // Proves promise 15
    it('removes a whole file that a killed run stored under a name which its record no longer has', async () => {
      const { files, sync, stored, directory } = await open();
      files.set('a1', file('one')).set('a2', file('two'));
      await sync();
      const place = join(directory, 'library', 'attachments');
      // Named like a file of a1, and noted nowhere: the run was killed in between.
      writeFileSync(join(place, nameOf('a1', 'renamed.txt')), 'newer');
      await sync();
      expect(stored()).toEqual({ [nameOf('a1')]: 'one', [nameOf('a2')]: 'two' });
    });
  });
});

describe('kills', () => {
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
        await pause(10);
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
});
