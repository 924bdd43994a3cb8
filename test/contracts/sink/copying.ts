import { expect, it } from 'vitest';
import { storedState } from '../../support/histories/stored-state.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { beginAnother, copyNews, fillWithNews, stoppingSink } from '../../support/sinks/copying.ts';
import { identity, news, type SinkKind } from './fixture.ts';
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
      await expect(copyNews(from, stoppingSink(to, at, cut), source())).rejects.toBe(cut);
      await expect(to.acquire(identity())).rejects.toMatchObject({ code: 'COPY_UNFINISHED' });
      expect(await to.history.unfinishedCopy(news)).toMatchObject({ from: 'warehouse', to: 'pg' });
    }
    expect(await copyNews(from, to, source())).toMatchObject({ state: 'resumed', rows: 130 });
    expect(await storedState(target())).toEqual(before);
    expect(await storedState(source())).toEqual(before);
    await expect(copyNews(from, to, source())).resolves.toMatchObject({ state: 'done' });
  });

  it('holds nothing of a connector that it never had, and has nothing to discard', async () => {
    const sink = await source().open();
    await expect(sink.copies.openSource(news, holder)).rejects.toMatchObject({ code: 'USAGE' });
    expect(await sink.copies.discard(news, holder)).toBe(false);
    expect(await sink.history.unfinishedCopy(news)).toBeNull();
  });
}
