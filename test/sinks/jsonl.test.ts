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
import { describe, expect, it } from 'vitest';
import { instant, type Instant } from '../../src/core/clock.ts';
import { readJson, isJsonObject, type JsonObject } from '../../src/core/json.ts';
import { keyTextOf, type EntityTable, type PreparedRecord } from '../../src/core/records.ts';
import type { RunId } from '../../src/core/names.ts';
import { jsonlFormat } from '../../src/export/exported-changes.ts';
import { lineSql } from '../../src/sinks/jsonl/jsonl-sink.ts';
import { openSqlite } from '../../src/sql/sqlite/open-sqlite.ts';
import type { EntityMasking } from '../../src/sinks/requests.ts';
import { accessSink } from '../../src/sinks/registry.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import { jsonlKind as kind } from '../contracts/file-sink/file-sink-kind.ts';
import { fullDisk } from '../contracts/file-sink/full-disk.ts';
import {
  dayMs,
  expireRequest,
  identity,
  member,
  members,
  news,
  start,
  counts,
  opens,
  membersTable,
  opensTable,
  purgeRequest,
  record,
  resetScope,
  sealed,
} from '../contracts/sink/fixture.ts';
import { purging, resetting } from '../contracts/sink/removals.ts';
import { useBench } from '../contracts/sink/use-bench.ts';

/** The contract is that of SQLite, which has the ledger: here is what becomes of the lines. */
describe('JSONL sink', () => {
  describe('resetting', () => resetting(kind));
  describe('purging', () => purging(kind));
  describe('on a full disk', () => fullDisk(kind));
});

const bench = useBench(kind);
const [firstFile, secondFile, ninthFile] = ['000000000001.jsonl', '000000000002.jsonl', '000000000009.jsonl'];
const fileOf = (name = firstFile, entity = members): string => join(bench().folder, news, entity, name);
const names = (entity = members): readonly string[] =>
  existsSync(fileOf('', entity)) ? readdirSync(fileOf('', entity)).sort() : [];
