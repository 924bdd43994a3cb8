import { expect, it } from 'vitest';
import { storedState } from '../../support/histories/stored-state.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { beginAnother, copyNews, fillWithNews, stoppingSink } from '../../support/sinks/copying.ts';
import { dayMs, identity, member, members, membersTable, news, type SinkKind } from './fixture.ts';
import { useRuns } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

/** From a sink of the kind into another one of it: those of other kinds are in `test/sinks/copies/`. */
export function copying(kind: SinkKind): void {
  const source = useBench(kind);
  const target = useBench(kind);
  const { holder } = identity();

  it('copies a connector as it is, and resumes a copy that was broken off', async () => {
    await fillWithNews(source(), 130, seededRandom(1));
    await beginAnother(target());
    const [from, to] = [await source().open(), await target().open()];
    const before = await storedState(source());
    const cut = new Error('cut');
    for (const at of [3, 9]) {
      await expect(copyNews(from, stoppingSink(to, at, cut))).rejects.toBe(cut);
      await expect(to.acquire(identity())).rejects.toMatchObject({ code: 'COPY_UNFINISHED' });
      expect(await to.history.unfinishedCopy(news)).toMatchObject({ from: 'warehouse', to: 'pg' });
    }
    expect(await copyNews(from, to)).toMatchObject({ state: 'resumed', rows: 130 });
    expect(await storedState(target())).toEqual(before);
    expect(await storedState(source())).toEqual(before);
    await expect(copyNews(from, to)).resolves.toMatchObject({ state: 'done' });
  });

  it('copies the versions of rows, and resumes in the middle of them', async () => {
    const versions = new Set([members]);
    const { sweep, lease, sink } = await useRuns(source(), { tables: [membersTable], versions });
    for (const [run, name] of ['Ada', 'Grace', 'Hedy'].entries()) {
      const records = Array.from({ length: 60 }, (_, id) => member(String(id), name, { volatileHash: 'v' }));
      const hand = await sweep(`r${run}`, () => ({ records: run === 2 ? records.slice(1) : records }));
      await hand.tombstone([members]);
      await hand.finish();
      source().clock.advance(dayMs);
    }
    const unseen = Array.from({ length: 59 }, (_, id) =>
      member(String(id + 1), 'Hedy', { volatileHash: 'w' }),
    );
    await (await sweep('r3', () => ({ records: unseen }))).finish();
    await lease[Symbol.asyncDispose]();
    const of = async ({ ledger }: { ledger: (sql: string) => Promise<readonly unknown[]> }) =>
      await ledger('SELECT * FROM news__members__history ORDER BY _row, _seq');
    const expected = await of({ ledger: (sql) => source().ledger(sql) });
    expect(expected).toHaveLength(180);
    const to = await target().open();
    // The second time behind a batch of versions.
    for (const at of [3, 10]) {
      const cut = new Error('cut');
      await expect(copyNews(sink, stoppingSink(to, at, cut))).rejects.toBe(cut);
    }
    expect(await copyNews(sink, to)).toMatchObject({ state: 'resumed', rows: 60 });
    expect(await of({ ledger: (sql) => target().ledger(sql) })).toEqual(expected);
    expect(await target().count('_sync_versions')).toBe(1);
  });

  it('holds nothing of a connector that it never had, and has nothing to discard', async () => {
    const sink = await source().open();
    await expect(copyNews(sink, await target().open())).rejects.toMatchObject({ code: 'USAGE' });
    expect(await sink.copies.discard(news, holder)).toBe(false);
    expect(await sink.history.unfinishedCopy(news)).toBeNull();
  });
}
