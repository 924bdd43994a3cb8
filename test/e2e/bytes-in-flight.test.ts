import { describe, expect, it, onTestFinished } from 'vitest';
import { SyncError } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { pagedRows } from '../support/hostile/paged-rows.ts';
import { apiError, success, throttled } from '../support/hostile/replies.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition, startSampleService } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { StoppedError, stopAtStep } from '../support/stop-at-step.ts';
import { syncOnce, type SyncOnce } from '../support/sync-once.ts';
import { repeats, startSeed } from '../support/trials.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const hosted = useHostedRuns();

const members = Array.from({ length: 600 }, (_, index): JsonObject => ({
  id: `m-${index}`,
  last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
}));
const lists = Array.from({ length: 6 }, (_, index): JsonObject => ({ id: `list-${index}` }));

/** Sums of what the events of a run say. */
class Bytes {
  fetched = 0;
  committed = 0;
  dropped = 0;
  readonly onEvent = (event: RunEvent): void => {
    if (event.kind === 'page-fetched') this.fetched += event.bytes;
    if (event.kind === 'page-committed') this.committed += event.bytes;
    if (event.kind === 'page-dropped') this.dropped += event.bytes;
  };
}

async function syncLists(
  answer: (call: HostileCall) => Reply,
  more: Partial<SyncOnce>,
): Promise<RunReport | null> {
  const { sync } = await hosted.open(mailing, (call) =>
    call.entity === 'lists'
      ? success(lists.slice(Number(call.params['offset'])), { links: [] })
      : answer(call),
  );
  return await sync(['lists', 'list_members'], more).catch((error: unknown) => {
    if (error instanceof StoppedError) return null;
    throw error;
  });
}

const cut = (call: HostileCall): Reply => {
  const offset = Number(call.params['offset']);
  return success(members.slice(offset, offset + 50));
};

function failingCommits(fail: (commits: number) => Promise<boolean>): (sink: Sink) => Sink {
  const { wrapSink } = stopAtStep(Number.MAX_SAFE_INTEGER);
  let commits = 0;
  return (sink) => ({
    ...wrapSink(sink),
    commit: async (lease, pages) => {
      commits += 1;
      if (await fail(commits)) throw new SyncError('full', { code: 'SINK_FULL', recovery: 'retry' });
      return await sink.commit(lease, pages);
    },
  });
}

describe('the bytes of fetched pages', () => {
  it('are all stored by a run that nothing disturbs, once where a page makes rows of two entities', async () => {
    const service = await startSampleService('tiny');
    onTestFinished(() => service.close());
    const bytes = new Bytes();
    const [asked, stored] = [new Set<string>(), new Set<string>()];
    const report = await syncOnce({
      baseUrl: service.url,
      definition: mailing,
      connectorId: 'mailing',
      sink: sampleSinks.sqlite.options(hosted.folder()),
      onEvent: (event) => {
        bytes.onEvent(event);
        if (event.kind === 'page-fetched') asked.add(event.entity);
        if (event.kind === 'page-committed') stored.add(event.entity);
      },
    });
    expect(report.outcome).toBe('ok');
    expect([...stored].filter((entity) => !asked.has(entity))).toEqual(['email_activity_events']);
    expect(bytes).toMatchObject({ committed: bytes.fetched, dropped: 0 });
  });

  it.each(['failed', 'interrupted'] as const)(
    'are reported as dropped where the next page has already come when a run ends as %s',
    async (outcome) => {
      const bytes = new Bytes();
      const stop = new AbortController();
      let pages = 0;
      let come = (): void => undefined;
      const ahead = new Promise<void>((resolve) => (come = resolve));
      const report = await syncLists(cut, {
        concurrency: 1,
        signal: stop.signal,
        onEvent: (event) => {
          bytes.onEvent(event);
          if (event.kind === 'page-fetched' && event.entity === 'list_members') pages += 1;
          if (pages === 9) come();
        },
        // The lists come first; then a walk runs ahead of its first page as far as it may.
        wrapSink: failingCommits(async (commits) => {
          if (commits < 2) return false;
          await ahead;
          if (outcome === 'interrupted') stop.abort(new Error('enough'));
          return outcome === 'failed';
        }),
      });
      expect(report).toMatchObject({
        outcome,
        error: outcome === 'failed' ? { code: 'SINK_FULL', recovery: 'retry' } : null,
      });
      expect(bytes.dropped).toBeGreaterThan(0);
      expect(bytes.fetched).toBe(bytes.committed + bytes.dropped);
    },
  );

  const seed = startSeed();
  const trials = repeats('TRIALS', { share: 8, full: 100 });
  // Proves promise 5
  it(`are stored or dropped, whatever ends the run (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    const endings = new Set<string>();
    for (let trial = 0; trial < trials; trial += 1) {
      const bytes = new Bytes();
      const at = 1 + Math.floor(random() * 60);
      const fault = ['abort', 'pause', 'full', 'refused', 'stopped'][trial % 5];
      const stop = new AbortController();
      let calls = 0;
      const answer = (call: HostileCall): Reply => {
        calls += 1;
        if (fault === 'abort' && calls === at) stop.abort(new Error('enough'));
        if (fault === 'pause' && calls >= at) return throttled({ seconds: 60 });
        if (fault === 'refused' && calls >= at) return apiError(402, 'quota exceeded');
        return random() < 0.05 ? apiError(404, 'gone') : cut(call);
      };
      const world = stopAtStep(fault === 'stopped' ? 20 + at : Number.MAX_SAFE_INTEGER);
      const report = await syncLists(answer, {
        onEvent: bytes.onEvent,
        signal: stop.signal,
        wrapSource: world.wrapSource,
        wrapSink: fault === 'full' ? failingCommits(async (commits) => commits > at / 8) : world.wrapSink,
      });
      const outcome = report?.outcome ?? 'stopped';
      endings.add(outcome);
      expect({ seed, trial, outcome, inFlight: bytes.fetched - bytes.committed - bytes.dropped }).toEqual({
        seed,
        trial,
        outcome,
        inFlight: 0,
      });
      hosted.begin();
    }
    expect([...endings]).toEqual(expect.arrayContaining(['partial', 'failed', 'interrupted', 'stopped']));
  });

  it('are stored by walks that begin again too', async () => {
    const users = Array.from({ length: 250 }, (_, index): JsonObject => ({
      object: 'user',
      type: 'person',
      id: `user-${index}`,
      name: `User ${index}`,
    }));
    const bytes = new Bytes();
    const bend = { kind: 'expired', fromCall: 2, times: 2 } as const;
    const service = pagedRows(users, { paging: 'token', silentCap: 40, bend });
    const { sync } = await hosted.open(notes, (call) => service.reply(call));
    let restarts = 0;
    const report = await sync(['users'], {
      onEvent: (event) => {
        bytes.onEvent(event);
        if (event.kind === 'walk-restarted') restarts += 1;
        if (event.kind === 'run-finished') expect(event.waitedMs).toBeGreaterThanOrEqual(0);
      },
    });
    expect({ outcome: report.outcome, restarts }).toEqual({ outcome: 'ok', restarts: 2 });
    expect(bytes).toMatchObject({ committed: bytes.fetched, dropped: 0 });
  });
});
