import { expect, it } from 'vitest';
import {
  entityReport,
  identity,
  member,
  members,
  membersTable,
  onlyPartition,
  page,
  record,
  report,
  sealed,
  type SinkKind,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

export function storedKeys(kind: SinkKind): void {
  const bench = useBench(kind);
  const ids = Array.from({ length: 50 }, (_, index) => String(index + 1).padStart(2, '0'));

  // Proves promise 4.1
  it('reports how many rows are stored, which records have one, and some that are spread over all', async () => {
    const sink = await bench().open();
    const first = await bench().begin(sink, 'r1');
    expect(await sink.stored.account(first.lease, members)).toEqual({ live: 0, isAdopted: false });
    const { id } = await onlyPartition(sink, first.lease);
    await sink.commit(first.lease, [
      page(
        first,
        id,
        ids.map((one) => member(one)),
        { seal: sealed },
      ),
    ]);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, member('01').keyText);
    expect(await sink.stored.spread(first.lease, members, 5), 'no sync has ended well').toEqual([]);
    bench().clock.advance(1000);
    await sink.finish(
      first.lease,
      first.run,
      report(first, {
        finishedAt: new Date(bench().clock.now()).toISOString(),
        entities: [entityReport(members, { fetched: 50, inserted: 50 })],
      }),
    );
    await first.lease[Symbol.asyncDispose]();

    bench().clock.advance(1000);
    const second = await bench().begin(sink, 'r2');
    const { id: again } = await onlyPartition(sink, second.lease);
    await sink.commit(second.lease, [page(second, again, [member('99')])]);
    const { stored } = sink;
    expect(await stored.account(second.lease, members)).toEqual({ live: 50, isAdopted: false });
    expect(
      await stored.known(
        second.lease,
        members,
        ['01', '07', '99', '70'].map((one) => member(one)),
      ),
    ).toBe(2);
    expect(
      await stored.known(second.lease, members, [record(membersTable, { list_id: 'b', id: '07' })]),
    ).toBe(0);
    const spread = await stored.spread(second.lease, members, 5);
    expect(spread.map(({ keyText }) => JSON.parse(keyText) as unknown)).toEqual(
      ['02', '11', '21', '31', '41'].map((one) => ['a', one]),
    );
    expect(spread[0]).toMatchObject({ params: {}, inject: {} });
    await second.lease[Symbol.asyncDispose]();
    await sink.repair.adopt(
      { ...identity(), baseUrl: 'http://other' },
      new Date(bench().clock.now()).toISOString(),
    );
    const third = await sink.acquire(identity({ baseUrl: 'http://other' }));
    await sink.startRun(third, bench().plan('r3'));
    expect(await stored.account(third, members)).toMatchObject({ isAdopted: true });
  });
}
