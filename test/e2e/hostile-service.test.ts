import { describe, expect, it, onTestFinished } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import { SyncError } from '../../src/core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../src/core/events.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { Sink } from '../../src/sinks/sink-access.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import * as broken from '../support/hostile/replies.ts';
import {
  type HostileCall,
  type Reply,
  apiError,
  gzipBomb,
  held,
  html,
  json,
  redirect,
  success,
  successText,
  text,
  throttled,
} from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { builtInDefinition, startSampleService } from '../support/sample-service.ts';
import { sampleSinks } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { StoppedError, stopAtStep } from '../support/stop-at-step.ts';
import { syncOnce, type SyncOnce } from '../support/sync-once.ts';
import { repeats, startSeed } from '../support/trials.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const hosted = useHostedRuns();

/** Limits that let a stall be noticed within the test. */
const limits = {
  headersTimeoutMs: 400,
  bodyTimeoutMs: 400,
  attemptTimeoutMs: 1500,
  maxBodyBytes: 2_000_000,
};

const members = Array.from({ length: 450 }, (_, index): JsonObject => ({
  id: `member-${index}`,
  email_address: `someone${index}@example.test`,
  last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
  list_id: 'list-1',
}));

/** Syncs one list and its members from a service that answers member calls with `answer`. */
async function syncMembers(
  answer: (call: HostileCall, memberCall: number) => Reply,
  expireAt?: number,
): Promise<{ report: RunReport; stored: ReadonlySet<string>; calls: number }> {
  let memberCalls = 0;
  const { server, sync } = await hosted.open(mailing, (call) => {
    if (call.entity === 'lists') {
      return call.params['offset'] === 0 ? success([{ id: 'list-1' }], { links: [] }) : success([]);
    }
    memberCalls += 1;
    if (memberCalls === expireAt) server.expireTokens();
    return answer(call, memberCalls);
  });
  const report = await sync(['lists', 'list_members'], { limits });
  const rows = hosted.rows(mailing, 'list_members');
  return {
    report,
    stored: new Set([...rows.values()].map(({ columns }) => idOf(columns))),
    calls: server.calls.length,
  };
}

/** One for each way in which a call can fail and be made again; `test/source/failures.test.ts` has them all. */
const passing: Record<string, Reply> = {
  '429 with seconds': throttled({ seconds: 2 }),
  '403 as HTML': html(403),
  500: apiError(500, 'unexpected'),
  504: apiError(504, 'gateway timeout'),
  'bad JSON': text(200, '{"status":"success","result":[', { 'content-type': 'application/json' }),
  'a result of the wrong kind': json(200, { status: 'success', result: 'none' }),
  'reset before the headers': broken.resetBeforeHeaders,
  'cut by length': broken.cutByLength,
  'a stall in the body': broken.stallInBody,
  'a gzip bomb': gzipBomb(50_000_000),
};

describe('a sync from a service that fails once', () => {
  it.each(Object.entries(passing))('%s: all records arrive', async (_, fault) => {
    const paged = pagedByOffset(members, 100);
    const { report, stored } = await syncMembers((call, index) => (index === 3 ? fault : paged(call)));
    expect(report.failures).toEqual([]);
    expect(report.outcome).toBe('ok');
    expect(stored.size).toBe(members.length);
  });
});

const lasting: Record<string, readonly [Reply, string]> = {
  500: [apiError(500, 'unexpected'), 'UPSTREAM'],
  504: [apiError(504, 'gateway timeout'), 'TIMEOUT'],
  'a cut body': [broken.cutInChunks, 'NETWORK'],
  404: [apiError(404, 'list not found'), 'NOT_FOUND'],
  400: [apiError(400, 'no such parameter'), 'REQUEST_REFUSED'],
  'the marker of a shortened text': [
    success([
      {
        id: 'x',
        full_name:
          'A long name... [truncated — use `get` action with the record id to retrieve the full value]',
      },
    ]),
    'TRUNCATED_VALUE',
  ],
  'a body that is too large': [successText(`[${'{"id":"x"},'.repeat(300_000)}{"id":"y"}]`), 'BODY_TOO_LARGE'],
};

