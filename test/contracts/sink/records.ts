import { createHash } from 'node:crypto';
import { expect, it as everywhere, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { PreparedRecord, EntityTable } from '../../../src/core/records.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { missingRows } from '../../support/missing-rows.ts';
import {
  counts,
  liveIds,
  dayMs,
  hourMs,
  member,
  members,
  membersTable,
  onlyPartition,
  opens,
  opensTable,
  page,
  sealed,
  withVolatile,
  resetScope,
  record,
  type Bench,
  type SinkKind,
  partition,
  start,
  type Started,
  identity,
  news,
} from './fixture.ts';
import { useRuns } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

/** Nothing but its key came. */
function inPart(id: string): PreparedRecord {
  const partial = {
    entity: members,
    reason: 'partial',
    detail: 'without name',
    record: `{"id":"${id}"}`,
  } as const;
  return record(membersTable, { list_id: 'a', id }, { partial });
}

export function classifying(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  everywhere(
    'finds the row of each record, whatever the order of the page, what it lacks and what it adds',
    async () => {
      const all = Array.from({ length: 60 }, (_, index) => member(String(index), `Name ${index}`));
      const without = (leaves: (index: number) => boolean): readonly PreparedRecord[] =>
        all.filter((_, index) => !leaves(index));
      const mixed = all.toSorted((one, other) => (one.hash < other.hash ? -1 : 1));
      const pages = [
        all,
        all.toReversed(),
        mixed,
        without((index) => index % 4 === 3),
        without((index) => index > 10 && index < 40),
        [...all.slice(0, 7), member('new', 'New'), ...all.slice(7)],
        [...all.slice(0, 30), ...all.slice(40), ...all.slice(30, 40)],
      ];
      await bench().read('r0', all);
      for (const [index, page] of pages.entries()) {
        const seen = await bench().read(`r${index + 1}`, page);
        const inserted = index === 5 ? 1 : 0;
        expect(seen).toEqual(counts({ fetched: page.length, inserted, unchanged: page.length - inserted }));
      }
    },
  );

  // Proves promise 6
  it('counts the same content in a later run as unchanged, and writes nothing', async () => {
    await bench().read('r1', [member('1'), member('2')]);
    const before = await bench().rows();
    const again = await bench().read('r2', [member('1'), member('2')]);
    expect(again).toEqual(counts({ fetched: 2, unchanged: 2 }));
    expect(await bench().rows()).toEqual(before);
  });

  everywhere(
    'counts another content as updated, replaces the row and moves it to the end of the change feed',
    async () => {
      await bench().read('r1', [member('1'), member('2')]);
      const again = await bench().read('r2', [member('1', 'Grace'), member('2')]);
      expect(again).toEqual(counts({ fetched: 2, updated: 1, unchanged: 1 }));
      expect(await bench().rows()).toMatchObject([
        { id: '1', name: 'Grace', _seq: 3, _run_id: 'r2' },
        { id: '2', name: 'Ada', _seq: 2, _run_id: 'r1' },
      ]);
    },
  );

  it('counts a record met twice as duplicate, in one page and across pages', async () => {
    const { commit } = await bench().walking();
    const one = { fetched: 2, inserted: 1, duplicate: 1 };
    for (const records of [
      [member('1'), member('1')],
      [member('1'), member('2')],
    ]) {
      expect((await commit(records)).counts).toEqual([{ entity: members, counts: counts(one) }]);
    }
  });

  it('counts a stored record as unchanged once a run, and as updated also where the run has met it before', async () => {
    await bench().read('r1', [member('1'), member('2')]);
    const all = [member('1'), member('1'), member('2'), member('2', 'Grace')];
    const again = await bench().read('r2', all);
    expect(again).toEqual(counts({ fetched: 4, unchanged: 2, duplicate: 1, updated: 1 }));
    expect(await bench().rows()).toMatchObject([
      { id: '1', _seq: 1 },
      { id: '2', name: 'Grace', _seq: 3 },
    ]);
  });

  everywhere('revives a tombstoned row as updated though its content is the same', async () => {
    await bench().read('r1', [member('1')]);
    await using sink = await bench().open();
    const { lease, run } = await bench().begin(sink, 'gone');
    expect(await sink.repair.tombstoneRecord(lease, run, members, member('1').keyText)).toBe(true);
    expect(await bench().rows()).toEqual([]);
    await lease[Symbol.asyncDispose]();
    const again = await bench().read('r2', [member('1')]);
    expect(again).toEqual(counts({ fetched: 1, updated: 1 }));
    const third = await bench().read('r3', [member('1')]);
    expect(third).toEqual(counts({ fetched: 1, unchanged: 1 }));
  });

  it('writes a row that differs only in volatile fields again when it is a day old, and counts it as unchanged', async () => {
    const withScore = (score: number): PreparedRecord =>
      withVolatile('score', record(membersTable, { list_id: 'a', id: '1', score }));
    await bench().read('r1', [withScore(1)]);
    bench().clock.advance(dayMs - hourMs);
    expect(await bench().read('r2', [withScore(2)])).toEqual(counts({ fetched: 1, unchanged: 1 }));
    expect(await bench().rows()).toMatchObject([{ score: 1, _seq: 1 }]);
    bench().clock.advance(hourMs);
    expect(await bench().read('r3', [withScore(3)])).toEqual(counts({ fetched: 1, unchanged: 1 }));
    expect(await bench().rows()).toMatchObject([{ score: 3, _seq: 2, _run_id: 'r3' }]);
    bench().clock.advance(dayMs - 1);
    await bench().read('r4', [withScore(4)]);
    expect(await bench().rows(), 'the day begins with the last write').toMatchObject([{ score: 3, _seq: 2 }]);
  });

  // Proves promise 7.1
  it('keeps a row of which only a part came as it is, and counts it as met', async () => {
    await bench().read('r1', [member('1', 'Ada'), member('2', 'Grace')]);
    const before = await bench().rows();
    const again = await bench().read('r2', [inPart('1'), inPart('1'), member('2', 'Grace')]);
    expect(again).toEqual(counts({ fetched: 3, unchanged: 2, duplicate: 1 }));
    expect(await bench().rows()).toEqual(before);
    expect(await bench().count('_sync_quarantine')).toBe(0);
  });

  // Proves promise 7.1
  it('stores nothing of a new record that came in part, and of a deleted one, but keeps them in quarantine', async () => {
    const { sink, started, commit } = await bench().walking();
    await commit([member('1')]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, member('1').keyText);
    const first = await commit([inPart('1'), inPart('2'), member('3')]);
    expect(first).toMatchObject({
      newlyDue: 0,
      counts: [{ counts: counts({ fetched: 3, quarantined: 2, inserted: 1 }) }],
    });
    const second = await commit([inPart('3'), member('2'), member('4')]);
    expect(second).toMatchObject({
      partial: 1,
      counts: [{ counts: counts({ fetched: 3, duplicate: 1, inserted: 2 }) }],
    });
    await sink[Symbol.asyncDispose]();
    expect(liveIds(await bench().rows())).toEqual(['2', '3', '4']);
    expect(await bench().ledger('SELECT reason, record FROM _sync_quarantine ORDER BY record')).toEqual([
      { reason: 'partial', record: '{"id":"1"}' },
      { reason: 'partial', record: '{"id":"2"}' },
    ]);
  });

  everywhere('inserts exploded rows once, counts them on their own and never replaces them', async () => {
    const open = (at: string, hash: string): PreparedRecord => record(opensTable, { id: '1', at }, { hash });
    const { sink, started, id } = await bench().walking();
    const rows = (records: readonly PreparedRecord[]) => [
      { entity: members, records: [member('1')] },
      { entity: opens, records },
    ];
    const [first, second] = await sink.commit(started.lease, [
      page(started, id, [member('1')], {
        rows: rows([open('10:00', 'x'), open('10:00', 'x'), open('11:00', 'y')]),
      }),
      page(started, id, [member('1')], { rows: rows([open('11:00', 'another')]) }),
    ]);
    expect(first?.counts).toEqual([
      { entity: members, counts: counts({ fetched: 1, inserted: 1 }) },
      { entity: opens, counts: counts({ fetched: 3, inserted: 2, duplicate: 1 }) },
    ]);
    expect(second?.counts[1]).toEqual({ entity: opens, counts: counts({ fetched: 1, duplicate: 1 }) });
    await sink[Symbol.asyncDispose]();
    expect(await bench().rows(opensTable)).toMatchObject([{ at: '10:00' }, { at: '11:00' }]);
  });
}

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

  it('keeps NUL, line breaks, quotes and every plane of Unicode in texts, and JSON readable', async () => {
    const name = 'a\u0000b\n\r\u2028"\\\u{1F600}\u200F';
    const address = '{\n  "city": "a\\nb"\r\n}';
    expect(await stored([one({ name, address })])).toMatchObject([{ name, address: { city: 'a\nb' } }]);
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
    const missing = (await missingRows(sink.history, started.lease.connector, odd, keys)).map(
      ({ keyText }) => keyText,
    );
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
      exact: 2n ** 60n,
      text: '#9007199254740993"\\',
      list: [1e21, -0.5, null],
      no: false,
    };
    const lease = (await bench().begin(sink, 'r1', { roots: [partition(members, params)] })).lease;
    expect((await onlyPartition(sink, lease)).params).toEqual(params);
  });
}

