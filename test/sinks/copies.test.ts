import { describe, expect, it, afterEach } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import type { Partition } from '../../src/sinks/partition.ts';
import { sqliteKind } from '../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../contracts/postgres-sink-kind.ts';
import {
  Bench,
  hourMs,
  identity,
  member,
  members,
  membersTable,
  news,
  partition,
  dayMs,
  report,
  resetScope,
  purgeRequest,
  expireRequest,
  start,
  type Started,
  type SinkKind,
} from '../contracts/sink/fixture.ts';
import { benchOfTest } from '../contracts/sink/use-bench.ts';
import { RunInHand, param, useRuns } from '../contracts/sink/run-in-hand.ts';
import { History, storedState, tables } from '../support/histories/history.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  beginAnother,
  copyNews,
  copyWays,
  fillWithNews,
  stoppingSink,
  tableIds,
} from '../support/sinks/copying.ts';
import { missingRows } from '../support/missing-rows.ts';
import { isLong, repeats, startSeed } from '../support/trials.ts';

const postgres = await postgresSinkKind();

describe.each(copyWays(postgres))('a copy %s', (_way, ofSource, ofTarget) => {
  // Proves promise 1.3
  it('resumes wherever it was broken off, is used for nothing before it is complete, and leaves the source as it was', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 230, seededRandom(7));
    await beginAnother(to);
    const [source, target] = [await from.open(), await to.open()];
    const before = await storedState(from);
    const cut = new Error('cut');
    let attempts = 0;
    // The first transaction begins it. Each attempt copies the sync state again, so most runs look at every fifth step.
    for (let at = 2; ; at += at < 9 || isLong ? 1 : 5) {
      const end = await copyNews(source, stoppingSink(target, at, cut)).catch((error: unknown) => error);
      attempts = at;
      if (end !== cut) {
        expect(end).toMatchObject({ state: 'resumed', rows: 230, entities: 2, isPaused: true });
        break;
      }
      const unfinished = await target.history.unfinishedCopy(news);
      if (unfinished === null) break;
      expect(unfinished).toMatchObject({ connector: news, from: 'warehouse', to: 'pg' });
      const refused = { code: 'COPY_UNFINISHED', recovery: 'stop' };
      await expect(target.acquire(identity())).rejects.toMatchObject(refused);
      await expect(copyNews(target, source)).rejects.toMatchObject(refused);
      await expect(target.repair.reset(news, resetScope())).rejects.toMatchObject(refused);
      expect((await target.history.connectors()).map(({ connector }) => connector)).toEqual(['another']);
    }
    expect(attempts).toBeGreaterThan(10);
    expect(await storedState(from)).toEqual(before);
    expect(await storedState(to)).toEqual(before);
    expect(await tableIds(to)).toEqual(await tableIds(from));
    expect(await target.history.pause(news)).toEqual(await source.history.pause(news));
    expect(await copyNews(source, target)).toMatchObject({ state: 'done', rows: 230 });
  });

  // Proves promise 1.3
  it('continues with change numbers above all that the source has given, and resumes the run that was killed there', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 20, seededRandom(8));
    const [source, target] = [await from.open(), await to.open()];
    const { newestSeq } = await copyNews(source, target);
    to.clock.advance(1_000);
    const { begun, commit } = await to.walking('r3', { isFull: true }, { sink: target });
    expect(begun.continues).toBe('r2');
    await commit([member('added')]);
    const [newest] = await to.ledger('SELECT id, _seq FROM news__members ORDER BY _seq DESC LIMIT 1');
    expect(newest).toMatchObject({ id: 'added' });
    expect(Number(newest?.['_seq'])).toBeGreaterThan(newestSeq);
    expect(newestSeq).toBeGreaterThanOrEqual(20);
  });

  // Proves promise 1.3
  it('finishes the sweep of a killed run with the rows that the run met, and with those that it met in their owner', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await beginAnother(to);
    const [source, target] = [await from.open(), await to.open()];
    const roots = ['one', 'two'].map((variant) => partition(members, { variant }));
    const shows =
      (first: readonly string[], second: readonly string[]) => (walked: Pick<Partition, 'params'>) => ({
        records: (param(walked, 'variant') === 'two' ? second : first).map((id) => member(id)),
      });
    const lease = await source.acquire(identity());
    const whole = await RunInHand.begin(from, { sink: source, lease }, 'r1', { roots });
    // The second row lives in partition one, and is shown by both.
    await whole.walk(shows(['1', '2', '3'], ['2', '4']));
    await whole.sweep();
    await whole.finish();
    const killed = await RunInHand.begin(from, { sink: source, lease }, 'r2', { roots });
    await killed.walk(shows(['1', '2'], ['2']));
    await lease[Symbol.asyncDispose]();
    await copyNews(source, target);
    await source.copies.reopen(news, identity().holder);
    to.clock.advance(from.clock.now() - to.clock.now());
    for (const [bench, sink] of [
      [from, source],
      [to, target],
    ] as const) {
      await using held = await sink.acquire(identity());
      const resumed = await RunInHand.begin(bench, { sink, lease: held }, 'r3', { roots });
      await resumed.sweep();
      const keys = ['1', '2', '3', '4'].map((id) => JSON.stringify(['a', id]));
      const missing = await missingRows(sink.history, news, membersTable, keys);
      expect(missing.map(({ keyText }) => keyText)).toEqual(['["a","3"]', '["a","4"]']);
      const owners = await bench.ledger(`SELECT member.id, owner.params FROM news__members AS member
        JOIN _sync_partitions AS owner ON owner.id = member._partition WHERE member.id = '2'`);
      expect(owners).toEqual([{ id: '2', params: '{"variant":"one"}' }]);
    }
    expect(await storedState(to)).toEqual(await storedState(from));
  });

  it('starts from the beginning where the source was synced since it was broken off', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 120, seededRandom(9));
    const [source, target] = [await from.open(), await to.open()];
    const cut = new Error('cut');
    await expect(copyNews(source, stoppingSink(target, 3, cut))).rejects.toBe(cut);
    from.clock.advance(hourMs);
    const { commit, release } = await from.walking('r3', { isFull: true }, { sink: source });
    await commit([member('later')]);
    await release();
    expect(await copyNews(source, target)).toMatchObject({ state: 'begun', rows: 121 });
    expect(await storedState(to)).toEqual(await storedState(from));
  });

  // Proves promise 1.3
  it('is refused while a run has the connector in either sink, and keeps runs out of both', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 5, seededRandom(10));
    const [source, target] = [await from.open(), await to.open()];
    const busy = { code: 'CONNECTOR_BUSY' };
    for (const sink of [source, target]) {
      const lease = await sink.acquire(identity());
      await expect(copyNews(source, target)).rejects.toMatchObject(busy);
      await lease[Symbol.asyncDispose]();
    }
    // As a sync would have it that was to begin in an empty sink.
    await target.repair.reset(news, resetScope());
    const others = [await from.open(), await to.open()];
    const holder = { ...identity().holder, command: 'connector-sync copy news' };
    let steps = 0;
    await copyNews(source, target, async () => {
      steps += 1;
      if (steps > 1) return;
      for (const other of others) {
        await expect(other.acquire(identity())).rejects.toMatchObject({ ...busy, holder });
      }
    });
    expect(steps).toBeGreaterThan(1);
  });

  it('is not finished where the target does not hold what was read, and where the source was lost meanwhile', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 5, seededRandom(16));
    const [source, target] = [await from.open(), await to.open()];
    const edit = async (): Promise<void> =>
      void (await to.ledger("UPDATE news__members SET name = 'edited' WHERE _row = 3"));
    await expect(
      copyNews(source, target, async ({ rows }) => {
        if (rows === 5) await edit();
      }),
    ).rejects.toMatchObject({
      code: 'SINK_FAILED',
      message: expect.stringMatching(
        /^Table news__members of sink pg holds 5 rows with digest .*; 5 rows with digest .* were copied/,
      ) as string,
    });
    await expect(
      copyNews(source, target, async ({ entity }) => {
        if (entity === null) await from.overtake();
      }),
    ).rejects.toMatchObject({ code: 'FENCED' });
    expect(await target.history.unfinishedCopy(news)).toMatchObject({ from: 'warehouse', to: 'pg' });
  });

  // Proves promise 1.3
  it('keeps runs out of the source until it is reopened, and gives a copy of it all the same', async () => {
    const [from, to, third] = [benchOfTest(ofSource), benchOfTest(ofTarget), benchOfTest(ofTarget)];
    await fillWithNews(from, 5, seededRandom(15));
    const [source, target] = [await from.open(), await to.open()];
    const { holder } = identity();
    expect(await source.copies.reopen(news, holder)).toBe(false);
    await copyNews(source, target);
    const refused = { code: 'COPIED_AWAY', recovery: 'stop' };
    await expect(source.acquire(identity())).rejects.toMatchObject(refused);
    const { away } = await source.history.copies();
    expect([...away.values()]).toMatchObject([{ connector: news, from: 'warehouse', to: 'pg' }]);
    expect(await copyNews(source, target)).toMatchObject({ state: 'done' });
    expect(await copyNews(source, await third.open())).toMatchObject({ state: 'begun' });
    expect(await target.history.copies()).toEqual({ unfinished: new Map(), away: new Map() });
    await (await target.acquire(identity()))[Symbol.asyncDispose]();
    expect(await source.copies.reopen(news, holder)).toBe(true);
    await (await source.acquire(identity()))[Symbol.asyncDispose]();
  });

  it('is refused where the target holds the connector, and changes nothing there', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 5, seededRandom(11));
    await fillWithNews(to, 7, seededRandom(12));
    const [source, target] = [await from.open(), await to.open()];
    const before = await storedState(to);
    await expect(copyNews(source, target)).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining('Sink pg holds connector "news" already') as string,
    });
    expect(await storedState(to)).toEqual(before);
  });

  it('leaves nothing of an unfinished copy that is discarded, and no finished one is', async () => {
    const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
    await fillWithNews(from, 120, seededRandom(13));
    await beginAnother(to);
    const [source, target] = [await from.open(), await to.open()];
    const before = await to.kind.contents(to.folder, []);
    const { holder } = identity();
    expect(await target.copies.discard(news, holder)).toBe(false);
    for (const at of [2, 6, 14]) {
      await expect(copyNews(source, stoppingSink(target, at, new Error('cut')))).rejects.toThrow('cut');
      expect(await target.copies.discard(news, holder)).toBe(true);
      expect(withoutSequences(await to.kind.contents(to.folder, []))).toEqual(withoutSequences(before));
    }
    await copyNews(source, target);
    expect(await target.copies.discard(news, holder)).toBe(false);
    expect(await storedState(to)).toEqual(await storedState(from));
  });
});