describe('a sync from a service that keeps failing', () => {
  // Proves promise 8
  it.each(Object.entries(lasting))(
    '%s: whole pages are kept, the walk is set aside and named',
    async (_, [fault, code]) => {
      const paged = pagedByOffset(members, 100);
      const { report, stored, calls } = await syncMembers((call, index) =>
        index >= 3 ? fault : paged(call),
      );
      expect(report.outcome).toBe('degraded');
      expect(report.failures).toMatchObject([
        { entity: 'list_members', params: { list_id: 'list-1' }, code },
      ]);
      // Two pages with ten records of overlap were stored whole before it began.
      expect(stored.size).toBe(190);
      expect(calls).toBeLessThan(60);
    },
  );

  it('stops at once where credentials, redirects or the quota say that nothing else can work', async () => {
    const stops: readonly (readonly [Reply, string])[] = [
      [apiError(401, 'bad token'), 'AUTH_FAILED'],
      [redirect(302, 'http://127.0.0.1:1/'), 'REDIRECTED'],
      [apiError(402, 'quota exceeded for this organization'), 'QUOTA_EXHAUSTED'],
    ];
    for (const [fault, code] of stops) {
      const paged = pagedByOffset(members, 100);
      const { report } = await syncMembers((call, index) => (index >= 3 ? fault : paged(call)));
      expect(report).toMatchObject({ outcome: 'failed', error: { code, recovery: 'stop' } });
      hosted.begin();
    }
  });
});

describe('a sync with many walks', () => {
  async function syncLists(count: number, entities: readonly string[], answer: (call: HostileCall) => Reply) {
    const lists = Array.from({ length: count }, (_, index) => ({ id: `list-${index}` }));
    const { server, sync } = await hosted.open(mailing, (call) =>
      call.entity === 'lists'
        ? success(lists.slice(Number(call.params['offset'])), { links: [] })
        : answer(call),
    );
    const report = await sync(['lists', ...entities], { limits });
    return { report, calls: server.calls.length };
  }

  it('ends when the API stops responding, instead of failing one walk after the other', async () => {
    const { report, calls } = await syncLists(300, ['list_members', 'segments'], () =>
      apiError(503, 'unavailable'),
    );
    expect(report).toMatchObject({ outcome: 'failed', error: { code: 'UPSTREAM', recovery: 'retry' } });
    expect(calls).toBeLessThan(300);
  });

  // Proves promise 8
  it('continues all others when one of them fails', async () => {
    const { report } = await syncLists(60, ['list_members'], (call) =>
      call.params['list_id'] === 'list-30'
        ? apiError(404, 'no such list')
        : success(call.params['offset'] === 0 ? [{ id: 'm' }] : []),
    );
    expect(report.outcome).toBe('degraded');
    expect(report.failures).toMatchObject([{ params: { list_id: 'list-30' }, code: 'NOT_FOUND' }]);
    expect(report.entities.find(({ entity }) => entity === 'list_members')).toMatchObject({
      proofs: { single: 59 },
      setAside: 1,
    });
  });
});

function idOf({ id }: JsonObject): string {
  return typeof id === 'string' ? id : '';
}

describe('a sync from a service with bent page tokens', () => {
  const users = Array.from({ length: 250 }, (_, index): JsonObject => ({
    object: 'user',
    type: 'person',
    id: `user-${index}`,
    name: `User ${index}`,
  }));

  async function syncUsers(expired: ExpiredTokens): Promise<{ report: RunReport; stored: number }> {
    const { sync } = await hosted.open(notes, pagedByToken(users, 40, expired));
    return { report: await sync(['users'], { limits }), stored: hosted.rows(notes, 'users').size };
  }

  it('restarts after an expired token, and gives up after three times', async () => {
    expect(await syncUsers({ fromCall: 2, times: 2 })).toMatchObject({
      report: { outcome: 'ok' },
      stored: 250,
    });
    hosted.begin();
    const { report } = await syncUsers({ fromCall: 2, times: 1000 });
    expect(report).toMatchObject({
      outcome: 'failed',
      error: { code: 'TOKEN_EXPIRED', recovery: 'retry' },
      failures: [{ entity: 'users', code: 'TOKEN_EXPIRED' }],
    });
  });
});

