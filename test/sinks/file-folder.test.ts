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
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import type { FileFolder } from '../../src/sinks/files.ts';
import { openFileFolder } from '../../src/sinks/files/open-file-folder.ts';
import { safeBase, safeFileName } from '../../src/sinks/files/safe-file-name.ts';
import { it } from '../support/it.ts';
import { mountDisk } from '../support/small-disk.ts';

describe('open file folder', () => {
  const entity = 'attachments' as EntityName;
  const keyText = '["a1"]';
  let folder = '';
  it.beforeEach(({ folder: made }) => {
    folder = made;
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
      using _disk = mountDisk(disk, '1m', skip);
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
});

describe('the name of a stored file', () => {
  // Proves promise 15.1
  it('begins with 16 hex digits of its key, so that two records never share one', () => {
    expect(safeFileName('["a1"]', 'notes.txt')).toMatch(/^[0-9a-f]{16}-notes\.txt$/);
    expect(safeFileName('["a1"]', 'notes.txt')).toBe(safeFileName('["a1"]', 'notes.txt'));
    expect(safeFileName('["a1"]', 'notes.txt')).not.toBe(safeFileName('["a2"]', 'notes.txt'));
    expect(safeFileName('["a1"]', null)).toMatch(/^[0-9a-f]{16}-file$/);
  });

  it.each([
    ['Größe & 100 %.txt', 'Größe & 100 %.txt'],
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\windows\\system.ini', 'system.ini'],
    ['/', 'file'],
    ['..', 'file'],
    ['', 'file'],
    ['folder/', 'folder'],
    ['.bashrc', 'bashrc'],
    ['...hidden', 'hidden'],
    ['ends.with.dots...', 'ends.with.dots'],
    ['  spaces  ', 'spaces'],
    ['con', '_con'],
    ['CON.txt', '_CON.txt'],
    ['com1.log', '_com1.log'],
    ['lpt\u00b9', '_lpt\u00b9'],
    ['console.txt', 'console.txt'],
    ['a\u0000b\nc\u001b[2Jd.txt', 'abc[2Jd.txt'],
    ['invoice\u202egpj.exe', 'invoicegpj.exe'],
    ['zero\u200bwidth\ufeff.txt', 'zerowidth.txt'],
    ['line\u2028end', 'lineend'],
    ['e\u0301te\u0301', '\u00e9t\u00e9'],
    ['lone \ud800 surrogate', 'lone \ufffd surrogate'],
    ['a<b>c:d"e|f?g*h', 'a_b_c_d_e_f_g_h'],
    ['stream.txt:hidden', 'stream.txt_hidden'],
    ['__proto__', '__proto__'],
    ['-rf', '-rf'],
  ])('makes of %j the harmless %j', (name, base) => {
    expect(safeBase(name)).toBe(base);
  });

  it('is at most 150 bytes behind the digits, cut between characters, with its extension', () => {
    for (const name of [`${'a'.repeat(400)}.pdf`, `${'ß'.repeat(400)}.pdf`, `${'😀'.repeat(400)}.pdf`]) {
      const base = safeBase(name);
      expect(Buffer.byteLength(base)).toBeLessThanOrEqual(150);
      expect(Buffer.byteLength(base)).toBeGreaterThan(140);
      expect(base.endsWith('.pdf')).toBe(true);
      expect(base.isWellFormed()).toBe(true);
    }
    expect(safeBase(`a.${'b'.repeat(400)}`)).toBe(`a.${'b'.repeat(148)}`);
    expect(safeBase('.'.repeat(100_000))).toBe('file');
  });
});
