import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { systemClock } from '../../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../../src/core/names.ts';
import { openFileFolder } from '../../../src/sinks/files/open-file-folder.ts';
import type { FileFolder } from '../../../src/sinks/files.ts';

const entity = 'attachments' as EntityName;
const keyText = '["a1"]';
let folder = '';
let mounted: string | null = null;
it.beforeEach(({ folder: made }) => {
  folder = made;
});
afterEach(() => {
  if (mounted !== null) execFileSync('umount', [mounted]);
  mounted = null;
});

const open = (directory = join(folder, 'files')): FileFolder =>
  openFileFolder({ directory, connector: 'library' as ConnectorName, clock: systemClock });
const place = (): string => join(folder, 'files', 'library', 'attachments');

// oxlint-disable-next-line typescript/require-await
async function* chunks(...texts: readonly (string | Error)[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) {
    if (text instanceof Error) throw text;
    yield Buffer.from(text);
  }
}

const fileOf = (bytes: AsyncIterable<Uint8Array>, name = 'notes.txt') => ({ entity, keyText, name, bytes });

describe('a folder of files', () => {
  it('stores a file whole, for its owner alone, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      const stored = await open().store(fileOf(chunks('one', ' and ', 'two')));
      expect(stored).toEqual({
        file: expect.stringMatching(/^[0-9a-f]{16}-notes\.txt$/),
        bytes: 11,
        sha256: createHash('sha256').update('one and two').digest('hex'),
      });
      expect(readFileSync(join(place(), stored.file), 'utf8')).toBe('one and two');
      expect(statSync(join(place(), stored.file)).mode & 0o777).toBe(0o600);
      for (const one of [join(folder, 'files'), join(folder, 'files', 'library'), place()]) {
        expect(statSync(one).mode & 0o777).toBe(0o700);
      }
    } finally {
      process.umask(before);
    }
  });

  // Proves promise 15
  it('keeps the old file until all new bytes are written, and leaves nothing of an interrupted write', async () => {
    const files = open();
    const { file } = await files.store(fileOf(chunks('old')));
    const cut = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' });
    let seen: readonly string[] = [];
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield* chunks('new, but');
      seen = readdirSync(place());
      throw cut;
    }
    await expect(files.store(fileOf(failing()))).rejects.toBe(cut);
    expect(seen).toHaveLength(2);
    expect(readdirSync(place())).toEqual([file]);
    expect(readFileSync(join(place(), file), 'utf8')).toBe('old');
    await files.store(fileOf(chunks('new')));
    expect(readFileSync(join(place(), file), 'utf8')).toBe('new');
  });

  it('asks for no chunk before the one before it is written', async () => {
    const sizes: number[] = [];
    async function* watched(): AsyncGenerator<Uint8Array> {
      for (let sent = 0; sent < 5; sent += 1) {
        sizes.push(...readdirSync(place()).map((name) => statSync(join(place(), name)).size));
        yield Buffer.alloc(1_000);
      }
    }
    await open().store(fileOf(watched()));
    expect(sizes).toEqual([0, 1_000, 2_000, 3_000, 4_000]);
  });

  // Proves promise 15.1
  it('follows a link to its directory, and none below it', async () => {
    mkdirSync(join(folder, 'disk'));
    symlinkSync(join(folder, 'disk'), join(folder, 'files'));
    await open().store(fileOf(chunks('x')));
    expect(readdirSync(join(folder, 'disk', 'library', 'attachments'))).toHaveLength(1);

    for (const linked of ['library', join('library', 'attachments')]) {
      rmSync(join(folder, 'disk', linked), { recursive: true });
      mkdirSync(join(folder, 'elsewhere'), { recursive: true });
      symlinkSync(join(folder, 'elsewhere'), join(folder, 'disk', linked));
      for (const work of [
        open().prepare(entity),
        open().store(fileOf(chunks('x'))),
        open().remove(entity, 'x', 'y'),
      ]) {
        await expect(work).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
      }
      expect(readdirSync(join(folder, 'elsewhere'))).toEqual([]);
      rmSync(join(folder, 'disk', linked));
      if (linked === 'library') {
        mkdirSync(join(folder, 'disk', 'library', 'attachments'), { recursive: true });
      }
    }
  });

  it('replaces a link that has the name of a file, and does not write through it', async () => {
    const files = open();
    const { file } = await files.store(fileOf(chunks('x')));
    writeFileSync(join(folder, 'precious'), 'precious');
    rmSync(join(place(), file));
    symlinkSync(join(folder, 'precious'), join(place(), file));
    await files.store(fileOf(chunks('new')));
    expect(readFileSync(join(folder, 'precious'), 'utf8')).toBe('precious');
    expect(lstatSync(join(place(), file)).isFile()).toBe(true);
  });

  it('removes leftovers of ended processes, and files untouched for an hour', async () => {
    mkdirSync(place(), { recursive: true });
    const name = (pid: number, letter: string): string =>
      `.${'a'.repeat(16)}.${pid}.${letter.repeat(8)}.part`;
    const other = process.ppid;
    const names = {
      dead: name(4_194_303, 'b'),
      own: name(process.pid, 'c'),
      alive: name(other, 'd'),
      abandoned: name(other, 'e'),
    };
    for (const one of [...Object.values(names), 'kept.part', '.hidden']) {
      writeFileSync(join(place(), one), 'x');
    }
    utimesSync(join(place(), names.abandoned), 1_000, 1_000);
    await open().prepare(entity);
    expect(readdirSync(place()).sort()).toEqual([names.alive, '.hidden', 'kept.part'].sort());
  });

  it('names the files of which several belong to one record', async () => {
    const files = open();
    const one = await files.store(fileOf(chunks('one'), 'one.txt'));
    expect(await files.prepare(entity)).toEqual([]);
    const other = await files.store(fileOf(chunks('two'), 'two.txt'));
    await files.store({ ...fileOf(chunks('three')), keyText: '["a2"]' });
    writeFileSync(join(place(), 'by-hand.txt'), 'x');
    expect((await files.prepare(entity)).toSorted()).toEqual([one.file, other.file].toSorted());
    await files.remove(entity, one.file, null);
    expect(await files.prepare(entity)).toEqual([]);
  });

  it('removes a file, and accepts one that does not exist', async () => {
    const files = open();
    const { file } = await files.store(fileOf(chunks('x')));
    await files.remove(entity, file, 'other');
    await files.remove(entity, file, 'other');
    expect(existsSync(join(place(), file))).toBe(false);
  });

  it('leaves the file that has taken the place of the one to be removed, where names differ by their case alone', async () => {
    const files = open();
    const { file: current } = await files.store(fileOf(chunks('new'), 'photo.jpg'));
    const before = current.replace('photo', 'PHOTO');
    // What such a file system shows under the other name.
    linkSync(join(place(), current), join(place(), before));
    await files.remove(entity, before, current);
    expect(readFileSync(join(place(), current), 'utf8')).toBe('new');
    expect(existsSync(join(place(), before))).toBe(true);

    rmSync(join(place(), before));
    writeFileSync(join(place(), before), 'another file');
    await files.remove(entity, before, current);
    expect(readdirSync(place())).toEqual([current]);
  });

  it('says that a file stands where its folder should', async () => {
    writeFileSync(join(folder, 'files'), 'x');
    await expect(open().prepare(entity)).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
  });

  // Proves promise 15
  it('ends with SINK_FULL on a full disk, and leaves room for what is smaller', async ({ skip }) => {
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk], { stdio: 'ignore' });
      mounted = disk;
    } catch {
      // Mounting needs root and a kernel that allows it.
      skip('a tmpfs cannot be mounted here');
    }
    const files = open(join(disk, 'files'));
    const much = Array.from({ length: 40 }, () => 'x'.repeat(65_536));
    await expect(files.store(fileOf(chunks(...much)))).rejects.toMatchObject({
      code: 'SINK_FULL',
      recovery: 'retry',
    });
    expect(readdirSync(join(disk, 'files', 'library', 'attachments'))).toEqual([]);
    await files.store(fileOf(chunks('little')));
  });
});