/** `member` as a record that was not parsed: it has its key and its hash. Notes in `parsed` that it was. */
function unparsed(id: string, name: string, parsed: string[]): PreparedRecord {
  const whole = member(id, name);
  return {
    ...whole,
    values: whole.values.map((value, index) => (index < 2 ? value : null)),
    whole: () => {
      parsed.push(`${id} ${name}`);
      return whole;
    },
  };
}

export function unparsedRecords(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  everywhere(
    'parses a record that was not parsed where it is written after all, and only there',
    async () => {
      const { sink, started, commit } = await bench().walking();
      const parsed: string[] = [];
      await commit([member('1'), member('2'), member('3')]);
      await sink.repair.tombstoneRecord(started.lease, started.run, members, member('3').keyText);
      const records = [
        unparsed('1', 'Ada', parsed),
        unparsed('2', 'Bea', parsed),
        unparsed('3', 'Ada', parsed),
        unparsed('4', 'Dora', parsed),
      ];
      const committed = await commit(records);
      expect(committed.counts).toEqual([
        { entity: members, counts: counts({ fetched: 4, inserted: 1, updated: 2, duplicate: 1 }) },
      ]);
      expect(parsed).toEqual(['2 Bea', '3 Ada', '4 Dora']);
      expect((await bench().rows()).map(({ id: key, name }) => [key, name])).toEqual([
        ['1', 'Ada'],
        ['2', 'Bea'],
        ['3', 'Ada'],
        ['4', 'Dora'],
      ]);
    },
  );

  it('refuses all pages where parsing gives a record of another key', async () => {
    const { sink, started, id } = await bench().walking();
    const other = { ...member('1'), whole: () => member('2') };
    await expect(
      sink.commit(started.lease, [page(started, id, [member('3')]), page(started, id, [other])]),
    ).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(await bench().rows()).toEqual([]);
  });

  /** As the engine does: looks for the record's row, and leaves the record as it came where that is the same. */
  async function looked({ sink, lease }: Stored, record: PreparedRecord, parsed: string[]) {
    const [found] = await sink.stored.find(lease, members, [record]);
    if (found?.isSame !== true) throw new Error('The row should be the same');
    const { hash } = record;
    return { ...unparsed('1', record.values[2] as string, parsed), hash, found: found.found };
  }

  it('does not look again for a row that it is sure of', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [came('1', 'a')]);
    await sink.startRun(lease, bench().plan('r2'));
    const parsed: string[] = [];
    const record = await looked({ sink, lease }, came('1', 'a'), parsed);
    // Nothing but the holder of the lease does that.
    await bench().ledger(`UPDATE news__members SET _hash = 'other' WHERE id = '1'`);
    await store(sink, lease, record);
    expect(parsed).toEqual([]);
    await store(sink, lease, { ...record, found: {} });
    expect(parsed, 'another object proves nothing').toEqual(['1 Ada']);
  });

  it.each([
    [
      'another page of the run has changed it',
      async ({ sink, lease }: Stored) => await store(sink, lease, came('1', 'b', 'Bea')),
    ],
    [
      'it was deleted',
      async ({ sink, lease }: Stored) =>
        void (await sink.repair.tombstoneRecord(lease, 'r2' as Started['run'], members, member('1').keyText)),
    ],
    [
      'it was repaired',
      async ({ sink, lease }: Stored) =>
        void (await sink.repair.storeRecord(lease, 'r2' as Started['run'], members, member('1', 'Bea'))),
    ],
    [
      'another page has left it with nothing but its key',
      async ({ sink, lease }: Stored) =>
        await store(sink, lease, record(membersTable, { list_id: 'a', id: '1' })),
    ],
    [
      'a later run began, whose first page has changed it',
      async ({ sink, lease }: Stored) => {
        await sink.startRun(lease, bench().plan('r3'));
        await store(sink, lease, came('1', 'b', 'Bea'), 'r3');
        return 'r3';
      },
    ],
  ])('looks again for a row once %s', async (_what, change) => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [came('1', 'a')]);
    await sink.startRun(lease, bench().plan('r2'));
    const parsed: string[] = [];
    const record = await looked({ sink, lease }, came('1', 'a'), parsed);
    const run = await change({ sink, lease });
    await store(sink, lease, record, run ?? 'r2');
    expect(parsed).toEqual(['1 Ada']);
    expect(await bench().rows()).toMatchObject([{ id: '1', name: 'Ada' }]);
  });

  it('takes no row for changed that has the same values in other bytes by now', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [came('1', 'a')]);
    bench().clock.advance(dayMs);
    await sink.startRun(lease, bench().plan('r2'));
    const record = await looked({ sink, lease }, came('1', 'a'), []);
    await store(sink, lease, came('1', 'b'));
    await store(sink, lease, record);
    expect(await bench().rows()).toMatchObject([{ id: '1', _run_id: 'r1' }]);
  });

  everywhere('looks again for a row that it found beside a commit', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [came('1', 'v0', 'v0')]);
    await sink.startRun(lease, bench().plan('r2'));
    for (let version = 1; version <= 20; version += 1) {
      const before = came('1', `v${version - 1}`, `v${version - 1}`);
      const [[found]] = await Promise.all([
        sink.stored.find(lease, members, [before]),
        store(sink, lease, came('1', `v${version}`, `v${version}`)),
      ]);
      // It comes once more as it was, from a page that is older.
      await store(
        sink,
        lease,
        found?.isSame === true
          ? { ...unparsed('1', `v${version - 1}`, []), hash: before.hash, found: found.found }
          : before,
      );
      expect(await bench().rows(), `version ${version}`).toMatchObject([
        { id: '1', name: `v${version - 1}` },
      ]);
      await store(sink, lease, came('1', `v${version}`, `v${version}`));
    }
  });
}

