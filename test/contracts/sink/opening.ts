import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { schemaVersion } from '../../../src/sinks/ledger/schema.ts';
import { openHistory } from '../../../src/sinks/registry.ts';
import { openSink } from '../../../src/sinks/registry.ts';
import { identity, member, news, onlyPartition, page, type SinkKind } from './fixture.ts';
import { useBench } from './use-bench.ts';

const incompatible = { code: 'SINK_INCOMPATIBLE', recovery: 'stop' };

export function opening(kind: SinkKind): void {
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
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    const names = readdirSync(bench().folder, { recursive: true, encoding: 'utf8' });
    const modes = names.map((name) => {
      const stats = statSync(join(bench().folder, name));
      return [name, stats.isDirectory() ? 'folder' : 'file', (stats.mode & 0o777).toString(8)];
    });
    expect(modes.length).toBeGreaterThan(2);
    expect(modes.filter(([, type, mode]) => mode !== (type === 'folder' ? '700' : '600'))).toEqual([]);
  });

  it('keeps its id and its records when it is opened again, also by two at once', async () => {
    const [first, second] = await Promise.all([bench().open(), bench().open()]);
    expect(first.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(second.id).toBe(first.id);
    await first[Symbol.asyncDispose]();
    expect((await bench().open()).id).toBe(first.id);
  });

  it('uses the pragmas that its promises rest on', async () => {
    await bench().open();
    const ledger = new Database(kind.ledgerFile(bench().folder), { readonly: true });
    const pragma = (name: string): unknown => ledger.pragma(name, { simple: true });
    expect([pragma('journal_mode'), pragma('page_size'), pragma('user_version')]).toEqual([
      'wal',
      16_384,
      schemaVersion,
    ]);
    ledger.close();
  });

  it('refuses a database of another program and leaves it as it was', async () => {
    const file = kind.ledgerFile(bench().folder);
    const foreign = new Database(file);
    foreign.exec('CREATE TABLE accounts (id INTEGER)');
    foreign.close();
    const before = readFileSync(file);
    await expect(bench().open()).rejects.toMatchObject(incompatible);
    expect(readFileSync(file)).toEqual(before);
  });

  it('refuses a database written by a newer version', async () => {
    await (await bench().open())[Symbol.asyncDispose]();
    const file = kind.ledgerFile(bench().folder);
    const newer = new Database(file);
    newer.pragma('user_version = 99');
    newer.close();
    await expect(bench().open()).rejects.toMatchObject({
      ...incompatible,
      message: expect.stringContaining('99') as string,
    });
  });

  it('refuses a file that is no database, and a link', async () => {
    const file = kind.ledgerFile(bench().folder);
    writeFileSync(file, 'x'.repeat(4_096));
    await expect(bench().open()).rejects.toMatchObject(incompatible);
    const elsewhere = join(bench().folder, 'elsewhere');
    mkdirSync(elsewhere);
    const linked = kind.ledgerFile(elsewhere);
    symlinkSync(file, linked);
    await expect(openSink(kind.options(elsewhere), { clock: bench().clock })).rejects.toMatchObject(
      incompatible,
    );
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

  it('gives its history without a lease, while another holds the connector, and cannot write', async () => {
    const sink = await bench().open();
    const { run } = await bench().begin(sink, 'r1');
    await using history = await openHistory(kind.options(bench().folder));
    expect(await history.runs({ limit: 5 })).toEqual(await sink.history.runs({ connector: news, limit: 5 }));
    expect(await history.run(run)).toMatchObject({ run: 'r1', connector: 'news', state: 'running' });
    expect(await history.connectors()).toMatchObject([
      {
        connector: 'news',
        definition: 'email-marketing',
        connectorId: 'c-1',
        baseUrl: 'https://api.example.test',
        lastHolder: identity().holder,
      },
    ]);
    expect((await history.connectors())[0]?.lastRun).toMatchObject({ run: 'r1' });
  });

  it('says so when there is no sink to read the history of, and makes none', async () => {
    const options = kind.options(join(bench().folder, 'none'));
    await expect(openHistory(options)).rejects.toThrow(/There is no sink at .* yet/);
    expect(readdirSync(dirname(kind.ledgerFile(bench().folder)))).toEqual([]);
  });
}
