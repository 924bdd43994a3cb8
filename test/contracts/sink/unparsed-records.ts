import { expect, it } from 'vitest';
import type { PreparedRecord } from '../../../src/core/records.ts';
import type { RawRecord } from '../../../src/sinks/stored-keys.ts';
import { counts, member, members, page, type SinkKind, type Started } from './fixture.ts';
import { came, store, walk, type Stored } from './same-bytes.ts';
import { useBench } from './use-bench.ts';

/** `member` as a record that was not parsed: it has its key and its hashes. Notes in `parsed` that it was. */
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

  it('parses a record that was not parsed where it is written after all, and only there', async () => {
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
  });

  it('refuses all pages where parsing gives a record of another key', async () => {
    const { sink, started, id } = await bench().walking();
    const other = { ...member('1'), whole: () => member('2') };
    await expect(
      sink.commit(started.lease, [page(started, id, [member('3')]), page(started, id, [other])]),
    ).rejects.toMatchObject({ code: 'INTERNAL' });
    expect(await bench().rows()).toEqual([]);
  });

  /** As the engine does: looks for the record's row, and leaves the record as it came where that is the same. */
  async function looked({ sink, lease }: Stored, record: PreparedRecord & RawRecord, parsed: string[]) {
    const [found] = await sink.stored.same(lease, members, [record]);
    if (typeof found !== 'object' || found === null) throw new Error('The row should be the same');
    const { raw } = record;
    return { ...unparsed('1', record.values[2] as string, parsed), ...found, raw };
  }

  it('does not look again for a row that it is sure of', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), sink, lease, 'r1', [came('1', 'a')]);
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
      'a later run began, whose first page has changed it',
      async ({ sink, lease }: Stored) => {
        await sink.startRun(lease, bench().plan('r3'));
        await store(sink, lease, came('1', 'b', 'Bea'), 'r3');
        return 'r3';
      },
    ],
  ])('looks again for a row once %s', async (_what, change) => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), sink, lease, 'r1', [came('1', 'a')]);
    await sink.startRun(lease, bench().plan('r2'));
    const parsed: string[] = [];
    const record = await looked({ sink, lease }, came('1', 'a'), parsed);
    const run = await change({ sink, lease });
    await store(sink, lease, record, run ?? 'r2');
    expect(parsed).toEqual(['1 Ada']);
    expect(await bench().rows()).toMatchObject([{ id: '1', name: 'Ada' }]);
  });

  it('looks again for a row that it found beside a commit', async () => {
    const { sink, lease } = await bench().hold();
    await walk(bench(), sink, lease, 'r1', [came('1', 'v0', 'v0')]);
    await sink.startRun(lease, bench().plan('r2'));
    for (let version = 1; version <= 20; version += 1) {
      const before = came('1', `v${version - 1}`, `v${version - 1}`);
      const [[found]] = await Promise.all([
        sink.stored.same(lease, members, [before]),
        store(sink, lease, came('1', `v${version}`, `v${version}`)),
      ]);
      // It comes once more as it was, from a page that is older.
      await store(
        sink,
        lease,
        typeof found === 'object' && found !== null
          ? { ...unparsed('1', `v${version - 1}`, []), ...found, raw: before.raw }
          : before,
      );
      expect(await bench().rows(), `version ${version}`).toMatchObject([
        { id: '1', name: `v${version - 1}` },
      ]);
      await store(sink, lease, came('1', `v${version}`, `v${version}`));
    }
  });
}
