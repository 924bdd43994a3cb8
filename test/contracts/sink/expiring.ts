import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { ExpireRequest, Retention } from '../../../src/sinks/purges.ts';
import { dayMs, lists, listsTable, news, record, rootOf, type SinkKind } from './fixture.ts';
import { useRuns, type Shown } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

const plan = { tables: [listsTable], entities: [lists], roots: [rootOf(lists)] };
const showing =
  (ids: readonly string[]) =>
  (_partition: Pick<Partition, 'entity'>): Shown => ({
    records: ids.map((id) => record(listsTable, { id })),
  });

export function expiring(kind: SinkKind): void {
  const bench = useBench(kind);
  const asked = (change: Partial<Retention> = {}): ExpireRequest => ({
    entities: [
      {
        entity: lists,
        deletedBefore: instant(bench().clock.now() - 90 * dayMs),
        publishedThrough: Number.MAX_SAFE_INTEGER,
        quarantinedBefore: instant(bench().clock.now() - 30 * dayMs),
        filesBefore: null,
        versionsBefore: null,
        withheld: 0,
        ...change,
      },
    ],
    isAsked: true,
    removeFile: () => Promise.resolve(),
    signal: AbortSignal.timeout(60_000),
  });
  const none = [{ entity: lists, rows: 0, quarantined: 0, files: 0, versions: 0 }];
  const ids = async (): Promise<readonly string[]> =>
    (await kind.readRows(bench().folder, news, listsTable)).map(({ id }) => JSON.stringify(id)).toSorted();

  /** Lists `b` and `c` were deleted in run r2. */
  async function deleted() {
    const runs = await useRuns(bench(), plan);
    await (await runs.sweep('r1', showing(['a', 'b', 'c']))).finish();
    const hand = await runs.sweep('r2', showing(['a']));
    await hand.tombstone([lists]);
    await hand.finish();
    await runs.lease[Symbol.asyncDispose]();
    return runs.sink;
  }

  // Proves promise 21.5
  it('removes deleted rows once they are old, and says from where on changes are complete', async () => {
    const sink = await deleted();
    expect(await sink.purges.expire(news, asked())).toEqual(none);
    bench().clock.advance(91 * dayMs);
    expect(await sink.purges.expired(news, asked())).toEqual([
      { ...none[0], rows: 2, of: { rows: 3, files: 0, versions: 3 } },
    ]);
    expect(await sink.purges.expire(news, asked())).toEqual([{ ...none[0], rows: 2 }]);
    expect(await ids()).toEqual(['"a"']);
    const [status] = await sink.history.connectors();
    expect(status?.entities).toMatchObject([{ entity: lists, rows: 1, deleted: 0 }]);
    // Three rows were stored, then two deletes.
    expect(await sink.history.completeAfter(news, lists)).toBe(5);
    expect(await sink.purges.expire(news, asked())).toEqual(none);
  });

  // Proves promise 21.5
  it('keeps a deleted row that some target has not published', async () => {
    const sink = await deleted();
    bench().clock.advance(91 * dayMs);
    expect(await sink.purges.expire(news, asked({ publishedThrough: 4 }))).toEqual([{ ...none[0], rows: 1 }]);
    expect(await sink.history.completeAfter(news, lists)).toBe(4);
    expect(await sink.purges.expire(news, asked({ publishedThrough: 0 }))).toEqual(none);
  });

  it('stores a record that returns later as a new row', async () => {
    const sink = await deleted();
    bench().clock.advance(91 * dayMs);
    await sink.purges.expire(news, asked());
    const { sweep } = await useRuns(bench(), plan);
    const hand = await sweep('r3', showing(['a', 'b']));
    await hand.finish();
    expect(await ids()).toEqual(['"a"', '"b"']);
    expect(
      await bench().ledger(`SELECT inserted, updated, unchanged FROM _sync_counts WHERE run = 'r3'`),
    ).toEqual([{ inserted: 1, updated: 0, unchanged: 1 }]);
  });

  it('looks once a day by itself', async () => {
    const sink = await deleted();
    const itself = { ...asked(), isAsked: false };
    await sink.purges.expire(news, asked());
    expect(await sink.purges.expired(news, itself)).toEqual([]);
    bench().clock.advance(2 * dayMs);
    expect(await sink.purges.expired(news, itself)).toMatchObject(none);
  });

  it('shows what a guard keeps until a check keeps nothing', async () => {
    const sink = await deleted();
    const kept = async () => (await sink.history.overview())[0]?.withheldByAge;
    expect(await kept()).toEqual([]);
    await sink.purges.expire(news, asked({ withheld: 2 }));
    expect(await kept()).toEqual([{ entity: lists, withheld: 2 }]);
    await sink.purges.expire(news, asked());
    expect(await kept()).toEqual([]);
  });
}
