import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { PreparedRecord, PageCounts } from '../../../src/core/records.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RawRecord } from '../../../src/sinks/stored-keys.ts';
import {
  counts,
  dayMs,
  hourMs,
  identity,
  member,
  members,
  membersTable,
  news,
  onlyPartition,
  page,
  sealed,
  type Bench,
  type SinkKind,
  type Started,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

/** `member` as it came in these bytes. */
export function came(
  id: string,
  bytes: string,
  name = 'Ada',
  change: Partial<PreparedRecord> = {},
): PreparedRecord & RawRecord {
  const raw = createHash('md5').update(`${id} ${bytes}`).digest('binary');
  return { ...member(id, name, change), raw };
}

/** One run that reads these records. */
export async function walk(
  bench: Bench,
  sink: Sink,
  lease: Lease,
  run: string,
  records: readonly PreparedRecord[],
): Promise<PageCounts | undefined> {
  const started: Started = { lease, run: run as Started['run'] };
  await sink.startRun(lease, bench.plan(run));
  const { id } = await onlyPartition(sink, lease);
  const [committed] = await sink.commit(lease, [page(started, id, records, { seal: sealed })]);
  return committed?.counts[0]?.counts;
}

/** Of which of these records the rows are stored from the same bytes. */
async function sameIds(
  sink: Sink,
  lease: Lease,
  records: readonly (PreparedRecord & RawRecord)[],
): Promise<readonly string[]> {
  // Only the key is known of what is not parsed.
  const asked = records.map(({ keyText, values, raw }): RawRecord => {
    return { keyText, raw, values: values.map((value, index) => (index < 2 ? value : null)) };
  });
  const same = await sink.stored.same(lease, members, asked);
  expect(same).toHaveLength(records.length);
  return records.flatMap(({ keyText, hash, volatileHash }, index) => {
    const found = same[index];
    if (found === null || found === undefined || found === 'other') return [];
    expect(found).toMatchObject({ hash, volatileHash });
    return [(JSON.parse(keyText) as readonly string[])[1] ?? ''];
  });
}

export interface Stored {
  readonly sink: Sink;
  readonly lease: Lease;
}

export async function store(sink: Sink, lease: Lease, record: PreparedRecord, run = 'r2'): Promise<void> {
  const started: Started = { lease, run: run as Started['run'] };
  const { id } = await onlyPartition(sink, lease);
  await sink.commit(lease, [page(started, id, [record])]);
}

export function sameBytes(kind: SinkKind): void {
  const bench = useBench(kind);

  it('remembers from which bytes rows were stored', async () => {
    const { sink, lease } = await bench().hold();
    const volatileHash = 'f'.repeat(32);
    const all = [came('1', 'a'), came('2', 'a', 'Bea', { volatileHash }), came('3', 'a')];
    await walk(bench(), sink, lease, 'r1', [...all, member('4')]);
    expect(await sameIds(sink, lease, all), 'nothing was stored before this run').toEqual([]);
    await sink.startRun(lease, bench().plan('r2'));
    expect(await sameIds(sink, lease, all)).toEqual(['1', '2', '3']);
    const [first] = all;
    const others = [
      came('1', 'b'),
      came('4', 'a'),
      came('5', 'a'),
      { ...came('3', 'a'), raw: first?.raw ?? '' },
    ];
    expect(await sameIds(sink, lease, [...others, ...all.slice(2)])).toEqual(['3']);
    expect(await sink.stored.same(lease, members, [])).toEqual([]);
  });

  it('remembers rows of many blocks, each met on its own', async () => {
    const { sink, lease } = await bench().hold();
    const all = Array.from({ length: 1_000 }, (_, index) => came(String(index), 'a'));
    await walk(bench(), sink, lease, 'r1', all);
    const some = all.filter((_, index) => index % 99 === 0);
    await walk(
      bench(),
      sink,
      lease,
      'r2',
      some.map((_, index) => came(String(index * 99), 'b', 'Bea')),
    );
    await sink.startRun(lease, bench().plan('r3'));
    expect(await sameIds(sink, lease, all)).toHaveLength(all.length - some.length);
    expect(
      await sameIds(
        sink,
        lease,
        some.map((_, index) => came(String(index * 99), 'b', 'Bea')),
      ),
    ).toHaveLength(some.length);
    expect(await bench().count('_sync_raw')).toBe(8);
  });

  it.each([
    [
      'was written from other bytes',
      async ({ sink, lease }: Stored) => await store(sink, lease, came('1', 'b', 'Bea')),
    ],
    [
      'was written from unknown bytes',
      async ({ sink, lease }: Stored) => await store(sink, lease, member('1', 'Bea')),
    ],
    [
      'was written from unknown bytes, with the same content',
      async ({ sink, lease }: Stored) =>
        void (await sink.repair.storeRecord(lease, 'r2' as Started['run'], members, member('1'), true)),
    ],
    [
      'has other volatile fields',
      async ({ sink, lease }: Stored) => {
        bench().clock.advance(2 * dayMs);
        await store(sink, lease, member('1', 'Ada', { volatileHash: 'f'.repeat(32) }));
      },
    ],
    [
      'has other volatile fields, whatever wrote them',
      async () =>
        void (await bench().ledger(
          `UPDATE news__members SET _volatile_hash = '${'f'.repeat(32)}' WHERE id = '1'`,
        )),
    ],
    [
      'was deleted',
      async ({ sink, lease }: Stored) =>
        void (await sink.repair.tombstoneRecord(lease, 'r2' as Started['run'], members, member('1').keyText)),
    ],
    [
      'was lost',
      async () => void (await bench().ledger(`UPDATE news__members SET _hash = '' WHERE id = '1'`)),
    ],
    [
      'has another content, whatever wrote it',
      async () =>
        void (await bench().ledger(`UPDATE news__members SET _hash = '${'0'.repeat(32)}' WHERE id = '1'`)),
    ],
    [
      'is read again after a reset',
      async ({ sink, lease }: Stored) => {
        await lease[Symbol.asyncDispose]();
        await sink.repair.reset(news, {
          entity: members,
          tables: [membersTable],
          withData: false,
          now: instant(bench().clock.now()),
        });
      },
    ],
    [
      'comes from another address',
      async ({ sink, lease }: Stored) => {
        await lease[Symbol.asyncDispose]();
        await sink.repair.adopt(identity(), instant(bench().clock.now()));
      },
    ],
  ])('does not take a row for the same that %s', async (_why, change) => {
    const sink = await bench().open();
    const first = await sink.acquire(identity());
    await walk(bench(), sink, first, 'r1', [came('1', 'a')]);
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
    const withVolatile = { volatileHash: 'f'.repeat(32) };
    await walk(bench(), sink, lease, 'r1', [member('1'), came('2', 'a'), member('3')]);
    const before = await stateOf(bench());
    bench().clock.advance(hourMs);
    const met = [came('1', 'a'), came('2', 'b', 'Ada', withVolatile), member('3'), came('1', 'a')];
    expect(await walk(bench(), sink, lease, 'r2', met)).toEqual(
      counts({ fetched: 4, unchanged: 3, duplicate: 1 }),
    );
    expect(await stateOf(bench())).toEqual(before);
    await sink.startRun(lease, bench().plan('r3'));
    const asked = [came('1', 'a'), came('2', 'a'), came('2', 'b', 'Ada', withVolatile), came('3', 'a')];
    expect(await sameIds(sink, lease, asked), 'other volatile fields are not noted').toEqual(['1', '2']);
  });

  it('replaces the bytes of rows of the same content once a day, all of them in one run', async () => {
    const { sink, lease } = await bench().hold();
    const sameIn = async (run: string, bytes: string): Promise<readonly string[]> => {
      await sink.startRun(lease, bench().plan(run));
      return await sameIds(sink, lease, [came('1', bytes), came('2', bytes)]);
    };
    const both = (bytes: string) => [came('1', bytes), came('2', bytes)];
    await walk(bench(), sink, lease, 'r1', both('a'));
    bench().clock.advance(hourMs);
    await sink.startRun(lease, bench().plan('r2'));
    await store(sink, lease, came('1', 'b'));
    await store(sink, lease, came('2', 'b'));
    expect(await sameIds(sink, lease, both('b')), 'the first time').toEqual(['1', '2']);
    await sink.commit(lease, [
      page({ lease, run: 'r2' as Started['run'] }, (await onlyPartition(sink, lease)).id, [], {
        seal: sealed,
      }),
    ]);
    bench().clock.advance(dayMs - 1);
    await walk(bench(), sink, lease, 'r3', both('c'));
    expect(await sameIn('r4', 'b'), 'less than a day later').toEqual(['1', '2']);
    bench().clock.advance(1);
    await walk(bench(), sink, lease, 'r5', both('d'));
    expect(await sameIn('r6', 'd'), 'a day later').toEqual(['1', '2']);
  });

  it('remembers nothing of a commit that was rolled back', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), sink, lease, 'r1', [member('1'), came('2', 'a')]);
    await sink.startRun(lease, bench().plan('r2'));
    const { id } = await onlyPartition(sink, lease);
    const started: Started = { lease, run: 'r2' as Started['run'] };
    const other = { ...member('3'), whole: () => member('4') };
    const commit = async (records: readonly PreparedRecord[]): Promise<unknown> =>
      await sink.commit(lease, [page(started, id, records)]);
    const both = [came('1', 'a'), came('2', 'a')];
    await expect(commit([came('1', 'a'), came('2', 'b', 'Bea'), other])).rejects.toMatchObject({
      code: 'INTERNAL',
    });
    expect(await sameIds(sink, lease, both)).toEqual(['2']);
    await commit([came('1', 'a')]);
    expect(await sameIds(sink, lease, both)).toEqual(['1', '2']);
  });

  it('has one secret key for each connector, and another one in every sink', async () => {
    const { sink, lease } = await bench().hold();
    const { rawKey } = await sink.startRun(lease, bench().plan('r1'));
    expect(rawKey).toMatch(/^[0-9a-f]{64}$/);
    await lease[Symbol.asyncDispose]();
    const again = await sink.acquire(identity());
    expect(await sink.startRun(again, bench().plan('r2'))).toMatchObject({ rawKey });
    const other = await sink.acquire(identity({ connector: 'other' as typeof news }));
    expect((await sink.startRun(other, bench().plan('r3'))).rawKey).not.toBe(rawKey);
  });
}

/** What must stay where only bytes are noted: rows with their numbers and times, counts of rows. */
async function stateOf(bench: Bench): Promise<unknown> {
  return [
    await bench.rows(),
    await bench.ledger('SELECT entity, rows, deleted, last_row FROM _sync_tables ORDER BY entity'),
  ];
}