/** `member` as it came in these bytes. */
function came(id: string, bytes: string, name = 'Ada'): PreparedRecord {
  return member(id, name, { hash: createHash('md5').update(`${id} ${bytes}`).digest('base64url') });
}

/** `member` as it came in bytes that are not known. */
function unknown(id: string, name = 'Ada'): PreparedRecord {
  return member(id, name, { hash: '' });
}

/** One run that reads these records. */
async function walk(bench: Bench, on: Stored, run: string, records: readonly PreparedRecord[]) {
  const { commit } = await bench.walking(run, {}, on);
  return (await commit(records, { seal: sealed })).counts[0]?.counts;
}

/** Of which of these records the rows are stored from the same bytes. */
async function sameIds(
  sink: Sink,
  lease: Lease,
  records: readonly PreparedRecord[],
): Promise<readonly string[]> {
  // Only the key is known of what is not parsed.
  const asked = records.map(({ keyText, values, hash }) => {
    return { keyText, hash, values: values.map((value, index) => (index < 2 ? value : null)) };
  });
  const found = await sink.stored.find(lease, members, asked);
  expect(found).toHaveLength(records.length);
  return records.flatMap(({ keyText }, index) =>
    found[index]?.isSame === true ? [(JSON.parse(keyText) as readonly string[])[1] ?? ''] : [],
  );
}