describe('pauses', () => {
  const pauseMs = 90_000;
  const pause = throttled({ seconds: pauseMs / 1000 });

  const lists = Array.from({ length: 8 }, (_, index): JsonObject => ({ id: `list-${index}` }));
  const members = Array.from({ length: 450 }, (_, index): JsonObject => ({
    id: `m-${index}`,
    last_changed: new Date(Date.UTC(2024, 0, 1) + index * 1000).toISOString(),
  }));

  const page = (rows: readonly JsonObject[], call: HostileCall, cap = 1000): Reply => {
    const offset = Number(call.params['offset'] ?? 0);
    return success(rows.slice(offset, offset + cap), { links: [] });
  };

  const clock = instantClock();

  /** A service, and runs that read its lists and their members one walk at a time. */
  async function withService(
    respond: (call: HostileCall) => Reply,
    use: (
      run: (more?: Partial<SyncOnce>) => Promise<RunReport>,
      calls: readonly HostileCall[],
    ) => Promise<void>,
  ): Promise<void> {
    const { server, sync } = await hosted.open(mailing, respond);
    await use((more) => sync(['lists', 'list_members'], { clock, concurrency: 1, ...more }), server.calls);
  }

  const stored = (entity: string): number => hosted.rows(mailing, entity).size;

  const listOf = ({ params }: HostileCall): unknown => params['list_id'];

  describe('a service that asks for a long pause', () => {
    // Proves promise 8.3
    it('ends the run at once: what was read is stored, nothing has failed, and the next run resumes there', async () => {
      let isPaused = false;
      let memberCalls = 0;
      const respond = (call: HostileCall): Reply => {
        if (call.entity === 'lists') return page(lists.slice(0, 1), call);
        memberCalls += 1;
        isPaused ||= memberCalls === 3;
        return isPaused ? pause : page(members, call, 100);
      };
      await withService(respond, async (run, calls) => {
        const report = await run();
        expect(report).toMatchObject({
          outcome: 'partial',
          resumeAt: instant(clock.now() + pauseMs),
          error: null,
          failures: [],
        });
        expect(report.entities.map(({ setAside }) => setAside)).toEqual(report.entities.map(() => 0));
        expect(report.entities.some(({ isWhole }) => isWhole)).toBe(false);
        // Two pages with ten records of overlap.
        expect(stored('list_members')).toBe(190);
        expect(memberCalls).toBe(3);

        isPaused = false;
        clock.advance(pauseMs);
        const before = calls.length;
        expect(await run()).toMatchObject({ outcome: 'ok', continues: report.run, resumeAt: null });
        expect(calls.slice(before).map(({ params }) => params['offset'])[0]).toBe(180);
        expect(stored('list_members')).toBe(450);
      });
    });

    // Proves promise 8.3
    it('keeps finished listings finished if one of many walks had to wait', async () => {
      let isPaused = true;
      let sealed = 0;
      let release = (): void => undefined;
      const othersSealed = new Promise<void>((resolve) => (release = resolve));
      const onEvent: OnRunEvent = (event) => {
        if (event.kind !== 'walk-sealed') return;
        sealed += 1;
        if (sealed === lists.length) release();
      };
      const respond = (call: HostileCall): Reply => {
        if (call.entity === 'lists') return page(lists, call);
        if (listOf(call) !== 'list-3') return page(members.slice(0, 3), call);
        return isPaused ? held(othersSealed, pause) : page(members, call);
      };
      await withService(respond, async (run, calls) => {
        expect(await run({ concurrency: 4, onEvent })).toMatchObject({
          outcome: 'partial',
          failures: [],
          error: null,
        });
        isPaused = false;
        clock.advance(pauseMs);
        const before = calls.length;
        expect(await run()).toMatchObject({ outcome: 'ok' });
        expect(new Set(calls.slice(before).map(listOf))).toEqual(new Set(['list-3']));
      });
    });

    // Proves promise 8.3
    it('skips no entity and ends no run as silent, however many walks had to wait', async () => {
      await withService(
        (call) => (call.entity === 'lists' ? page(lists, call) : pause),
        async (run, calls) => {
          const listCalls = (): number => calls.filter(({ entity }) => entity === 'lists').length;
          let once = 0;
          for (let attempt = 0; attempt < 25; attempt += 1) {
            expect(await run({ concurrency: 4 })).toMatchObject({
              outcome: 'partial',
              failures: [],
              error: null,
            });
            clock.advance(pauseMs);
            if (attempt === 0) once = listCalls();
          }
          expect(listCalls(), 'each run goes on with the one before').toBe(once);
          expect(calls.length - once, 'no more calls than walks at a time').toBeLessThanOrEqual(25 * 4);
        },
      );
    });

    // Proves promise 8.3
    it.each([1, 4])(
      'reads the rest while one listing always has to wait, %i walks at a time',
      async (concurrency) => {
        const sealed = new Set<unknown>();
        const onEvent: OnRunEvent = (event) => {
          if (event.kind === 'walk-sealed' && event.entity === 'list_members') {
            sealed.add(event.params['list_id']);
          }
        };
        await withService(
          (call) => {
            if (call.entity === 'lists') return page(lists, call);
            return listOf(call) === 'list-0' ? pause : page(members, call);
          },
          async (run) => {
            for (let attempt = 0; attempt < 2 + lists.length; attempt += 1) {
              expect(await run({ concurrency, onEvent })).toMatchObject({ outcome: 'partial' });
              clock.advance(pauseMs);
            }
            // Walks that begin in the same moment as the one that has to wait may be broken off by it.
            expect(sealed.size).toBeGreaterThanOrEqual(lists.length - concurrency);
          },
        );
      },
    );

    it('reports an earlier failure, or one of storing, rather than the pause', async () => {
      const respond = (call: HostileCall): Reply => {
        if (call.entity === 'lists') return page(lists.slice(0, 1), call);
        return call.params['offset'] === 0 ? page(members, call, 100) : pause;
      };
      await withService(respond, async (run) => {
        const report = await run({
          wrapSink: (sink) => ({
            ...sink,
            commit: async (lease, pages) => {
              if (pages.some(({ fetched }) => fetched === 100)) throw new Error('the disk is gone');
              return await sink.commit(lease, pages);
            },
          }),
        });
        expect(report).toMatchObject({ outcome: 'failed', error: { code: 'INTERNAL' }, resumeAt: null });
      });
    });
  });
});