/**
 * Without numbers that are given once and passed over where they are not used, and what a discarded copy notes: that it
 * was, and that it has written.
 */
function withoutSequences(contents: readonly string[]): readonly string[] {
  return contents.filter((text) => !/^(sqlite_sequence|_sync_actions: |_sync_commits: )/.test(text));
}

const cut = new Error('cut');

describe.each(copyWays(await postgresSinkKind()))(
  'a copy %s that was broken off',
  (_way, ofSource, ofTarget) => {
    // Proves promise 1.3
    it('leaves nothing of the sync state that the source has forgotten since, and has what it got', async () => {
      const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
      await fillWithNews(from, 20, seededRandom(17));
      const [source, target] = [await from.open(), await to.open()];
      const whenConditionsAreCopied = async (): Promise<void> => {
        if ((await to.count('_sync_conditions')) !== 0) throw cut;
      };
      await expect(copyNews(source, target, whenConditionsAreCopied)).rejects.toBe(cut);
      expect(await to.count('_sync_quarantine')).toBe(1);
      const all = [{ entity: members, keyTexts: [], isRefusedMeant: () => true }];
      await source.purges.purge(news, purgeRequest(all));
      const failed = { run: 'r3' } as unknown as Started;
      await source.enterFailedStart(report(failed, { outcome: 'failed' }));
      // Its runs take the numbers behind those that the copy has reserved.
      await beginAnother(to);
      expect(await copyNews(source, target)).toMatchObject({ state: 'resumed', rows: 20 });
      expect(await storedState(to)).toEqual(await storedState(from));
      expect(await to.count('_sync_quarantine')).toBe(0);
      expect(await to.count('_sync_purged')).toBe(1);
      const [numbers] = await to.ledger(
        'SELECT count(*) AS runs, count(DISTINCT number) AS n FROM _sync_runs',
      );
      expect(numbers).toEqual({ runs: 6, n: 6 });
    });

    it('resumes within versions, and starts from the beginning where some have expired since', async () => {
      const [from, to] = [benchOfTest(ofSource), benchOfTest(ofTarget)];
      const kept = { tables: [membersTable], versions: new Set([members]) };
      const { sink: source, lease, sweep } = await useRuns(from, kept);
      for (const [run, name] of ['Ada', 'Grace', 'Hedy'].entries()) {
        await (await sweep(`r${run}`, () => ({ records: [member('1', name)] }))).finish();
        from.clock.advance(dayMs);
      }
      await lease[Symbol.asyncDispose]();
      const target = await to.open();
      const whenVersionsAreCopied = async (): Promise<void> => {
        if ((await to.count('news__members__versions')) !== 0) throw cut;
      };
      await expect(copyNews(source, target, whenVersionsAreCopied)).rejects.toBe(cut);
      const whenRunsAreCopied = async (): Promise<void> => {
        if ((await to.count('_sync_runs')) !== 0) throw cut;
      };
      await expect(copyNews(source, target, whenRunsAreCopied)).rejects.toBe(cut);
      const old = expireRequest(members, { versionsBefore: instant(start + 1.5 * dayMs) });
      await source.purges.expire(news, old);
      expect(await copyNews(source, target)).toMatchObject({ state: 'begun' });
      for (const bench of [from, to]) {
        expect(await bench.ledger('SELECT name FROM news__members__versions')).toEqual([{ name: 'Grace' }]);
      }
    });
  },
);

