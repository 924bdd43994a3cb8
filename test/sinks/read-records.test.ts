import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../src/core/records.ts';
import type { StoredRecord } from '../../src/sinks/record-reader.ts';
import type { RecordReader, Sink } from '../../src/sinks/sink-access.ts';
import { accessSink } from '../../src/sinks/registry.ts';
import {
  Bench,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  record,
  report,
  entityReport,
  type Started,
} from '../contracts/sink/fixture.ts';
import { jsonlKind, sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import { benchOfTest } from '../contracts/sink/use-bench.ts';

const kinds = { sqlite: sqliteKind, jsonl: jsonlKind, postgres: await postgresSinkKind() };

describe.each(['sqlite', 'jsonl', 'postgres'] as const)('the records of a %s sink', (type) => {
  let bench: Bench;
  let sink: Sink;
  let started: Started;
  let partition: number;

  beforeEach(async () => {
    bench = new Bench(kinds[type]);
    sink = await bench.open();
    started = await bench.begin(sink, 'run-1');
    partition = (await onlyPartition(sink, started.lease)).id;
  });

  afterEach(async () => {
    await bench.close();
  });

  async function store(...records: readonly PreparedRecord[]): Promise<void> {
    await sink.commit(started.lease, [page(started, partition, records)]);
  }

  function open(): Promise<RecordReader> {
    return accessSink(bench.kind.options(bench.folder)).openRecords();
  }

  it('come in the order of their changes, each once, in its newest state', async () => {
    await store(member('1'), member('2'), member('3'));
    await store(member('1', 'Eve'));
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","2"]');
    await using reader = await open();
    expect(await shown(reader, 0)).toEqual(['3 Ada upsert 3', '1 Eve upsert 4', '2 - delete 5']);
    expect(await shown(reader, 3)).toEqual(['1 Eve upsert 4', '2 - delete 5']);
    expect(await shown(reader, 5)).toEqual([]);
    expect(await reader.newestSeq(news)).toBe(5);
    expect(reader.sinkId).toBe(sink.id);
  });

  it('are those of the moment of opening, whatever is written meanwhile', async () => {
    const all = Array.from({ length: 250 }, (_, index) => member(`${index + 1}`));
    await store(...all);
    await using reader = await open();
    const reading = reader.changes(news, await tableOf(reader), 0)[Symbol.asyncIterator]();
    const first = await reading.next();
    await store(member('2', 'Eve'), member('251'));
    await sink.finish(
      started.lease,
      started.run,
      report(started, { entities: [entityReport(members, { fetched: 252, inserted: 251, updated: 1 })] }),
    );
    const rest: StoredRecord[] = [];
    for (let next = await reading.next(); next.done !== true; next = await reading.next()) {
      rest.push(...next.value);
    }
    const seqs = [...(first.value as readonly StoredRecord[]), ...rest].map(({ seq }) => seq);
    expect(seqs).toEqual(all.map((_, index) => index + 1));
    expect(await reader.newestSeq(news)).toBe(250);
    expect((await reader.history.run(started.run))?.state).toBe('running');
    await using later = await open();
    expect(await shown(later, 249)).toEqual(['250 Ada upsert 250', '2 Eve upsert 251', '251 Ada upsert 252']);
    expect((await later.history.run(started.run))?.state).toBe('ok');
  });

  it.runIf(type !== 'postgres')(
    'come in batches that grow, and in small ones where they are long',
    async () => {
      const short = (count: number, from: number): readonly PreparedRecord[] =>
        Array.from({ length: count }, (_, index) => member(`${from + index}`));
      const long = (id: string, length: number): PreparedRecord => member(id, 'x'.repeat(length));
      await store(...short(250, 1));
      await store(long('a', 1_500_000), long('b', 1_500_000), long('c', 1_500_000), long('d', 5_000_000));
      const extra = JSON.stringify({ more: 'x'.repeat(5_000_000) });
      await store(long('e', 5_000_000), record(membersTable, { list_id: 'a', id: 'f' }, { extra }));
      await store(...short(150, 251));
      await using reader = await open();
      const sizes: number[] = [];
      for await (const batch of reader.changes(news, await tableOf(reader), 0)) sizes.push(batch.length);
      // Short ones end with the third long one, from which on four million characters are one. So is the first behind.
      expect(sizes).toEqual([100, 153, 1, 1, 1, 1, 149]);
    },
  );

  it('keep every digit and every kind of value', async () => {
    const values = {
      list_id: 'a',
      id: 'x"\\\n\u2028',
      name: '',
      visits: 9_007_199_254_740_993n,
      score: 0.1,
      vip: 0,
      address: '{"n":12345678901234567890,"z":null}',
      tags: '["a","ü"]',
      anything: '1e+30',
    };
    await store(record(membersTable, values, { extra: '{"big":98765432109876543210}' }));
    await using reader = await open();
    const [stored] = await records(reader, await tableOf(reader), 0);
    const expected = Object.entries(values).map(([name, value]) => [name, name === 'vip' ? 0 : value]);
    const found = membersTable.columns.map(({ name, type: column }, index) => {
      const value = stored?.values[index] ?? null;
      const isSmall = typeof value === 'bigint' && Number.isSafeInteger(Number(value));
      return [name, isSmall && column !== 'string' ? Number(value) : value];
    });
    expect(found).toEqual(expected);
    expect(stored?.extra).toBe('{"big":98765432109876543210}');
  });

  it('are found by their key, tombstones too, and others are not', async () => {
    await store(member('1'), member('2'));
    await store(member('1', 'Eve'));
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","2"]');
    await using reader = await open();
    const table = await tableOf(reader);
    expect(await reader.record(news, table, '["a","1"]')).toMatchObject({
      isDeleted: false,
      seq: 3,
      run: 'run-1',
    });
    expect(await reader.record(news, table, '["a","2"]')).toMatchObject({ isDeleted: true, seq: 4 });
    expect(await reader.record(news, table, '["a","3"]')).toBeNull();
    expect(await reader.record(news, table, '["a"]')).toBeNull();
  });

  it('have no table where nothing was ever stored', async () => {
    await using reader = await open();
    expect(await reader.table(news, 'strangers' as EntityName)).toBeNull();
    expect(await reader.tableId(news, 'strangers' as EntityName)).toBeNull();
    expect(await reader.newestSeq(news)).toBe(0);
  });

  it('are of a table that has one id until its data is reset, and numbers that continue behind a reset', async () => {
    const look = async (): Promise<{ readonly id: string | null; readonly newest: number }> => {
      await using reader = await open();
      return { id: await reader.tableId(news, members), newest: await reader.newestSeq(news) };
    };
    await store(member('1'), member('2'));
    const first = await look();
    expect(first).toEqual({ id: expect.stringMatching(/^[0-9a-f-]{32,36}$/) as string, newest: 2 });
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","2"]');
    await started.lease[Symbol.asyncDispose]();
    sink = await bench.open();
    const columns = [...membersTable.columns, { name: 'added', type: 'string' } as const];
    started = await bench.begin(sink, 'run-2', { tables: [{ ...membersTable, columns }] });
    await started.lease[Symbol.asyncDispose]();
    const now = instant(bench.clock.now());
    await sink.repair.reset(news, { entity: members, tables: [membersTable], withData: false, now });
    expect(await look()).toEqual({ ...first, newest: 3 });
    const ids = [first.id];
    for (const entity of [members, null]) {
      await sink.repair.reset(news, { entity, tables: [membersTable], withData: true, now });
      expect((await look()).id).toBeNull();
      started = await bench.begin(sink, `run-${ids.length + 2}`);
      partition = (await onlyPartition(sink, started.lease)).id;
      await store(member('1'));
      await started.lease[Symbol.asyncDispose]();
      const { id, newest } = await look();
      expect(newest).toBe(3 + ids.length);
      ids.push(id);
    }
    expect(new Set(ids).size).toBe(3);
  });

  it('may be left in the middle', async () => {
    await store(...['1', '2', '3'].map((id) => member(id)));
    {
      await using reader = await open();
      const table = await tableOf(reader);
      for await (const [first] of reader.changes(news, table, 0)) if (first?.seq === 1) break;
      reader.changes(news, table, 0);
    }
    await using again = await open();
    expect(await shown(again, 1)).toHaveLength(2);
  });
});

it('records of a JSONL sink are read as soon as they are committed, before a file has their lines', async () => {
  const bench = benchOfTest(kinds.jsonl);
  const { commit } = await bench.walking('run-1');
  await commit([member('1'), member('2')]);
  expect(existsSync(join(bench.folder, news))).toBe(false);
  await using reader = await accessSink(kinds.jsonl.options(bench.folder)).openRecords();
  expect(await shown(reader, 0)).toHaveLength(2);
});

async function records(
  reader: RecordReader,
  table: EntityTable,
  after: number,
): Promise<readonly StoredRecord[]> {
  const all: StoredRecord[] = [];
  for await (const batch of reader.changes(news, table, after)) all.push(...batch);
  return all;
}

async function tableOf(reader: RecordReader): Promise<EntityTable> {
  const table = await reader.table(news, members);
  if (table === null) throw new Error('the table should be there');
  return table;
}

/** `id name op seq`. */
async function shown(reader: RecordReader, after: number): Promise<readonly string[]> {
  const table = await tableOf(reader);
  const at = (name: string): number => table.columns.findIndex((column) => column.name === name);
  return (await records(reader, table, after)).map(({ values, isDeleted, seq }) => {
    const name = isDeleted ? '-' : String(values[at('name')]);
    return `${String(values[at('id')])} ${name} ${isDeleted ? 'delete' : 'upsert'} ${seq}`;
  });
}