interface Stored {
  readonly sink: Sink;
  readonly lease: Lease;
}

async function store(sink: Sink, lease: Lease, record: PreparedRecord, run = 'r2'): Promise<void> {
  const started: Started = { lease, run: run as Started['run'] };
  const { id } = await onlyPartition(sink, lease);
  await sink.commit(lease, [page(started, id, [record])]);
}

export function sameBytes(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  everywhere('remembers from which bytes rows were stored', async () => {
    const { sink, lease } = await bench().hold();
    const all = [came('1', 'a'), came('2', 'a', 'Bea'), came('3', 'a')];
    await walk(bench(), { sink, lease }, 'r1', [...all, unknown('4')]);
    expect(await sameIds(sink, lease, all), 'also of an entity that was empty').toEqual(['1', '2', '3']);
    await sink.startRun(lease, bench().plan('r2'));
    expect(await sameIds(sink, lease, all)).toEqual(['1', '2', '3']);
    const { hash } = came('1', 'a');
    const others = [
      came('1', 'b'),
      came('4', 'a'),
      unknown('4'),
      came('5', 'a'),
      { ...came('3', 'a'), hash },
    ];
    expect(await sameIds(sink, lease, [...others, ...all.slice(2)])).toEqual(['3']);
    expect(await sink.stored.find(lease, members, [])).toEqual([]);
  });

  it.each([
    [
      'was written from other bytes',
      async ({ sink, lease }: Stored) => await store(sink, lease, came('1', 'b', 'Bea')),
    ],
    [
      'was written from unknown bytes',
      async ({ sink, lease }: Stored) => await store(sink, lease, unknown('1', 'Bea')),
    ],
    [
      'has other volatile fields',
      async ({ sink, lease }: Stored) => {
        bench().clock.advance(2 * dayMs);
        await store(sink, lease, withVolatile('name', came('1', 'b', 'Bea')));
      },
    ],
    [
      'was deleted',
      async ({ sink, lease }: Stored) =>
        void (await sink.repair.tombstoneRecord(lease, 'r2' as Started['run'], members, member('1').keyText)),
    ],
    [
      'has another hash, whatever wrote it',
      async () =>
        void (await bench().ledger(`UPDATE news__members SET _hash = '${'0'.repeat(32)}' WHERE id = '1'`)),
    ],
  ])('does not take a row for the same that %s', async (_why, change) => {
    const sink = await bench().open();
    const first = await sink.acquire(identity());
    await walk(bench(), { sink, lease: first }, 'r1', [came('1', 'a')]);
    await sink.startRun(first, bench().plan('r2'));
    expect(await sameIds(sink, first, [came('1', 'a')])).toEqual(['1']);
    await change({ sink, lease: first });
    await first[Symbol.asyncDispose]();
    const lease = await sink.acquire(identity());
    await sink.startRun(lease, bench().plan('r3'));
    expect(await sameIds(sink, lease, [came('1', 'a')])).toEqual([]);
  });

  it('notes the bytes of rows that it meets as they are, and writes no row for it', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [unknown('1'), came('2', 'a'), unknown('3')]);
    const before = await stateOf(bench());
    bench().clock.advance(hourMs);
    const volatile = withVolatile('name', came('2', 'b', 'Bea'));
    expect(await walk(bench(), { sink, lease }, 'r2', [came('1', 'a'), volatile, unknown('3')])).toEqual(
      counts({ fetched: 3, unchanged: 3 }),
    );
    expect(await stateOf(bench())).toEqual(before);
    await sink.startRun(lease, bench().plan('r3'));
    const asked = [came('1', 'a'), came('2', 'a'), volatile, came('3', 'a')];
    expect(await sameIds(sink, lease, asked), 'other volatile fields are not noted').toEqual(['1', '2']);
  });

  it('replaces the bytes of a row of the same content once a day', async () => {
    const { sink, lease } = await bench().hold();
    const after = async (run: string, ms: number, bytes: string): Promise<boolean> => {
      bench().clock.advance(ms);
      const one = came('1', bytes);
      expect(await walk(bench(), { sink, lease }, run, [one])).toMatchObject({ updated: 0 });
      return (await sameIds(sink, lease, [one])).length > 0;
    };
    expect(await after('r1', 0, 'a')).toBe(true);
    expect(await after('r2', hourMs, 'b'), 'on the day of its last write').toBe(false);
    expect(await after('r3', 13 * hourMs, 'c'), 'after midnight').toBe(true);
    expect(await after('r4', hourMs, 'd'), 'on the day of the last bytes').toBe(false);
    expect(await after('r5', dayMs, 'e')).toBe(true);
    expect(await bench().rows()).toMatchObject([{ _seq: 1, _run_id: 'r1' }]);
  });

  it.each([
    ['the same values, then others', [came('1', 'b'), came('1', 'c', 'Bea')], 'c'],
    ['other values, then those of before', [came('1', 'b', 'Bea'), came('1', 'c')], 'c'],
    ['other values, then the same in other bytes', [came('1', 'b', 'Bea'), came('1', 'c', 'Bea')], 'b'],
    ['values of unknown bytes, then of known ones', [unknown('1', 'Bea'), came('1', 'b', 'Bea')], 'b'],
  ])(
    'marks a row that a page shows twice with the bytes of what it holds: %s',
    async (_what, both, bytes) => {
      const { sink, lease } = await bench().hold();
      await walk(bench(), { sink, lease }, 'r1', [came('1', 'a')]);
      bench().clock.advance(dayMs);
      await walk(bench(), { sink, lease }, 'r2', both);
      expect(await bench().rows()).toMatchObject([{ name: both[1]?.values[2] }]);
      const known = ['a', 'b', 'c'].map((one) => came('1', one));
      expect(await Promise.all(known.map(async (one) => await sameIds(sink, lease, [one])))).toEqual(
        ['a', 'b', 'c'].map((one) => (one === bytes ? ['1'] : [])),
      );
    },
  );

  everywhere('remembers nothing of a commit that was rolled back', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), { sink, lease }, 'r1', [unknown('1'), came('2', 'a')]);
    const { commit } = await bench().walking('r2', {}, { sink, lease });
    const other = { ...member('3'), whole: () => member('4') };
    const both = [came('1', 'a'), came('2', 'a')];
    await expect(commit([came('1', 'a'), came('2', 'b', 'Bea'), other])).rejects.toMatchObject({
      code: 'INTERNAL',
    });
    expect(await sameIds(sink, lease, both)).toEqual(['2']);
    await commit([came('1', 'a')]);
    expect(await sameIds(sink, lease, both)).toEqual(['1', '2']);
  });

  everywhere('has one secret key for each connector, and another one in every sink', async () => {
    const { sink, lease } = await bench().hold();
    const { rawKey } = await sink.startRun(lease, bench().plan('r1'));
    expect(rawKey).toMatch(/^[0-9a-f]{64}$/);
    expect(await sink.history.rawKey(news)).toBe(rawKey);
    await lease[Symbol.asyncDispose]();
    const again = await sink.acquire(identity());
    expect(await sink.startRun(again, bench().plan('r2'))).toMatchObject({ rawKey });
    const other = await sink.acquire(identity({ connector: 'other' as typeof news }));
    expect((await sink.startRun(other, bench().plan('r3'))).rawKey).not.toBe(rawKey);
  });

  const scope = resetScope({ entity: members, tables: [membersTable], withData: false });
  it.each([
    ['a reset', async (sink: Sink): Promise<unknown> => await sink.repair.reset(news, scope)],
    ['another address', async (sink: Sink) => await sink.repair.adopt(identity(), instant(start))],
  ])('takes no row for the same after %s: the connector has another key', async (_what, change) => {
    await bench().read('r1', [came('1', 'a')]);
    await using sink = await bench().open();
    const before = await sink.history.rawKey(news);
    await change(sink);
    expect(await sink.history.rawKey(news)).toMatch(/^[0-9a-f]{64}$/);
    expect(await sink.history.rawKey(news)).not.toBe(before);
  });
}

/** What must stay where only bytes are noted: rows with their numbers and times, counts of rows. */
async function stateOf(bench: Bench): Promise<unknown> {
  return [
    await bench.rows(),
    await bench.ledger('SELECT entity, rows, deleted, last_row FROM _sync_tables ORDER BY entity'),
  ];
}