const histories = repeats('TRIALS', { share: 1, full: 300 });
const seed = startSeed(1);

describe('a copied connector', () => {
  const open: Bench[] = [];
  afterEach(async () => {
    for (const bench of open.splice(0)) await bench.close();
  });

  const copy = async (from: Bench, to: Bench): Promise<void> => {
    const source = await from.open();
    await copyNews(source, await to.open());
    // They all continue, to be compared.
    await source.copies.reopen(news, identity().holder);
  };
  const begin = (kind: SinkKind): Bench => {
    const bench = new Bench(kind);
    open.push(bench);
    return bench;
  };

  // Proves promise 1.3
  it(
    `continues in the other sink as it would have in its own, from SQLite to PostgreSQL and back (${histories} histories, seed ${seed})`,
    { timeout: 3_600_000 },
    async () => {
      const postgres = await postgresSinkKind();
      for (let number = 0; number < histories; number += 1) {
        const random = seededRandom(seed * 1_000_003 + number);
        const own = begin(sqliteKind);
        const history = await History.begin(random, [own]);
        const runs = 1 + Math.floor(random() * 4);
        try {
          for (let run = 0; run < runs; run += 1) await history.run();
          await history.release();
          const [moved, back] = [begin(postgres), begin(sqliteKind)];
          // Numbers of runs and partitions are taken there.
          await beginAnother(moved);
          await beginAnother(back);
          for (const bench of [moved, back]) bench.clock.advance(own.clock.now() - bench.clock.now());
          const before = await storedState(own);
          await copy(own, moved);
          expect(await storedState(moved)).toEqual(before);
          expect(await changeNumbers(moved)).toEqual(await changeNumbers(own));
          await copy(moved, back);
          expect(await storedState(back)).toEqual(before);
          expect(await changeNumbers(back)).toEqual(await changeNumbers(own));
          expect(await seenRows(back)).toEqual(await seenRows(own));
          await history.goOnWith([own, moved, back]);
          for (let run = 0; run < runs; run += 1) {
            await history.run();
            const expected = await storedState(own);
            expect(await storedState(moved)).toEqual(expected);
            expect(await storedState(back)).toEqual(expected);
          }
        } catch (error) {
          console.log(`history ${number} of seed ${seed}: ${history.steps.slice(-30).join(', ')}`);
          throw error;
        }
        for (const bench of open.splice(0)) await bench.close();
      }
    },
  );
});

/** The newest number of every row. */
async function changeNumbers(bench: Bench): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const declared = new Set(
    (await bench.ledger(`SELECT entity FROM _sync_tables WHERE connector = '${news}'`)).map(
      ({ entity }) => entity,
    ),
  );
  const numbers: Record<string, readonly unknown[]> = {};
  for (const { entity } of tables.filter((table) => declared.has(table.entity))) {
    numbers[entity] = await bench.ledger(`SELECT _row, _seq FROM news__${entity} ORDER BY _row`);
  }
  return numbers;
}

/** Which rows unfinished chains have met, by the runs that began them. */
async function seenRows(bench: Bench): Promise<readonly unknown[]> {
  return await bench.ledger(`SELECT run.run, seen.entity, seen.chunk, hex(seen.bits) AS bits
    FROM _sync_seen AS seen JOIN _sync_runs AS run ON run.number = seen.origin
    WHERE seen.connector = 'news' ORDER BY run.run, seen.entity, seen.chunk`);
}
