import {
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  truncateSync,
  writeFileSync,
  appendFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../src/core/records.ts';
import type { RecordReader, StoredRecord } from '../../src/sinks/record-reader.ts';
import { openRecords } from '../../src/sinks/registry.ts';
import type { Sink } from '../../src/sinks/sink.ts';
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
  type SinkKind,
  type Started,
} from '../contracts/sink/fixture.ts';

const unused = { readRows: () => [], readChanges: () => [] };
const kinds: Readonly<Record<'sqlite' | 'jsonl', SinkKind>> = {
  sqlite: {
    ...unused,
    options: (folder) => ({
      type: 'sqlite',
      name: 'main',
      path: join(folder, 'main.db'),
      durability: 'normal',
    }),
    ledgerFile: (folder) => join(folder, 'main.db'),
  },
  jsonl: {
    ...unused,
    options: (folder) => ({ type: 'jsonl', name: 'main', directory: folder, durability: 'normal' }),
    ledgerFile: (folder) => join(folder, '_ledger.db'),
  },
};

describe.each(['sqlite', 'jsonl'] as const)('the records of a %s sink', (type) => {
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

  function open(): RecordReader {
    return openRecords(bench.kind.options(bench.folder));
  }

  it('come in the order of their changes, each once, in its newest state', async () => {
    await store(member('1'), member('2'), member('3'));
    await store(member('1', 'Eve'));
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","2"]');
    using reader = open();
    expect(shown(reader, 0)).toEqual(['3 Ada upsert 3', '1 Eve upsert 4', '2 - delete 5']);
    expect(shown(reader, 3)).toEqual(['1 Eve upsert 4', '2 - delete 5']);
    expect(shown(reader, 5)).toEqual([]);
    expect(reader.newestSeq).toBe(5);
    expect(reader.sinkId).toBe(sink.id);
  });

  it('are those of the moment of opening, whoever writes meanwhile', async () => {
    await store(...['1', '2', '3'].map((id) => member(id)));
    using reader = open();
    const reading = reader.changes(news, tableOf(reader), 0)[Symbol.iterator]();
    const first = reading.next();
    await store(member('2', 'Eve'), member('4'));
    await sink.finish(
      started.lease,
      started.run,
      report(started, { entities: [entityReport(members, { fetched: 5, inserted: 4, updated: 1 })] }),
    );
    const rest: StoredRecord[] = [];
    for (let next = reading.next(); next.done !== true; next = reading.next()) rest.push(next.value);
    expect([first.value as StoredRecord, ...rest].map(({ seq }) => seq)).toEqual([1, 2, 3]);
    expect(reader.newestSeq).toBe(3);
    expect(reader.history.run(started.run)?.state).toBe('running');
    using later = open();
    expect(shown(later, 0)).toEqual(['1 Ada upsert 1', '3 Ada upsert 3', '2 Eve upsert 4', '4 Ada upsert 5']);
    expect(later.history.run(started.run)?.state).toBe('ok');
  });

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
    using reader = open();
    const [stored] = [...reader.changes(news, tableOf(reader), 0)];
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
    using reader = open();
    const table = tableOf(reader);
    expect(reader.record(news, table, '["a","1"]')).toMatchObject({ isDeleted: false, seq: 3, run: 'run-1' });
    expect(reader.record(news, table, '["a","2"]')).toMatchObject({ isDeleted: true, seq: 4 });
    expect(reader.record(news, table, '["a","3"]')).toBeNull();
    expect(reader.record(news, table, '["a"]')).toBeNull();
  });

  it('have no table where nothing was ever stored', () => {
    using reader = open();
    expect(reader.table(news, 'strangers' as EntityName)).toBeNull();
    expect(reader.newestSeq).toBe(0);
  });

  it('may be left in the middle', async () => {
    await store(...['1', '2', '3'].map((id) => member(id)));
    {
      using reader = open();
      for (const { seq } of reader.changes(news, tableOf(reader), 0)) if (seq === 2) break;
      reader.changes(news, tableOf(reader), 0);
    }
    using again = open();
    expect(shown(again, 1)).toHaveLength(2);
  });
});

describe('the files of a JSONL sink', () => {
  let bench: Bench;
  let sink: Sink;
  let started: Started;
  let growing: string;
  let closed: string;

  beforeEach(async () => {
    bench = new Bench(kinds.jsonl);
    sink = await bench.open();
    started = await bench.begin(sink, 'run-1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1'), member('2')])]);
    const folder = join(bench.folder, news, members);
    growing = join(folder, readdirSync(folder)[0] ?? '');
    closed = growing.replace(/\.open$/, '');
  });

  afterEach(async () => {
    await bench.close();
  });

  it('are read up to what was committed, under their old name or their new one', () => {
    using reader = openRecords(kinds.jsonl.options(bench.folder));
    appendFileSync(growing, '{"list_id":"a","id":"9"');
    expect(shown(reader, 0)).toHaveLength(2);
    renameSync(growing, closed);
    expect(existsSync(growing)).toBe(false);
    expect(shown(reader, 0)).toHaveLength(2);
  });

  it('that are too short, gone or not ours are an error, never fewer records', () => {
    using reader = openRecords(kinds.jsonl.options(bench.folder));
    const text = readFileSync(growing, 'utf8');
    writeFileSync(growing, text.replace('"_seq":1,', '"_seq":0,'));
    expect(() => shown(reader, 0)).toThrow('the line with _seq 1');
    expect(shown(reader, 1)).toHaveLength(1);
    truncateSync(growing, 40);
    expect(() => shown(reader, 0)).toThrow('should hold');
    writeFileSync(growing, 'x'.repeat(4000));
    expect(() => shown(reader, 0)).toThrow('should hold');
    renameSync(growing, `${growing}.away`);
    expect(() => shown(reader, 0)).toThrow('it is not there');
    expect(() => reader.record(news, tableOf(reader), '["a","1"]')).toThrow('it is not there');
  });
});

function tableOf(reader: RecordReader): EntityTable {
  const table = reader.table(news, members);
  if (table === null) throw new Error('the table should be there');
  return table;
}

/** `id name op seq`. */
function shown(reader: RecordReader, after: number): readonly string[] {
  const table = tableOf(reader);
  const at = (name: string): number => table.columns.findIndex((column) => column.name === name);
  return [...reader.changes(news, table, after)].map(({ values, isDeleted, seq }) => {
    const name = isDeleted ? '-' : String(values[at('name')]);
    return `${String(values[at('id')])} ${name} ${isDeleted ? 'delete' : 'upsert'} ${seq}`;
  });
}
