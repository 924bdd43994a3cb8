import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { readJson } from '../../src/core/json-text.ts';
import type { RunId } from '../../src/core/names.ts';
import type { PageCounts, PreparedRecord } from '../../src/core/records.ts';
import { fullDisk } from '../contracts/file-sink/full-disk.ts';
import { purging } from '../contracts/sink/purging.ts';
import { resetting } from '../contracts/sink/resetting.ts';
import {
  dayMs,
  entityReport,
  identity,
  member,
  members,
  news,
  onlyPartition,
  page,
  report,
  start,
} from '../contracts/sink/fixture.ts';
import { jsonlKind as kind } from '../contracts/file-sink/file-sink-kind.ts';
import { useBench } from '../contracts/sink/use-bench.ts';

/** The contract is that of SQLite, which has the ledger: here is what becomes of the lines. */
describe('JSONL sink', () => {
  describe('resetting', () => resetting(kind));
  describe('purging', () => purging(kind));
  describe('on a full disk', () => fullDisk(kind));
});

describe('JSONL files', () => {
  const bench = useBench(kind);
  const directory = (): string => join(bench().folder, 'news', 'members');
  const names = (): readonly string[] => (existsSync(directory()) ? readdirSync(directory()).sort() : []);
  const linesIn = (name: string): readonly JsonObject[] => {
    const text = readFileSync(join(directory(), name), 'utf8');
    expect(text.endsWith('\n')).toBe(true);
    return text.split('\n').slice(0, -1).map(readJson).filter(isJsonObject);
  };
  /** Each line as `_seq _op id name`, in the order of the files. */
  const lines = (): readonly string[] =>
    names().flatMap((name) =>
      linesIn(name).map(({ _seq, _op, id, name: called }) =>
        [_seq, _op, id, called ?? '-'].map(String).join(' '),
      ),
    );

  async function begin(run = 'r1') {
    const sink = await bench().open();
    const started = await bench().begin(sink, run);
    const { id } = await onlyPartition(sink, started.lease);
    return {
      sink,
      ...started,
      store: async (...records: readonly PreparedRecord[]) =>
        await sink.commit(started.lease, [page(started, id, records)]),
      finish: async (inserted: Partial<PageCounts>) => {
        const entities = [entityReport(members, inserted)];
        await sink.finish(started.lease, started.run, report(started, { entities }));
      },
    };
  }

  /** A run that is killed after its commits: no line is written, and the lock is free. */
  async function killed(): Promise<void> {
    const { lease, store } = await begin();
    await store(member('1'), member('2'));
    await lease[Symbol.asyncDispose]();
    expect(names()).toEqual([]);
  }

  it('are written whole at the end of a run, a line for each row that has changed', async () => {
    const first = await begin();
    await first.store(member('1'));
    await first.store(member('2'));
    expect(names()).toEqual([]);
    await first.finish({ fetched: 2, inserted: 2 });
    expect(names()).toEqual(['000000000001.jsonl']);
    expect(readFileSync(join(directory(), '000000000001.jsonl'), 'utf8').split('\n')[0]).toBe(
      '{"list_id":"a","id":"1","name":"Ada","visits":null,"score":null,"vip":null,"address":null,"tags":null,"anything":null,' +
        '"_op":"upsert","_seq":1,"_changed_at":"2026-03-01T10:00:00.000Z","_run_id":"r1"}',
    );
    await first.lease[Symbol.asyncDispose]();
    const second = await begin('r2');
    await second.store(member('1'), member('2', 'Grace'));
    await second.sink.repair.tombstoneRecord(second.lease, second.run, members, member('1').keyText);
    await second.finish({ fetched: 2, unchanged: 1, updated: 1 });
    expect(names()).toEqual(['000000000001.jsonl', '000000000003.jsonl']);
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada', '3 upsert 2 Grace', '4 delete 1 -']);
    expect(linesIn('000000000003.jsonl')[1]).toEqual({
      list_id: 'a',
      id: '1',
      _op: 'delete',
      _seq: 4,
      _changed_at: '2026-03-01T10:00:00.000Z',
      _run_id: 'r2',
    });
  });

  it('have the last state of a row that has changed twice since the file before', async () => {
    const { store, finish } = await begin();
    await store(member('1'), member('2'));
    await store(member('1', 'Grace'));
    await finish({ fetched: 3, inserted: 2, updated: 1 });
    expect(lines()).toEqual(['2 upsert 2 Ada', '3 upsert 1 Grace']);
  });

  it('are written every minute of a long run, with its next commit', async () => {
    const { store, finish } = await begin();
    await store(member('1'));
    bench().clock.advance(59_000);
    await store(member('2'));
    expect(names()).toEqual([]);
    bench().clock.advance(1_000);
    await store(member('3'));
    expect(names()).toEqual(['000000000001.jsonl']);
    await store(member('4'));
    expect(lines()).toHaveLength(3);
    await finish({ fetched: 4, inserted: 4 });
    expect(names()).toEqual(['000000000001.jsonl', '000000000004.jsonl']);
    expect(lines()).toHaveLength(4);
  });

  it('are closed when they have reached 64 MiB', async () => {
    const { store, finish } = await begin();
    await store(member('1', 'n'.repeat(65 * 1024 * 1024)));
    // So many rows are read at once.
    await store(...Array.from({ length: 100 }, (_, index) => member(`then ${index}`)));
    await finish({ fetched: 101, inserted: 101 });
    expect(names()).toEqual(['000000000001.jsonl', '000000000101.jsonl']);
    expect(linesIn('000000000101.jsonl').map(({ id }) => id)).toEqual(['then 99']);
  });

  // Proves promise 1
  it('have the lines that a kill between commit and file has left out, each once', async () => {
    await killed();
    const { store, finish } = await begin('r2');
    await store(member('2'), member('3'));
    await finish({ fetched: 2, duplicate: 1, inserted: 1 });
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada', '3 upsert 3 Ada']);
  });

  // Proves promise 1
  it('that are not finished go when the connector is taken, and others that are not listed stay under another ending', async () => {
    await killed();
    mkdirSync(directory(), { recursive: true });
    const left = ['000000000001.jsonl.part', '000000000001.jsonl.next', '000000000009.jsonl', 'notes.txt'];
    for (const name of left) writeFileSync(join(directory(), name), '{"id":"9"}\n');
    const sink = await bench().open();
    await sink.acquire(identity());
    expect(names()).toEqual(['000000000009.jsonl.unlisted', 'notes.txt']);
  });

  // Proves promise 1
  it('get the name that a kill kept from them, also when they were written again', async () => {
    const { store, finish, lease } = await begin();
    await store(member('1'));
    await finish({ fetched: 1, inserted: 1 });
    await lease[Symbol.asyncDispose]();
    const file = join(directory(), '000000000001.jsonl');
    renameSync(file, `${file}.next`);
    writeFileSync(file, readFileSync(`${file}.next`, 'utf8').replace('Ada', 'Eve'));
    const sink = await bench().open();
    await sink.acquire(identity());
    expect(names()).toEqual(['000000000001.jsonl']);
    expect(lines()).toEqual(['1 upsert 1 Ada']);
  });

  it('have nothing of a commit that failed', async () => {
    const { sink, lease, run, store, finish } = await begin();
    const wrong = page({ lease, run }, 1, [member('9')], { fetched: 5 });
    await expect(sink.commit(lease, [wrong])).rejects.toMatchObject({ code: 'ACCOUNTING' });
    await store(member('1'));
    await finish({ fetched: 1, inserted: 1 });
    expect(lines()).toEqual(['1 upsert 1 Ada']);
  });

  it('that cannot be written fail the end of their run, and no commit', async () => {
    const { store, finish, lease } = await begin();
    await store(member('1'));
    mkdirSync(join(bench().folder, 'news'));
    writeFileSync(directory(), 'in the way');
    bench().clock.advance(60_000);
    await store(member('2'));
    await expect(finish({ fetched: 2, inserted: 2 })).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
    rmSync(directory());
    await lease[Symbol.asyncDispose]();
    const next = await begin('r2');
    await next.finish({});
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada']);
  });

  // Proves promise 1.4
  it('are settled beside files of other programs and what a kill has left', async () => {
    const { store, finish, lease } = await begin();
    await store(member('1'));
    mkdirSync(directory(), { recursive: true });
    for (const name of ['.DS_Store', 'members/000000000001.jsonl.part']) {
      writeFileSync(join(bench().folder, 'news', name), 'left');
    }
    await finish({ fetched: 1, inserted: 1 });
    await lease[Symbol.asyncDispose]();
    const file = join(directory(), '000000000001.jsonl');
    renameSync(file, `${file}.next`);
    const sink = await bench().open();
    await sink.acquire(identity());
    expect(lines()).toEqual(['1 upsert 1 Ada']);
    expect(names()).toEqual(['000000000001.jsonl']);
  });

  it('that were dropped and are written again are part of the sink', async () => {
    const { sink, store, finish, lease } = await begin();
    await store(member('1'));
    await finish({ fetched: 1, inserted: 1 });
    await bench().ledger('UPDATE _sync_files SET is_dropped = 1');
    const started = { lease, run: 'r2' as RunId };
    await sink.startRun(lease, bench().plan(started.run));
    const { id } = await onlyPartition(sink, lease);
    await sink.commit(lease, [page(started, id, [member('2')])]);
    const entities = [entityReport(members, { fetched: 1, inserted: 1 })];
    await sink.finish(lease, started.run, report(started, { entities }));
    expect(await bench().ledger('SELECT last_seq, is_dropped FROM _sync_files')).toEqual([
      { last_seq: 2, is_dropped: 0 },
    ]);
    await lease[Symbol.asyncDispose]();
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada']);
  });

  // Proves promise 21.1
  it('that cannot be removed leave a purge unfinished, and stop a reset', async () => {
    const { sink, store, finish, lease } = await begin();
    await store(member('1'));
    await finish({ fetched: 1, inserted: 1 });
    await lease[Symbol.asyncDispose]();
    const inTheWay = join(directory(), '000000000009.jsonl.part');
    mkdirSync(inTheWay);
    const { signal } = new AbortController();
    const of = [{ entity: members, keyTexts: [member('1').keyText] }];
    const removeFile = (): Promise<void> => Promise.resolve();
    const purge = sink.purges.purge(news, { of, canReturn: true, targets: [], removeFile, signal });
    await expect(purge).rejects.toMatchObject({ code: 'SINK_FAILED' });
    expect(await bench().count('_sync_purge_work', "step = 'lines'")).toBe(1);
    rmdirSync(inTheWay);
    expect(await sink.purges.complete(news)).toEqual([]);
    expect(names()).toEqual([]);
    mkdirSync(inTheWay, { recursive: true });
    const reset = sink.repair.reset(news, { entity: null, tables: [], withData: true, now: instant(start) });
    await expect(reset).rejects.toMatchObject({ code: 'SINK_FAILED' });
  });

  // Proves promise 21.1
  it('lose the lines of a record that was purged, and of one whose deleted row was too old', async () => {
    const { sink, store, finish, lease, run } = await begin();
    await store(member('1'), member('2'), member('3'));
    await sink.repair.tombstoneRecord(lease, run, members, member('2').keyText);
    await finish({ fetched: 3, inserted: 3 });
    await lease[Symbol.asyncDispose]();
    const { signal } = new AbortController();
    const removeFile = (): Promise<void> => Promise.resolve();
    const of = [{ entity: members, keyTexts: [member('1').keyText] }];
    await sink.purges.purge(news, { of, canReturn: true, targets: [], removeFile, signal });
    expect(lines()).toEqual(['3 upsert 3 Ada', '4 delete 2 -']);
    bench().clock.advance(91 * dayMs);
    const old = {
      entity: members,
      deletedBefore: instant(start + dayMs),
      publishedThrough: Number.MAX_SAFE_INTEGER,
      quarantinedBefore: null,
      filesBefore: null,
      versionsBefore: null,
      withheld: 0,
    };
    await sink.purges.expire(news, { entities: [old], isAsked: true, removeFile, signal });
    expect(lines()).toEqual(['3 upsert 3 Ada']);
    expect(await bench().count('_sync_purge_work')).toBe(0);
    await sink.acquire(identity());
  });

  it('go with their entity, and with the folder', async () => {
    const { sink, store, finish, lease } = await begin();
    await store(member('1'));
    await finish({ fetched: 1, inserted: 1 });
    await lease[Symbol.asyncDispose]();
    await sink.repair.reset(news, { entity: null, tables: [], withData: true, now: instant(start) });
    expect(existsSync(join(bench().folder, 'news'))).toBe(false);
  });

  it('of a sink in which files grew are refused', async () => {
    await (await bench().open())[Symbol.asyncDispose]();
    const ledger = new Database(kind.ledgerFile(bench().folder));
    ledger.pragma('user_version = 1');
    ledger.close();
    await expect(bench().open()).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
  });
});
