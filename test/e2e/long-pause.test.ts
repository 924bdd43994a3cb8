import { describe, expect, it } from 'vitest';
import { instant } from '../../src/core/clock.ts';
import type { OnRunEvent } from '../../src/core/events.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { HostileCall, Reply } from '../support/hostile/exchange.ts';
import { apiError, held, success, throttled } from '../support/hostile/replies.ts';
import { instantClock } from '../support/instant-clock.ts';
import { useHostedRuns } from '../support/hosted-runs.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import type { SyncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const pauseMs = 90_000;
const pause = throttled({ seconds: pauseMs / 1000 });
const hosted = useHostedRuns();

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

  // Proves promise 8.3
  it('starts from the beginning after a day of retries without progress, so that the rest stays fresh', async () => {
    await withService(
      (call) => {
        if (call.entity === 'lists') return page(lists.slice(0, 2), call);
        return listOf(call) === 'list-0' ? pause : page(members.slice(0, 3), call);
      },
      async (run) => {
        await run();
        let hours = 0;
        do {
          hours += 1;
          clock.advance(3_600_000);
          expect(hours).toBeLessThan(30);
        } while ((await run()).continues !== null);
        expect(hours).toBeGreaterThanOrEqual(24);
      },
    );
  });

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

  it('keeps a run from starting when it answers so before the run', async () => {
    const { sync } = await hosted.open(mailing, () => pause, { respondGet: () => pause });
    const attempt = sync([], { clock });
    await expect(attempt).rejects.toMatchObject({ code: 'THROTTLED', retryAfterMs: pauseMs });
  });
});

describe('a service that nothing could be read from', () => {
  it.each([
    ['is down', apiError(503, 'unavailable'), 'retry'],
    ['refuses', apiError(403, 'you may not'), 'stop'],
  ] as const)('and that %s: %3$s', async (_what, answer, recovery) => {
    await withService(
      () => answer,
      async (run) => {
        expect(await run()).toMatchObject({ outcome: 'failed', error: { recovery }, resumeAt: null });
      },
    );
  });
});