describe('bytes', () => {
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

    const seed = startSeed();
    const trials = repeats('TRIALS', { share: 5, full: 100 });
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
  });
});

/** The service refuses tokens as expired behind the given call, `times` times. */
interface ExpiredTokens {
  readonly fromCall: number;
  readonly times: number;
}

/** A service that pages by offset, at most `silentCap` rows a page whatever is asked for. */
function pagedByOffset(rows: readonly JsonObject[], silentCap: number) {
  return ({ params }: HostileCall): Reply => {
    const offset = Number(params['offset'] ?? 0);
    const count = Math.min(Number(params['count'] ?? 10), silentCap);
    return success(rows.slice(offset, offset + count), { links: [] });
  };
}

/** The same by page tokens (`at-<offset>-<page>`: no token comes twice), some of which have expired. */
function pagedByToken(rows: readonly JsonObject[], silentCap: number, expired: ExpiredTokens) {
  let pages = 0;
  let expiredLeft = expired.times;
  return ({ params }: HostileCall): Reply => {
    const token = params['start_cursor'];
    pages += 1;
    if (typeof token === 'string' && pages > expired.fromCall && expiredLeft > 0) {
      expiredLeft -= 1;
      return apiError(400, 'The start_cursor provided is invalid: it has expired');
    }
    const at = typeof token === 'string' ? Number(/^at-(\d+)/.exec(token)?.[1] ?? 0) : 0;
    const end = at + Math.min(Number(params['page_size'] ?? 100), silentCap);
    const hasMore = end < rows.length;
    const next = hasMore ? `at-${end}-${pages}` : null;
    return success(rows.slice(at, end), { has_more: hasMore, next_cursor: next });
  };
}
