import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { jsonlKind, sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  dayMs,
  identity,
  member,
  members,
  membersTable,
  news,
  report,
  start,
  type Started,
} from '../../contracts/sink/fixture.ts';
import { useRuns } from '../../contracts/sink/run-in-hand.ts';
import { storedState } from '../../support/histories/stored-state.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { beginAnother, copyNews, copyWays, fillWithNews, useBenches } from '../../support/sinks/copying.ts';

const begin = useBenches();
const cut = new Error('cut');

describe.each(copyWays(await postgresSinkKind()))(
  'a copy %s that was broken off',
  (_way, ofSource, ofTarget) => {
    // Proves promise 1.3
    it('leaves nothing of the sync state that the source has forgotten since, and has what it got', async () => {
      const [from, to] = [begin(ofSource), begin(ofTarget)];
      await fillWithNews(from, 20, seededRandom(17));
      const [source, target] = [await from.open(), await to.open()];
      const whenConditionsAreCopied = async (): Promise<void> => {
        if ((await to.count('_sync_conditions')) !== 0) throw cut;
      };
      await expect(copyNews(source, target, whenConditionsAreCopied)).rejects.toBe(cut);
      expect(await to.count('_sync_quarantine')).toBe(1);
      await source.purges.purge(news, {
        of: [{ entity: members, keyTexts: [], isRefusedMeant: () => true }],
        canReturn: false,
        targets: [],
        removeFile: () => Promise.reject(new Error('There is no file')),
        signal: AbortSignal.timeout(60_000),
      });
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

    it('starts from the beginning where versions have expired since', async () => {
      const [from, to] = [begin(ofSource), begin(ofTarget)];
      const kept = { tables: [membersTable], versions: new Set([members]) };
      const { sink: source, lease, sweep } = await useRuns(from, kept);
      for (const [run, name] of ['Ada', 'Grace', 'Hedy'].entries()) {
        await (await sweep(`r${run}`, () => ({ records: [member('1', name)] }))).finish();
        from.clock.advance(dayMs);
      }
      await lease[Symbol.asyncDispose]();
      const target = await to.open();
      const whenRunsAreCopied = async (): Promise<void> => {
        if ((await to.count('_sync_runs')) !== 0) throw cut;
      };
      await expect(copyNews(source, target, whenRunsAreCopied)).rejects.toBe(cut);
      await source.purges.expire(news, {
        entities: [
          {
            entity: members,
            deletedBefore: null,
            publishedThrough: 0,
            quarantinedBefore: null,
            filesBefore: null,
            versionsBefore: instant(start + 1.5 * dayMs),
            withheld: 0,
          },
        ],
        isAsked: true,
        removeFile: () => Promise.resolve(),
        signal: AbortSignal.timeout(60_000),
      });
      expect(await copyNews(source, target)).toMatchObject({ state: 'begun' });
      for (const bench of [from, to]) {
        expect(await bench.ledger('SELECT name FROM news__members__versions')).toEqual([{ name: 'Grace' }]);
      }
    });
  },
);

describe('a copy into a JSONL sink', () => {
  it('whose lines could not be written keeps runs out of the source, and writes them when it is asked for again', async () => {
    const [from, to] = [begin(sqliteKind), begin(jsonlKind)];
    await fillWithNews(from, 5, seededRandom(18));
    const [source, target] = [await from.open(), await to.open()];
    const folder = join(to.folder, news);
    writeFileSync(folder, 'no folder');
    await expect(copyNews(source, target)).rejects.toMatchObject({ code: 'SINK_INCOMPATIBLE' });
    expect(await target.history.unfinishedCopy(news)).toBeNull();
    await expect(source.acquire(identity())).rejects.toMatchObject({ code: 'COPIED_AWAY' });
    rmSync(folder);
    expect(await copyNews(source, target)).toMatchObject({ state: 'done', rows: 5 });
    expect(existsSync(join(folder, members))).toBe(true);
  });
});
