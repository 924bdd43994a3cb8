import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import {
  accessSink,
  openServed,
  openExistingHistory,
  openExistingRecords,
} from '../../../src/sinks/registry.ts';
import { member, news, start } from '../sink/fixture.ts';
import { useBench } from '../sink/use-bench.ts';
import type { FileSinkKind } from './file-sink-kind.ts';

const incompatible = { code: 'SINK_INCOMPATIBLE', recovery: 'stop' };

/** What file sinks promise of their files when they are opened. */
export function openingFiles(kind: FileSinkKind): void {
  const bench = useBench(kind);
  let umask = 0;
  beforeEach(() => {
    umask = process.umask(0);
  });
  afterEach(() => {
    process.umask(umask);
  });

  it('makes files that only their owner can read, whatever the umask', async () => {
    chmodSync(bench().folder, 0o700);
    const { commit } = await bench().walking();
    await commit([member('1')]);
    const names = readdirSync(bench().folder, { recursive: true, encoding: 'utf8' });
    const modes = names.map((name) => {
      const stats = statSync(join(bench().folder, name));
      return [name, stats.isDirectory() ? 'folder' : 'file', (stats.mode & 0o777).toString(8)];
    });
    expect(modes.length).toBeGreaterThan(2);
    expect(modes.filter(([, type, mode]) => mode !== (type === 'folder' ? '700' : '600'))).toEqual([]);
  });

  it('uses the pragmas that its promises rest on', async () => {
    await bench().open();
    const ledger = new Database(kind.ledgerFile(bench().folder), { readonly: true });
    const pragma = (name: string): unknown => ledger.pragma(name, { simple: true });
    expect([pragma('journal_mode'), pragma('page_size'), pragma('user_version')]).toEqual(['wal', 16_384, 1]);
    ledger.close();
  });

  it('refuses a database of another program and leaves it as it was', async () => {
    const file = kind.ledgerFile(bench().folder);
    const foreign = new Database(file);
    foreign.exec('CREATE TABLE accounts (id INTEGER)');
    foreign.close();
    const before = readFileSync(file);
    await expect(bench().open()).rejects.toMatchObject({
      ...incompatible,
      message: expect.stringContaining('another program') as string,
    });
    expect(readFileSync(file)).toEqual(before);
  });

  // Proves promise 1.7
  it.each([0, 2, 11])(
    'refuses tables of version %i, says what to do, and changes nothing',
    async (version) => {
      await (await bench().open())[Symbol.asyncDispose]();
      const file = kind.ledgerFile(bench().folder);
      const other = new Database(file);
      other.pragma(`user_version = ${version}`);
      other.pragma('wal_checkpoint(TRUNCATE)');
      other.close();
      const before = readFileSync(file);
      const refused = {
        ...incompatible,
        message: expect.stringContaining(
          `${file} cannot be used as a sink: expected tables of version 1, found version ${version}, which another connector-sync wrote. ` +
            'Nothing in it was changed. Use the connector-sync that wrote it. Or keep it, and sync into a new sink at another place',
        ) as string,
      };
      await expect(bench().open()).rejects.toMatchObject(refused);
      const access = accessSink(kind.options(bench().folder));
      await expect(access.openHistory()).rejects.toMatchObject(refused);
      await expect(access.openRecords()).rejects.toMatchObject(refused);
      expect(readFileSync(file).equals(before)).toBe(true);
    },
  );

  it('refuses a file that is no database, and a link', async () => {
    const file = kind.ledgerFile(bench().folder);
    writeFileSync(file, 'x'.repeat(4_096));
    await expect(bench().open()).rejects.toMatchObject(incompatible);
    const elsewhere = join(bench().folder, 'elsewhere');
    mkdirSync(elsewhere);
    const linked = kind.ledgerFile(elsewhere);
    symlinkSync(file, linked);
    await expect(kind.open(elsewhere, { clock: bench().clock })).rejects.toMatchObject(incompatible);
  });

  it('refuses the ledger of a sink of another type', async () => {
    await (await bench().open())[Symbol.asyncDispose]();
    const file = kind.ledgerFile(bench().folder);
    const other = new Database(file);
    other.exec("UPDATE _sync_meta SET kind = 'other'");
    other.close();
    await expect(bench().open()).rejects.toMatchObject({
      ...incompatible,
      message: expect.stringContaining('type other') as string,
    });
  });

  it('is not there yet while another process makes its file', async () => {
    const { folder } = bench();
    const db = new Database(kind.ledgerFile(folder));
    db.pragma('journal_mode = WAL');
    db.close();
    expect(await openExistingHistory(kind.options(folder))).toBeNull();
    expect(await openExistingRecords(kind.options(folder))).toBeNull();
  });

  it('knows when its file was moved away, serves what it read last meanwhile, and takes the file back', async () => {
    const sink = await bench().open();
    await sink.pause([news], { since: instant(start), reason: 'why' });
    await using served = await openServed(kind.options(bench().folder), {
      durability: 'normal',
      clock: bench().clock,
    });
    const file = kind.ledgerFile(bench().folder);
    renameSync(file, `${file}.away`);
    expect(await sink.isInPlace()).toBe(false);
    expect(await served.lost()).toMatch(/^nothing is at /);
    expect(await served.pause(news)).toMatchObject({ reason: 'why' });
    expect(await served.problem()).toBeNull();
    renameSync(`${file}.away`, file);
    expect([await sink.isInPlace(), await served.lost()]).toEqual([true, null]);
  });
}
