import { afterEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { systemClock, type Clock } from '../../src/core/clock.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { Service } from '../../src/service/start-service.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { Source } from '../../src/source/source.ts';
import { differencesFrom, noDifferences, sampleSinks } from '../support/sample-sinks.ts';
import { builtInDefinition, startSampleService, storedByDefault } from '../support/sample-service.ts';
import { syncOnce, type SyncOnce } from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const { sqlite } = sampleSinks;

let folder: string;
let service: Service;
it.beforeEach(async ({ folder: made }) => {
  folder = made;
  service = await startSampleService('tiny');
});
afterEach(() => service.close());

function sync(more: Partial<SyncOnce>): Promise<RunReport> {
  return syncOnce({
    baseUrl: service.url,
    definition: mailing,
    connectorId: 'mailing',
    sink: sqlite.options(folder),
    ...more,
  });
}

function stored(): object {
  const truth = storedByDefault('email-marketing', 'tiny');
  return differencesFrom(truth, mailing, (table) => sqlite.rows(folder, mailing.name, table));
}

describe('a run with a limit of calls', () => {
  // Proves promise 13
  it('makes exactly so many, stores what they brought, and says what remains; the next runs resume until the end', async () => {
    const reports: RunReport[] = [];
    for (let run = 0; run < 200 && reports.at(-1)?.outcome !== 'ok'; run += 1) {
      reports.push(await sync({ run: { maxCalls: 10 }, concurrency: 3 }));
    }
    const last = reports.pop();
    expect(reports.length).toBeGreaterThan(2);
    for (const report of reports) {
      expect(report).toMatchObject({ outcome: 'partial', calls: 10, error: null, resumeAt: null });
      expect(report.left.length).toBeGreaterThan(0);
      expect(report.entities.reduce((sum, { pages }) => sum + pages, 0)).toBe(10);
    }
    expect(last).toMatchObject({ outcome: 'ok', left: [] });
    expect(stored()).toEqual(noDifferences);
  });

  it('makes progress with a single one', async () => {
    const report = await sync({ run: { maxCalls: 1 } });
    expect(report).toMatchObject({ outcome: 'partial', calls: 1 });
    expect(report.entities.reduce((sum, { counts }) => sum + counts.inserted, 0)).toBeGreaterThan(0);
  });

  it('is an ordinary one where the calls suffice, and then sweeps', async () => {
    const events: RunEvent[] = [];
    const report = await sync({ run: { maxCalls: 100_000 }, onEvent: (event) => events.push(event) });
    expect(report).toMatchObject({ outcome: 'ok', left: [] });
    expect(events.map(({ kind }) => kind)).toContain('sweep-started');
  });

  it('begins no sweep once they are spent', async () => {
    const events: RunEvent[] = [];
    await sync({ run: { maxCalls: 10 }, onEvent: (event) => events.push(event) });
    expect(events.map(({ kind }) => kind)).not.toContain('sweep-started');
  });
});

describe('a run with a limit of time', () => {
  it('ends when it is over, keeps what is stored, and the next run resumes it', async () => {
    const time = manualClock();
    let lists = 0;
    const wrapSource = (source: Source): Source => ({
      ...source,
      list: async (request, signal) => {
        const page = await source.list(request, signal);
        lists += 1;
        if (lists === 5) time.over();
        return page;
      },
    });
    const first = await sync({ clock: time.clock, run: { budgetMs: 60_000 }, wrapSource });
    expect(first).toMatchObject({ outcome: 'partial', error: null, resumeAt: null });
    expect(first.left.length).toBeGreaterThan(0);
    const second = await sync({});
    expect(second).toMatchObject({ outcome: 'ok', continues: first.run, left: [] });
    expect(stored()).toEqual(noDifferences);
  });

  it('is an ordinary one where the time suffices', async () => {
    expect(await sync({ run: { budgetMs: 3_600_000 } })).toMatchObject({ outcome: 'ok', left: [] });
  });
});

/** Only a sleep of a minute waits for `over`; everything else takes the time it takes. */
function manualClock(): { readonly clock: Clock; over(): void } {
  let over = (): void => undefined;
  return {
    over: () => over(),
    clock: {
      now: () => systemClock.now(),
      sleep: (ms, signal) => {
        if (ms < 50_000) return systemClock.sleep(ms, signal);
        return new Promise((resolve, reject) => {
          over = resolve;
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
      },
    },
  };
}
