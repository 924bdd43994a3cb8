import { expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { EntityTable, PreparedRecord } from '../../../src/core/records.ts';
import { member, membersTable, onlyPartition, partition, members, record, type SinkKind } from './fixture.ts';
import { useRuns } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

/** -2^63 is a double: it is read as a number, all of whose digits `String` would not show. */
function digits(value: JsonValue | undefined): string {
  return typeof value === 'number' || typeof value === 'bigint' ? BigInt(value).toString() : 'no number';
}

export function hostileValues(kind: SinkKind): void {
  const bench = useBench(kind);

  async function stored(records: readonly PreparedRecord[]): Promise<readonly JsonObject[]> {
    const { commit } = await bench().walking();
    await commit(records);
    return await bench().rows();
  }
  const one = (values: Readonly<Record<string, string | number | bigint | null>>): PreparedRecord =>
    record(membersTable, { list_id: 'a', id: '1', ...values });

  // Proves promise 7
  it('keeps every type of column as it came', async () => {
    const values = {
      name: 'Ada',
      visits: 3,
      score: 1.5,
      vip: 1,
      address: '{"city":"Kyiv","z":[1]}',
      tags: '["a"]',
      anything: '"text"',
    };
    expect(await stored([one(values), member('2')])).toMatchObject([
      {
        name: 'Ada',
        visits: 3,
        score: 1.5,
        vip: true,
        address: { city: 'Kyiv', z: [1] },
        tags: ['a'],
        anything: 'text',
      },
      { name: 'Ada', visits: null, score: null, vip: null, address: null, tags: null, anything: null },
    ]);
  });

  it('keeps integers beyond 2^53 to the digit, up to both ends of 64 bits', async () => {
    const wide = [9_007_199_254_740_993n, -9_223_372_036_854_775_808n, 9_223_372_036_854_775_807n];
    const records = wide.map((visits, index) =>
      record(membersTable, { list_id: 'a', id: String(index), visits }),
    );
    expect((await stored(records)).map((row) => digits(row['visits']))).toEqual(wide.map(String));
  });

  it('keeps NUL, line breaks, quotes and every plane of Unicode in texts', async () => {
    const name = 'a\u0000b\n\r\u2028"\\\u{1F600}\u200F';
    expect(await stored([one({ name })])).toMatchObject([{ name }]);
  });

  it('keeps JSON with line breaks between its tokens readable', async () => {
    expect(await stored([one({ address: '{\n  "city": "a\\nb"\r\n}' })])).toMatchObject([
      { address: { city: 'a\nb' } },
    ]);
  });

  it('keeps odd names and lone surrogates in what has no column', async () => {
    const extra =
      '{"__proto__":{"polluted":true},"_seq":"theirs","odd":"\\ud800","big":12345678901234567890}';
    const [row] = await stored([member('1', 'Ada', { extra })]);
    const kept = row?.['_extra'] as JsonObject;
    expect(Object.keys(kept)).toEqual(['__proto__', '_seq', 'odd', 'big']);
    expect(kept).toMatchObject({ _seq: 'theirs', odd: '\ud800', big: 12_345_678_901_234_567_890n });
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(row?.['_seq']).toBe(1);
  });

  it('keeps a text of ten megabytes', async () => {
    const name = 'é'.repeat(5_000_000);
    const [row] = await stored([one({ name })]);
    expect(row?.['name'] === name).toBe(true);
  });

  it('tells keys apart that differ in case, in a trailing space or in how their parts are cut', async () => {
    const key = (list_id: string, id: string): PreparedRecord => record(membersTable, { list_id, id });
    const keys = [
      key('a', 'B'),
      key('a', 'b'),
      key('a', 'b '),
      key('ab', ''),
      key('', 'ab'),
      key('a', 'b\u0000'),
    ];
    expect(await stored(keys)).toHaveLength(keys.length);
  });

  it('gives the text of a key back as it was prepared, whatever it is made of', async () => {
    const odd: EntityTable = {
      entity: members,
      columns: [
        { name: 'text', type: 'string' },
        { name: 'number', type: 'number' },
        { name: 'id', type: 'integer' },
        { name: 'row', type: 'boolean' },
      ],
      key: ['id', 'row', 'text', 'number'],
    };
    const keys = [
      '[9007199254740993,1,"b\\u0000\\"\\\\",1.5]',
      '[-9223372036854775808,0,"#9007199254740993\u{1F600}",1e+21]',
      '[1,0,"",9007199254740992]',
    ];
    const values = [
      { id: 9_007_199_254_740_993n, row: 1, text: 'b\u0000"\\', number: 1.5 },
      { id: -9_223_372_036_854_775_808n, row: 0, text: '#9007199254740993\u{1F600}', number: 1e21 },
      { id: 1, row: 0, text: '', number: 2 ** 53 },
    ];
    const records = values.map((one, index) => ({
      ...record({ ...odd, key: [] }, one),
      keyText: keys[index] ?? '',
    }));
    const { sink, lease, sweep } = await useRuns(bench(), { tables: [odd] });
    await (await sweep('r1', () => ({ records }))).finish();
    const { started } = await sweep('r2', () => ({ records: [], absence: 'get' }));
    const missing = (await sink.history.missing(started.lease.connector, 9)).map(({ keyText }) => keyText);
    expect(missing).toEqual(keys);
    const asked = await sink.deletes.toConfirm(lease, started.run, members, 9);
    expect(asked.map(({ keyText }) => keyText)).toEqual(keys);
    const [first, second, third] = keys;
    expect(await sink.history.explain(lease.connector, odd, first ?? '')).toMatchObject({ row: 1 });
    expect(await sink.repair.tombstoneRecord(lease, started.run, members, second ?? '')).toBe(true);
    expect(await sink.repair.tombstoneRecord(lease, started.run, members, third ?? '')).toBe(true);
    expect(await bench().rows(odd)).toMatchObject([{ id: 9_007_199_254_740_993n }]);
    const deleted = (await kind.readChanges(bench().folder, lease.connector, odd)).filter(
      (line) => line['_op'] === 'delete',
    );
    expect(deleted).toMatchObject([
      { row: false, text: values[1]?.text, number: 1e21 },
      { id: 1, row: false, text: '', number: 2 ** 53 },
    ]);
    expect(deleted.map((line) => digits(line['id']))).toEqual(['-9223372036854775808', '1']);
  });

  it.each(['', 'x', '[]', '["a"]', '["a","1","2"]', '[["a"],"1"]', '{"a":1}'])(
    'finds nothing under a text that is no key: %s',
    async (text) => {
      const sink = await bench().open();
      const { lease, run } = await bench().begin(sink, 'r1');
      expect(await sink.repair.tombstoneRecord(lease, run, members, text)).toBe(false);
      expect(await sink.history.explain(lease.connector, membersTable, text)).toBeNull();
    },
  );

  it('gives partition parameters back as they were, bigints and odd texts too', async () => {
    const sink = await bench().open();
    const params = {
      id: 9_007_199_254_740_993n,
      exact: 2 ** 60,
      text: '#9007199254740993"\\',
      list: [1e21, -0.5, null],
      no: false,
    };
    const lease = (await bench().begin(sink, 'r1', { roots: [partition(members, params)] })).lease;
    expect((await onlyPartition(sink, lease)).params).toEqual(params);
  });

  it('refuses a record that was prepared for another table', async () => {
    const narrow: PreparedRecord = { ...member('1'), values: ['a', '1'] };
    await expect(stored([narrow])).rejects.toMatchObject({ code: 'INTERNAL' });
  });
}