const linesIn = (name: string, entity = members): readonly JsonObject[] => {
  const text = readFileSync(fileOf(name, entity), 'utf8');
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
const purge = async (sink: Sink, id: string) =>
  await sink.purges.purge(
    news,
    purgeRequest([{ entity: members, keyTexts: [member(id).keyText] }], { canReturn: true }),
  );

/** A sink after a run that has stored the first members, whose files are closed. */
async function filled(...ids: readonly string[]): Promise<Sink> {
  const sink = await bench().open();
  const records = ids.map((id) => member(id));
  await bench().read('r1', records, { sink });
  return sink;
}

describe('JSONL files', () => {
  /** A run that is killed after its commits: no line is written, and the lock is free. */
  async function killed(): Promise<void> {
    const { commit, release } = await bench().walking();
    await commit([member('1'), member('2')]);
    await release();
    expect(names()).toEqual([]);
  }

  it('are written whole at the end of a run, a line for each row that has changed', async () => {
    const first = await bench().walking();
    await first.commit([member('1')]);
    await first.commit([member('2')]);
    expect(names()).toEqual([]);
    await first.finish();
    expect(names()).toEqual([firstFile]);
    expect(readFileSync(fileOf(), 'utf8').split('\n')[0]).toBe(
      '{"list_id":"a","id":"1","name":"Ada","visits":null,"score":null,"vip":null,"address":null,"tags":null,"anything":null,' +
        '"_op":"upsert","_seq":1,"_changed_at":"2026-03-01T10:00:00.000Z","_run_id":"r1"}',
    );
    const second = await bench().walking('r2', {}, first);
    await second.commit([member('1'), member('2', 'Grace')]);
    await second.sink.repair.tombstoneRecord(second.lease, second.run, members, member('1').keyText);
    await second.finish();
    expect(names()).toEqual([firstFile, '000000000003.jsonl']);
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
    const { commit, finish } = await bench().walking();
    await commit([member('1'), member('2')]);
    await commit([member('1', 'Grace')]);
    await finish();
    expect(lines()).toEqual(['2 upsert 2 Ada', '3 upsert 1 Grace']);
  });

  it('are written every minute of a long run, with its next commit', async () => {
    const { commit, finish } = await bench().walking();
    await commit([member('1')]);
    bench().clock.advance(59_000);
    await commit([member('2')]);
    expect(names()).toEqual([]);
    bench().clock.advance(1_000);
    await commit([member('3')]);
    expect(names()).toEqual([firstFile]);
    await commit([member('4')]);
    expect(lines()).toHaveLength(3);
    await finish();
    expect(names()).toEqual([firstFile, '000000000004.jsonl']);
    expect(lines()).toHaveLength(4);
  });

  it('hold every value as an export writes it, on one line', async () => {
    const texts = [
      '',
      '"\\\'',
      '\0\u0001\b\t\n\f\r\u001f\u007f',
      '\u2028\u{1f600}\ufeffä',
      ',"_op":"delete"',
    ];
    const integers = [0, -1, 9_007_199_254_740_993n, 2n ** 63n - 1n, -(2n ** 63n)];
    const numbers = [0.1 + 0.2, 5e-324, 1.797_693_134_862_315_7e308, 1e21, 2 ** 60, 1.5];
    const documents = [
      '{\n  "a": [1,\r\n2]\n}',
      '{"a":"\\n\\ud800"}',
      '{"a":1e400,"b":12345678901234567890.50}',
    ];
    const records = [...texts, ...integers, ...numbers, ...documents, null].map((value, index) => {
      const id = index % 2 === 0 ? String(index) : `"\\ü\n${index}`;
      const of = (values: readonly unknown[]) => (values.includes(value) ? value : null);
      const json = documents.find((one) => one === value) ?? null;
      const values = { list_id: 'a', id, name: of(texts), visits: of(integers), score: of(numbers) };
      const row = {
        ...values,
        vip: [null, 0, 1][index % 3] ?? null,
        address: json,
        tags: json,
        anything: json,
      };
      return record(membersTable, row, { extra: json });
    });
    const { commit, finish, sink, lease, run } = await bench().walking();
    await commit(records);
    const gone = records[1]?.keyText ?? '';
    await sink.repair.tombstoneRecord(lease, run, members, gone);
    await finish();
    const { text } = jsonlFormat(membersTable);
    const changedAt = instant(start);
    const upserts = records.map((one, index) =>
      text({ ...one, isDeleted: false, seq: index + 1, changedAt, run }),
    );
    const { values = [] } = records[1] ?? {};
    const deletion = text({ values, extra: null, isDeleted: true, seq: records.length + 1, changedAt, run });
    const expected = [...upserts.toSpliced(1, 1), deletion];
    const onOneLine = (text: string) => text.replaceAll(/ +(?=[[{"}\]\d])/g, ' ');
    expect(onOneLine(readFileSync(fileOf(), 'utf8'))).toBe(onOneLine(expected.join('')));
  });

  it('hold rows with more columns than a function of SQLite takes values', () => {
    const columns = Array.from({ length: 600 }, (_, n) => ({ name: `c'${n}`, type: 'string' as const }));
    const db = openSqlite(':memory:');
    const names = columns.map(({ name }) => `"${name}"`);
    db.exec(
      `CREATE TABLE t (${names.join(' TEXT, ')} TEXT, _extra, _seq, _changed_at, _run_id, _deleted_at)`,
    );
    db.exec(
      `INSERT INTO t ("c'0", "c'599", _seq, _changed_at, _run_id) VALUES ('first', 'last', 1, 'now', 'r1')`,
    );
    const table = { entity: members, columns, key: ["c'0"] };
    const line = db
      .prepare<[], Buffer>(`SELECT ${lineSql(table)} FROM t`)
      .pluck()
      .get();
    db.close();
    const values = columns.map((_, n) => (n === 0 ? 'first' : n === 599 ? 'last' : null));
    const by = { changedAt: 'now' as Instant, run: 'r1' as RunId };
    const expected = jsonlFormat(table).text({ values, extra: null, isDeleted: false, seq: 1, ...by });
    expect(line?.toString()).toBe(expected);
  });

  it('are closed when they have reached 64 MiB', async () => {
    const { commit, finish } = await bench().walking();
    await commit([member('1', 'n'.repeat(65 * 1024 * 1024))]);
    await commit(Array.from({ length: 100 }, (_, index) => member(`then ${index}`)));
    await finish();
    expect(names()).toEqual([firstFile, secondFile]);
    expect(linesIn(secondFile)).toHaveLength(100);
  });

  // Proves promise 1
  it('have the lines that a kill between commit and file has left out, each once', async () => {
    await killed();
    await bench().read('r2', [member('2'), member('3')]);
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada', '3 upsert 3 Ada']);
  });

  // Proves promise 1
  it('that are not finished go when the connector is taken, and others that are not listed stay under another ending', async () => {
    await killed();
    mkdirSync(fileOf(''), { recursive: true });
    for (const name of [`${firstFile}.part`, `${firstFile}.next`, ninthFile, 'notes.txt']) {
      writeFileSync(fileOf(name), '{"id":"9"}\n');
    }
    await (await bench().open()).acquire(identity());
    expect(names()).toEqual([`${ninthFile}.unlisted`, 'notes.txt']);
  });

  // Proves promise 1.4
  it('get the name that a kill kept from them, also when they were written again, beside files of other programs', async () => {
    const { commit, finish, release } = await bench().walking();
    await commit([member('1')]);
    mkdirSync(fileOf(''), { recursive: true });
    writeFileSync(fileOf(`${firstFile}.part`), 'left');
    writeFileSync(join(bench().folder, news, '.DS_Store'), 'left');
    await finish();
    await release();
    renameSync(fileOf(), fileOf(`${firstFile}.next`));
    writeFileSync(fileOf(), readFileSync(fileOf(`${firstFile}.next`), 'utf8').replace('Ada', 'Eve'));
    await (await bench().open()).acquire(identity());
    expect(names()).toEqual([firstFile]);
    expect(lines()).toEqual(['1 upsert 1 Ada']);
  });

  it('that cannot be written fail the end of their run, and no commit', async () => {
    const { commit, finish, release } = await bench().walking();
    await commit([member('1')]);
    mkdirSync(join(bench().folder, news));
    writeFileSync(fileOf(''), 'in the way');
    bench().clock.advance(60_000);
    await commit([member('2')]);
    await expect(finish()).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
    rmSync(fileOf(''));
    await release();
    await bench().read('r2', []);
    expect(lines()).toEqual(['1 upsert 1 Ada', '2 upsert 2 Ada']);
  });

  // Proves promise 21.1
  it('that cannot be removed leave a purge unfinished, and stop a reset', async () => {
    const sink = await filled('1');
    const inTheWay = fileOf(`${ninthFile}.part`);
    mkdirSync(inTheWay);
    await expect(purge(sink, '1')).rejects.toMatchObject({ code: 'SINK_FAILED' });
    expect(await bench().count('_sync_purge_work', "step = 'lines'")).toBe(1);
    rmdirSync(inTheWay);
    expect(await sink.purges.complete(news)).toEqual([]);
    expect(names()).toEqual([]);
    mkdirSync(inTheWay, { recursive: true });
    await expect(sink.repair.reset(news, resetScope())).rejects.toMatchObject({ code: 'SINK_FAILED' });
  });

  // Proves promise 21.1
  it('lose the lines of a record that was purged, and of one whose deleted row was too old', async () => {
    const { sink, lease, run, commit, finish, release } = await bench().walking();
    await commit([member('1'), member('2'), member('3')]);
    await sink.repair.tombstoneRecord(lease, run, members, member('2').keyText);
    await finish();
    await release();
    await purge(sink, '1');
    expect(lines()).toEqual(['3 upsert 3 Ada', '4 delete 2 -']);
    bench().clock.advance(91 * dayMs);
    await sink.purges.expire(news, expireRequest(members, { deletedBefore: instant(start + dayMs) }));
    expect(lines()).toEqual(['3 upsert 3 Ada']);
    expect(await bench().count('_sync_purge_work')).toBe(0);
    await sink.acquire(identity());
  });
});

describe('erased lines', () => {
  // Proves promise 21.1
  it.each([
    ['integer', 2n ** 60n, 2n ** 60n + 1n],
    ['any', `${2n ** 60n}`, `${2n ** 61n}`],
  ] as const)('of one large key of type %s leave those of another', async (type, kept, gone) => {
    const sink = await bench().open();
    const table: EntityTable = { entity: members, columns: [{ name: 'id', type }], key: ['id'] };
    const records = [kept, gone].map((id): PreparedRecord => {
      return { ...member(''), keyText: keyTextOf([id]), hash: String(id), values: [id] };
    });
    await bench().read('r1', records, { sink, plan: { tables: [table] } });
    await sink.purges.purge(news, purgeRequest([{ entity: members, keyTexts: [keyTextOf([gone])] }]));
    expect(readFileSync(fileOf(), 'utf8')).toMatch(/^\{"id":1152921504606846976,[^\n]*\n$/);
  });

  // Proves promise 21.1
  it.each<[string, (sink: Sink) => Promise<unknown>, readonly string[]]>([
    ['a purge', async (sink) => await purge(sink, '1'), [firstFile, 'notes.txt']],
    ['a reset of the data', async (sink) => await sink.repair.reset(news, resetScope()), ['notes.txt']],
    [
      'a removal of the connector',
      async (sink) => {
        await sink.repair.remove(news, { holder: identity().holder, before: () => Promise.resolve() });
      },
      ['notes.txt'],
    ],
  ])('files that the ledger does not list go with %s, too', async (_what, erase, left) => {
    const sink = await filled('1', '2');
    for (const name of ['000000000007.jsonl', '000000000008.jsonl.unlisted', 'notes.txt']) {
      writeFileSync(fileOf(name), '{"id":"1"}\n');
    }
    const others = join(bench().folder, 'other', members);
    mkdirSync(others, { recursive: true });
    writeFileSync(join(others, '000000000007.jsonl.unlisted'), '{"id":"1"}\n');
    await erase(sink);
    expect(names()).toEqual(left);
    expect(readdirSync(others)).toHaveLength(1);
  });

  // Proves promise 1.4
  it('a purge does not take a damaged file for a sound one', async () => {
    const sink = await filled('1', '2');
    for (const damage of ['"id":"7"', '"id";"2"']) {
      const damaged = readFileSync(fileOf(), 'utf8').replace(
        /"id".{4}(?=,"name":"Ada","visits":null.*\n$)/,
        damage,
      );
      writeFileSync(fileOf(), damaged);
      await expect(purge(sink, '1')).rejects.toMatchObject({
        code: 'SINK_DAMAGED',
        context: { file: fileOf(), files: 1 },
      });
      expect(readFileSync(fileOf(), 'utf8')).toBe(damaged);
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
    const sink = await filled('1', '2');
    const unlisted = fileOf('000000000008.jsonl.unlisted');
    // Cannot be removed as a file.
    mkdirSync(unlisted);
    const masks = [{ entity: members, mask: 'm1', keyId: 'k1' }];
    const { signal } = new AbortController();
    const asked = { masks, maskings: [hashesIds], targets: [], signal, renameFile: () => Promise.resolve() };
    await expect(sink.masking.rewrite(news, asked)).rejects.toThrow();
    rmdirSync(unlisted);
    writeFileSync(unlisted, '{"id":"1"}\n');
    expect(await sink.purges.complete(news)).toEqual([]);
    expect(names()).toEqual([]);
  });
});

describe('lost lines', () => {
  const scope = resetScope({ withData: false });
  const name = '000000000004.jsonl';

  /** One page with three members, and a row made of each of them that is never replaced. */
  async function readBoth(run: string, sink?: Sink) {
    const { commit, finish, release } = await bench().walking(run, {}, sink === undefined ? {} : { sink });
    const ids = ['1', '2', '3'];
    const rows = [
      { entity: members, records: ids.map((id) => member(id)) },
      { entity: opens, records: ids.map((id) => record(opensTable, { id, at: '10:00' })) },
    ];
    const committed = await commit([], { rows, fetched: 3, seal: sealed });
    await finish();
    await release();
    return committed;
  }

  /** Closed files that do not hold what the manifest says. */
  async function damaged(): Promise<unknown> {
    await using closed = await accessSink({ type: 'jsonl', directory: bench().folder }).openClosedFiles();
    const how = { signal: new AbortController().signal, onProgress: () => undefined };
    return (await closed?.check(news, how))?.damaged;
  }

  // Proves promise 1.4
  it('are looked for file by file, which says how far it is and ends with its signal', async () => {
    await readBoth('r1');
    const access = accessSink({ type: 'jsonl', directory: bench().folder });
    await using closed = await access.openClosedFiles();
    const stop = new AbortController();
    const seen: unknown[] = [];
    const how = { signal: stop.signal, onProgress: (progress: unknown) => void seen.push(progress) };
    expect(await closed?.check(news, how)).toEqual({ files: 2, damaged: [] });
    expect(seen).toMatchObject([1, 2].map((files) => ({ files, allFiles: 2 })));
    const [first, last] = seen as { bytes: number; allBytes: number }[];
    expect(first?.bytes).toBeLessThan(last?.bytes ?? 0);
    expect(last?.bytes).toBe(last?.allBytes);
    stop.abort(new Error('interrupted'));
    await expect(closed?.check(news, how)).rejects.toThrow('interrupted');
  });

  // Proves promise 1.4
  it.each([
    ['is gone', (file: string) => rmSync(file), 'it is not there'],
    ['is too short', (file: string) => truncateSync(file, readFileSync(file).length - 10), 'it holds'],
    ['is too long', (file: string) => writeFileSync(file, 'notes\n', { flag: 'a' }), 'it holds'],
    ['is another one', (file: string) => writeFileSync(file, 'notes\n'), 'it holds'],
  ] as const)(
    'a closed file that %s stops a sync by its name, and what the message advises writes it again',
    async (_how, damage, found) => {
      await readBoth('r1');
      await bench().closeSinks();
      const file = fileOf(name, opens);
      const before = readFileSync(file, 'utf8');
      damage(file);
      const sink = await bench().open();
      const failure: unknown = await sink.acquire(identity()).catch((error: unknown) => error);
      expect(failure).toMatchObject({ code: 'SINK_DAMAGED', context: { file, files: 1 } });
      expect(String(failure)).toContain(
        `${file} should hold ${before.length} bytes of stored changes, but ${found}`,
      );
      expect(String(failure)).toContain('Restore it from a backup and sync again.');
      expect(String(failure)).toContain('connector-sync reset news --yes');
      await sink.repair.reset(news, scope);
      expect(await damaged()).toEqual([]);
      const { counts: stored } = await readBoth('r2', sink);
      expect(readFileSync(file, 'utf8')).toBe(before);
      expect(names(opens)).toEqual([name]);
      const unchanged = counts({ fetched: 3, unchanged: 3 });
      expect(stored).toEqual([members, opens].map((entity) => ({ entity, counts: unchanged })));
    },
  );

  // Proves promise 1.4
  it('a closed file whose content has changed is written again by a reset, without lines of rows that changed later', async () => {
    await readBoth('r1');
    await bench().closeSinks();
    const sink = await bench().open();
    await bench().read('r2', [member('2', 'Grace')], { sink });
    writeFileSync(fileOf(), readFileSync(fileOf(), 'utf8').replace('"id":"2"', '"id":"7"'));
    expect(await damaged()).toMatchObject([{ path: fileOf() }]);
    await sink.repair.reset(news, scope);
    expect(linesIn(firstFile).map(({ id }) => id)).toEqual(['1', '3']);
    expect(linesIn('000000000007.jsonl').map(({ id }) => id)).toEqual(['2']);
    expect(await damaged()).toEqual([]);
  });
});
