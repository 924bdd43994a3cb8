import { hash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
  truncateSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, afterEach } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import { readJson } from '../../src/core/json-text.ts';
import { isJsonObject, type JsonObject } from '../../src/core/json.ts';
import type { RunId, EntityName } from '../../src/core/names.ts';
import type { PageCounts, PreparedRecord } from '../../src/core/records.ts';
import type { Lease } from '../../src/sinks/lease.ts';
import type { EntityMasking } from '../../src/sinks/masks.ts';
import { openSink, accessSink } from '../../src/sinks/registry.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import type { RunPlan, CommittedPage } from '../../src/sinks/sink.ts';
import { jsonlKind as kind } from '../contracts/file-sink/file-sink-kind.ts';
import { fullDisk } from '../contracts/file-sink/full-disk.ts';
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
  manualClock,
  runPlan,
  counts,
  opens,
  opensTable,
  record,
  sealed,
  type Started,
} from '../contracts/sink/fixture.ts';
import { purging, resetting } from '../contracts/sink/removals.ts';
import { useBench } from '../contracts/sink/use-bench.ts';
import { it } from '../support/it.ts';

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
    const { sink, started, commit, finish } = await bench().walking(run);
    return {
      sink,
      ...started,
      store: async (...records: readonly PreparedRecord[]) => await commit(records),
      finish: async (inserted: Partial<PageCounts>) => {
        const entities = [entityReport(members, inserted)];
        await finish({ entities });
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
});

describe('erased lines', () => {
  let folder = '';
  let sink: Sink;
  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
    sink = await openSink(options, { clock: manualClock() });
  });
  afterEach(async () => await sink[Symbol.asyncDispose]());

  const fileNames = (): readonly string[] => {
    const directory = join(folder, 'news', members);
    return existsSync(directory) ? readdirSync(directory).sort() : [];
  };
  const file = (name = '000000000001.jsonl'): string => join(folder, 'news', members, name);

  async function ended(
    run: string,
    records: readonly PreparedRecord[],
    change: Partial<RunPlan> = {},
  ): Promise<void> {
    await using lease = await sink.acquire(identity());
    const started = { lease, run: run as RunId };
    await sink.startRun(lease, runPlan(run, change));
    const { id } = await onlyPartition(sink, lease);
    await sink.commit(lease, [page(started, id, records)]);
    const stored = { fetched: records.length, inserted: records.length };
    const entities = records.length === 0 ? [] : [entityReport(members, stored)];
    await sink.finish(lease, started.run, report(started, { entities }));
  }

  const { signal } = new AbortController();
  const purge = async (keyText: string) =>
    await sink.purges.purge(news, {
      of: [{ entity: members, keyTexts: [keyText] }],
      canReturn: true,
      targets: [],
      removeFile: () => Promise.resolve(),
      signal,
    });
  const whole = { entity: null, tables: [], withData: true, now: '2026-03-02T10:00:00.000Z' };

  // Proves promise 21.1
  it.each([
    {
      what: 'a purge',
      erase: async (): Promise<unknown> => await purge(member('1').keyText),
      left: ['000000000001.jsonl', 'notes.txt'],
    },
    {
      what: 'a reset of the data',
      erase: async (): Promise<unknown> => await sink.repair.reset(news, whole),
      left: ['notes.txt'],
    },
    {
      what: 'a removal of the connector',
      erase: async (): Promise<unknown> => {
        await using removal = await sink.repair.remove(news, identity().holder);
        while ((await removal.dropSome()) !== null);
        return await removal.finish();
      },
      left: ['notes.txt'],
    },
  ])('files that the ledger does not list go with $what, too', async ({ erase, left }) => {
    await ended('r1', [member('1'), member('2')]);
    for (const name of ['000000000007.jsonl', '000000000008.jsonl.unlisted', 'notes.txt']) {
      writeFileSync(file(name), '{"id":"1"}\n');
    }
    mkdirSync(join(folder, 'other', members), { recursive: true });
    writeFileSync(join(folder, 'other', members, '000000000007.jsonl.unlisted'), '{"id":"1"}\n');
    await erase();
    expect(fileNames()).toEqual(left);
    expect(readdirSync(join(folder, 'other', members))).toHaveLength(1);
  });

  // Proves promise 1.4
  it('a purge does not take a damaged file for a sound one', async () => {
    await ended('r1', [member('1'), member('2')]);
    for (const damage of ['"id":"7"', '"id";"2"']) {
      const damaged = readFileSync(file(), 'utf8').replace(
        /"id".{4}(?=,"name":"Ada","visits":null.*\n$)/,
        damage,
      );
      writeFileSync(file(), damaged);
      await expect(purge(member('1').keyText)).rejects.toMatchObject({
        code: 'SINK_DAMAGED',
        context: { file: file(), files: 1 },
      });
      expect(readFileSync(file(), 'utf8')).toBe(damaged);
    }
    await using lease = await sink.acquire(identity());
    expect(lease.connector).toBe(news);
  });

  const hashesIds: EntityMasking = {
    entity: members,
    of: members,
    row: ({ id = null, ...row }) => ({
      ...row,
      id: `hmac-00000000-${hash('sha256', JSON.stringify(id), 'hex')}`,
    }),
    record: (value) => value,
    cells: () => null,
    file: (said) => said,
    hidesVersions: false,
  };

  // Proves promise 10.6
  it('lines of an entity whose key a mask covers go with it, also after the removal was broken off', async () => {
    await ended('r1', [member('1'), member('2')]);
    const unlisted = file('000000000008.jsonl.unlisted');
    // Cannot be removed as a file.
    mkdirSync(unlisted);
    const masks = [{ entity: members, mask: 'm1', keyId: 'k1' }];
    const asked = { masks, maskings: [hashesIds], targets: [], signal, renameFile: () => Promise.resolve() };
    await expect(sink.masking.rewrite(news, asked)).rejects.toThrow();
    rmdirSync(unlisted);
    writeFileSync(unlisted, '{"id":"1"}\n');
    expect(await sink.purges.complete(news)).toEqual([]);
    expect(fileNames()).toEqual([]);
  });
});

describe('lost lines', () => {
  let folder = '';
  const sinks: Sink[] = [];
  it.beforeEach(({ folder: made }) => {
    folder = made;
  });
  afterEach(async () => {
    for (const sink of sinks.splice(0)) await sink[Symbol.asyncDispose]();
  });

  async function open(): Promise<Sink> {
    const options = { type: 'jsonl', name: 'lake', directory: folder, durability: 'normal' } as const;
    const sink = await openSink(options, { clock: manualClock() });
    sinks.push(sink);
    return sink;
  }

  const openOf = (id: string): PreparedRecord => record(opensTable, { id, at: '10:00' });

  /** One page with these members, and a row made of each of them that is never replaced. */
  async function store(
    sink: Sink,
    lease: Lease,
    run: string,
    ids: readonly string[],
  ): Promise<CommittedPage> {
    await sink.startRun(lease, runPlan(run));
    const { id } = await onlyPartition(sink, lease);
    const records = ids.map((one) => member(one));
    const rows = [
      { entity: members, records },
      { entity: opens, records: ids.map(openOf) },
    ];
    const started: Started = { lease, run: run as Started['run'] };
    const [committed] = await sink.commit(started.lease, [
      page(started, id, records, { rows, seal: sealed }),
    ]);
    if (committed === undefined) throw new Error('one page was committed');
    return committed;
  }

  const fileOf = (entity: EntityName, name: string): string => join(folder, 'news', entity, name);
  const idsIn = (entity: EntityName, name: string): readonly unknown[] =>
    readFileSync(fileOf(entity, name), 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { id: unknown }).id);

  /** Closed files that do not hold what the manifest says. */
  async function damaged(): Promise<unknown> {
    await using closed = await accessSink({ type: 'jsonl', directory: folder }).openClosedFiles();
    const how = { signal: new AbortController().signal, onProgress: () => undefined };
    return (await closed?.check(identity().connector, how))?.damaged;
  }

  /** A run that has ended: its files are closed. */
  async function ended(): Promise<void> {
    const sink = await open();
    const lease = await sink.acquire(identity());
    await store(sink, lease, 'r1', ['1', '2', '3']);
    const inserted = { fetched: 3, inserted: 3 };
    const entities = [entityReport(members, inserted), entityReport(opens, inserted)];
    const run = 'r1' as Started['run'];
    await sink.finish(lease, run, report({ lease, run }, { entities }));
    await sink[Symbol.asyncDispose]();
  }

  const name = '000000000004.jsonl';
  const scope = { entity: null, tables: [], withData: false, now: '2026-03-02T10:00:00.000Z' };

  // Proves promise 1.4
  it.each([
    ['is gone', (file: string) => rmSync(file), 'it is not there'],
    ['is too short', (file: string) => truncateSync(file, readFileSync(file).length - 10), 'it holds'],
    ['is too long', (file: string) => writeFileSync(file, 'notes\n', { flag: 'a' }), 'it holds'],
    ['is another one', (file: string) => writeFileSync(file, 'notes\n'), 'it holds'],
  ] as const)(
    'a closed file that %s stops a sync by its name, and what the message advises writes it again',
    async (_how, damage, found) => {
      await ended();
      const file = fileOf(opens, name);
      const before = readFileSync(file, 'utf8');
      damage(file);
      const sink = await open();
      const failure: unknown = await sink.acquire(identity()).catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: 'SINK_DAMAGED', context: { file, files: 1 } });
      expect(String(failure)).toContain(
        `${file} should hold ${before.length} bytes of stored changes, but ${found}`,
      );
      expect(String(failure)).toContain('Restore it from a backup and sync again.');
      expect(String(failure)).toContain('connector-sync reset news --yes');
      await sink.repair.reset(identity().connector, scope);
      const lease = await sink.acquire(identity());
      expect(readFileSync(file, 'utf8')).toBe(before);
      expect(readdirSync(join(folder, 'news', opens))).toEqual([name]);
      expect(await damaged()).toEqual([]);
      const { counts: stored } = await store(sink, lease, 'r2', ['1', '2', '3']);
      const unchanged = counts({ fetched: 3, unchanged: 3 });
      expect(stored).toEqual([members, opens].map((entity) => ({ entity, counts: unchanged })));
    },
  );

  // Proves promise 1.4
  it('a closed file whose content has changed is written again by a reset, without lines of rows that changed later', async () => {
    await ended();
    const file = fileOf(members, '000000000001.jsonl');
    const sink = await open();
    const lease = await sink.acquire(identity());
    await sink.startRun(lease, runPlan('r2'));
    const { id } = await onlyPartition(sink, lease);
    const started = { lease, run: 'r2' as Started['run'] };
    await sink.commit(lease, [page(started, id, [member('2', 'Grace')])]);
    const entities = [entityReport(members, { fetched: 1, updated: 1 })];
    await sink.finish(lease, started.run, report(started, { entities }));
    await lease[Symbol.asyncDispose]();
    writeFileSync(file, readFileSync(file, 'utf8').replace('"id":"2"', '"id":"7"'));
    expect(await damaged()).toMatchObject([{ path: file }]);
    await sink.repair.reset(identity().connector, scope);
    expect(idsIn(members, '000000000001.jsonl')).toEqual(['1', '3']);
    expect(idsIn(members, '000000000007.jsonl')).toEqual(['2']);
    expect(await damaged()).toEqual([]);
  });
});
