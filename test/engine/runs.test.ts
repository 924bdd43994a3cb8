import { describe, expect, afterEach } from 'vitest';
import { parseWindowLength } from '../../src/app/backfill.ts';
import { systemClock, type Clock, timeMs } from '../../src/core/clock.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { EntityName } from '../../src/core/names.ts';
import { noCounts, type PageCounts } from '../../src/core/records.ts';
import { planRun, withWindow, ordinaryRun, backfillWindows, windowText } from '../../src/engine/plan-run.ts';
import { mostWindows } from '../../src/engine/windows.ts';
import { compilePreparePage, type PreparedPage } from '../../src/engine/prepare/prepare-page.ts';
import { runTally } from '../../src/engine/run-tally.ts';
import { watchTime } from '../../src/engine/run.ts';
import type { Service } from '../../src/service/start-service.ts';
import type { FoundPartition } from '../../src/sinks/partition.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { readRecords, type Source } from '../../src/source/source.ts';
import { it } from '../support/it.ts';
import { builtInDefinition, startSampleService, storedByDefault } from '../support/sample-service.ts';
import { differencesFrom, noDifferences, sampleSinks } from '../support/sample-sinks.ts';
import { seededRandom } from '../support/seeded-random.ts';
import {
  allEntities,
  chosenEntities,
  entityNamed,
  syncOnce,
  testPartition,
  type SyncOnce,
} from '../support/sync-once.ts';

const mailing = builtInDefinition('email-marketing');
const notes = builtInDefinition('workspace-notes');
const nowMs = Date.UTC(2026, 4, 8);
const window = { sinceMs: Date.UTC(2026, 0, 1), untilMs: Date.UTC(2026, 1, 1) };
const bounds = { since: '2025-12-31T23:59:59+00:00', before: '2026-02-01T00:00:00+00:00' };

describe('the plan of a sync', () => {
  it('says how each entity is read, and from when on that is in full', () => {
    const plan = planRun(mailing, allEntities(mailing), nowMs, ordinaryRun);
    expect(plan.reading.get('list_members' as EntityName)).toEqual({
      isIncremental: true,
      fullBefore: '2026-05-01T00:00:00.000Z',
      mayMove: false,
    });
    expect(plan.reading.get('unsubscribes' as EntityName)).toMatchObject({
      isIncremental: false,
      mayMove: false,
    });
    expect(plan).toMatchObject({ kind: 'sync', window: '', backfill: '', isFull: false, isBudgeted: false });
    expect(planRun(mailing, allEntities(mailing), nowMs, { ...ordinaryRun, maxCalls: 5 }).isBudgeted).toBe(
      true,
    );
  });

  it('says whose records may move from below one parent to another: those whose key does not name it', () => {
    const { reading } = planRun(notes, allEntities(notes), nowMs, ordinaryRun);
    const moving = [...reading].filter(([, { mayMove }]) => mayMove).map(([name]) => name);
    expect(moving).toEqual(['blocks']);
  });

  it('reads in full where the settings send the lower bound themselves', () => {
    const entities = new Map(allEntities(mailing));
    const name = entityNamed(mailing, 'list_members').name;
    const members = entities.get(name);
    if (members === undefined) throw new Error('no list_members');
    entities.set(name, { ...members, variants: [{}, { since_last_changed: '2026-01-01' }] });
    expect(planRun(mailing, entities, nowMs, ordinaryRun).reading.get(name)?.isIncremental).toBe(false);
  });

  it('keeps partitions for twice as long as a full read may wait', () => {
    const kept = (fullEveryMs: number): string => {
      const entities = [...allEntities(mailing)].map(
        ([name, entity]) => [name, { ...entity, fullEveryMs }] as const,
      );
      return planRun(mailing, new Map(entities), nowMs, ordinaryRun).keepPartitionsSince;
    };
    expect(kept(86_400_000)).toBe('2026-04-08T00:00:00.000Z');
    expect(kept(30 * 86_400_000)).toBe('2026-03-09T00:00:00.000Z');
  });
});

describe('the plan of a backfill', () => {
  const run = { ...ordinaryRun, kind: 'backfill', window, backfill: 'b1' } as const;

  it('bounds the roots and names the living partitions that their records belong to', () => {
    const chosen = withWindow(mailing, chosenEntities(mailing, ['campaigns', 'email_activity']), window);
    const plan = planRun(mailing, chosen, nowMs, run);
    expect(plan).toMatchObject({
      kind: 'backfill',
      window: '2026-01-01T00:00:00.000Z/2026-02-01T00:00:00.000Z',
      backfill: 'b1',
    });
    expect(plan.roots).toEqual([
      expect.objectContaining({
        params: { since_send_time: bounds.since, before_send_time: bounds.before },
        base: {},
      }),
    ]);
  });

  it('bounds the deepest entity that takes bounds, and reads what leads to it in full', async () => {
    const chosen = withWindow(mailing, chosenEntities(mailing, ['lists', 'list_members']), window);
    expect(chosen.get('lists' as EntityName)?.bounds).toBeUndefined();
    expect(chosen.get('list_members' as EntityName)?.bounds).toEqual({
      since_last_changed: bounds.since,
      before_last_changed: bounds.before,
    });
    const [found] = await childrenOf('lists', { id: 'a1' }, true);
    expect(found).toMatchObject({
      params: { list_id: 'a1', since_last_changed: bounds.since, before_last_changed: bounds.before },
      base: { list_id: 'a1' },
      parent: { entity: 'lists', keyText: '["a1"]' },
    });
    expect((await childrenOf('lists', { id: 'a1' }, false))[0]).toMatchObject({
      params: { list_id: 'a1' },
      base: null,
    });
  });

  it('covers its last second where the window ends in the middle of one', () => {
    const untilMs = window.untilMs + 500;
    const chosen = withWindow(mailing, allEntities(mailing), { ...window, untilMs });
    expect(chosen.get('reports' as EntityName)?.bounds?.['before_send_time']).toBe(
      '2026-02-01T00:00:01+00:00',
    );
  });
});

describe('a child partition', () => {
  const page = { id: 'p1', object: 'page', created_time: '2026-01-01', parent: 'top', properties: 'none' };
  const edited = (time: string, more = {}) =>
    childrenOf('pages', { ...page, last_edited_time: time, ...more }, false);

  it('carries the change value of its parent, settled once its clock must have moved on', async () => {
    expect((await edited('2026-05-07T23:58:00.000Z'))[0]?.marker).toEqual({
      value: '2026-05-07T23:58:00.000Z',
      isSettled: true,
    });
    expect((await edited('2026-05-07T23:59:00.000Z'))[0]?.marker?.isSettled).toBe(false);
    expect((await edited('2099-01-01T00:00:00.000Z'))[0]?.marker?.isSettled).toBe(false);
  });

  it('is always read where the parent has no change value that can be read', async () => {
    expect((await edited('some day')).map(({ marker }) => marker)).toEqual([null, null]);
  });

  it('is not found below what listings leave out', async () => {
    expect(await edited('2026-05-07T23:58:00.000Z', { in_trash: true })).toEqual([]);
    expect(await edited('2026-05-07T23:58:00.000Z', { in_trash: false, archived: false })).toHaveLength(2);
  });
});

async function childrenOf(
  name: string,
  record: Record<string, string | boolean>,
  isBackfill: boolean,
): Promise<readonly FoundPartition[]> {
  const definition = name === 'pages' ? notes : mailing;
  const entity = entityNamed(definition, name);
  const entities = name === 'pages' ? allEntities(notes) : chosenEntities(mailing, ['lists', 'list_members']);
  const chosen = isBackfill ? withWindow(definition, entities, window) : entities;
  const prepare = compilePreparePage(
    { definition, entities: chosen, policies: new Map(), capMs: nowMs, isBackfill },
    entity,
  );
  const context = { alreadyRead: 0, answeredMs: nowMs, differenceMs: 0 };
  return (await prepare(testPartition(name), readRecords([record]), context)).stored.children;
}

const hourMs = 3_600_000;

describe('the windows of a backfill', () => {
  it('are calendar months in UTC, newest first, with the ends cut off', () => {
    expect(windows('2024-01-15', '2024-04-02T12:00', '1mo')).toEqual([
      '2024-04-01T00:00:00.000Z/2024-04-02T12:00:00.000Z',
      '2024-03-01T00:00:00.000Z/2024-04-01T00:00:00.000Z',
      '2024-02-01T00:00:00.000Z/2024-03-01T00:00:00.000Z',
      '2024-01-15T00:00:00.000Z/2024-02-01T00:00:00.000Z',
    ]);
  });

  it('are twelve for a year of months, leap or not', () => {
    for (const year of [2023, 2024]) {
      expect(windows(`${year}-01-01`, `${year + 1}-01-01`, '1mo')).toHaveLength(12);
    }
  });

  it('are quarters and years of the calendar for 3mo and 12mo', () => {
    expect(windows('2024-02-10', '2024-08-01', '3mo')).toEqual([
      '2024-07-01T00:00:00.000Z/2024-08-01T00:00:00.000Z',
      '2024-04-01T00:00:00.000Z/2024-07-01T00:00:00.000Z',
      '2024-02-10T00:00:00.000Z/2024-04-01T00:00:00.000Z',
    ]);
    expect(windows('2023-06-01', '2025-01-01', '12mo')).toEqual([
      '2024-01-01T00:00:00.000Z/2025-01-01T00:00:00.000Z',
      '2023-06-01T00:00:00.000Z/2024-01-01T00:00:00.000Z',
    ]);
  });

  it('begin at the beginning for other lengths', () => {
    expect(windows('2025-01-01T06:00', '2025-01-09', '7d')).toEqual([
      '2025-01-08T06:00:00.000Z/2025-01-09T00:00:00.000Z',
      '2025-01-01T06:00:00.000Z/2025-01-08T06:00:00.000Z',
    ]);
  });

  it('leave no gap and do not overlap, and a later end only adds some', () => {
    const random = seededRandom(7);
    for (let trial = 0; trial < 300; trial += 1) {
      const sinceMs = Math.floor(random() * 2e12);
      const untilMs = sinceMs + 1 + Math.floor(random() * 1000 * 24 * hourMs);
      const length =
        random() < 0.5
          ? ({ kind: 'months', months: 1 + Math.floor(random() * 14) } as const)
          : ({ kind: 'duration', ms: hourMs * (6 + Math.floor(random() * 500)) } as const);
      const found = backfillWindows({ sinceMs, untilMs, length });
      const bounds = found.toReversed().flatMap((one) => [one.sinceMs, one.untilMs]);
      expect([bounds[0], bounds.at(-1)]).toEqual([sinceMs, untilMs]);
      expect(bounds).toEqual(bounds.toSorted((left, right) => left - right));
      for (let at = 1; at < bounds.length - 1; at += 2) expect(bounds[at]).toBe(bounds[at + 1]);
      expect(found.every((one) => one.sinceMs < one.untilMs)).toBe(true);
      const longer = backfillWindows({ sinceMs, untilMs: untilMs + 90 * 24 * hourMs, length });
      const [, ...whole] = found;
      expect(longer.slice(longer.length - whole.length)).toEqual(whole);
    }
  });

  it('are refused where there would be none, or far too many', () => {
    expect(() => windows('2025-01-02', '2025-01-02', '1d')).toThrow(RangeError);
    expect(() => windows('2025-01-03', '2025-01-02', '1d')).toThrow(RangeError);
    expect(() => windows('2025-01-01', '2026-01-01', '60s')).toThrow(String(mostWindows));
  });
});

function windows(since: string, until: string, length: string): readonly string[] {
  const parsed = parseWindowLength(length);
  if (parsed === null) throw new Error(`no length: ${length}`);
  return backfillWindows({
    sinceMs: timeMs(since) ?? Number.NaN,
    untilMs: timeMs(until) ?? Number.NaN,
    length: parsed,
  }).map(windowText);
}

describe('budgets', () => {
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
});

/** Time stands still; sleeps are noted and end only by `wakeAll` or their signal. */
function stoppedClock(nowMs: number) {
  const sleeps: number[] = [];
  const open = new Set<() => void>();
  const clock: Clock = {
    now: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        sleeps.push(ms);
        open.add(resolve);
        signal?.addEventListener('abort', () => {
          open.delete(resolve);
          reject(signal.reason as Error);
        });
      }),
  };
  return { clock, sleeps, open, wakeAll: () => open.forEach((wake) => wake()) };
}

it('reports once that the time is over, counted from its start', async () => {
  const { clock, sleeps, wakeAll } = stoppedClock(10_000);
  const told: string[] = [];
  using _watch = watchTime(60_000, 4_000, { clock, onSpent: ({ code }) => told.push(code) });
  expect(sleeps).toEqual([54_000]);
  wakeAll();
  await new Promise(setImmediate);
  expect(told).toEqual(['BUDGET_SPENT']);
});

it('reports at once if the time was already over, and waits no longer than a timer can', () => {
  const { clock, sleeps } = stoppedClock(100_000);
  using _late = watchTime(1_000, 4_000, { clock, onSpent: () => undefined });
  using _long = watchTime(1e12, 100_000, { clock, onSpent: () => undefined });
  expect(sleeps).toEqual([0, 2 ** 31 - 1]);
});

it('leaves nothing behind when it is disposed, and waits for nothing without a budget', async () => {
  const { clock, sleeps, open } = stoppedClock(0);
  const told: string[] = [];
  const onSpent = ({ code }: { readonly code: string }): unknown => told.push(code);
  watchTime(1_000, 0, { clock, onSpent })[Symbol.dispose]();
  watchTime(null, 0, { clock, onSpent })[Symbol.dispose]();
  await new Promise(setImmediate);
  expect({ sleeps, open: open.size, told }).toEqual({ sleeps: [1_000], open: 0, told: [] });
});

const users = 'users' as EntityName;
const partition = testPartition('users');
const page: PreparedPage = {
  stored: {
    filtered: 0,
    foreign: 0,
    refused: [],
    children: [],
    rows: [{ entity: users, records: [] }],
    drift: [],
  },
  marks: [],
  keys: [],
  changes: [],
  undated: 0,
  differenceMs: null,
  isSorted: true,
  extraFields: new Map(),
  explodedFetched: 0,
  depthLimited: 0,
  partial: 0,
};

const failure = {
  code: 'NOT_FOUND',
  recovery: 'skip-partition',
  message: 'gone',
  at: '',
  dropPosition: false,
  dropWatermark: false,
} as const;

function tallied(fetched: number, counts: Partial<PageCounts>) {
  const tally = runTally([users]);
  tally.pageCommitted(partition, page, fetched, {
    counts: [{ entity: users, counts: { ...noCounts, ...counts } }],
    newlyDue: 0,
  });
  return tally;
}

describe("a run's account", () => {
  it('accepts an account in which every record is named once', () => {
    expect(() => tallied(3, { fetched: 3, inserted: 1, unchanged: 1, quarantined: 1 }).check()).not.toThrow();
  });

  // Proves promise 5
  it('refuses an account in which records are missing, in the engine or the sink', () => {
    expect(() => tallied(3, { fetched: 2, inserted: 2 }).check()).toThrow(/3 records were received/);
    expect(() => tallied(3, { fetched: 3, inserted: 2 }).check()).toThrow(/do not add up/);
  });

  it('fails an entity with more than one record in a hundred in quarantine', () => {
    const bad = tallied(100, { fetched: 100, inserted: 98, quarantined: 2 });
    expect(bad.isDegraded()).toBe(true);
    expect(bad.failures().reported).toMatchObject([{ entity: 'users', code: 'QUARANTINE_LIMIT' }]);
    const fair = tallied(100, { fetched: 100, inserted: 99, quarantined: 1 });
    expect({ degraded: fair.isDegraded(), failures: fair.failures().reported }).toEqual({
      degraded: false,
      failures: [],
    });
  });

  it('counts what a get brought as read, and refuses an account in which it is missing', () => {
    const tally = runTally([users]);
    tally.confirmed(users, 2, { ...noCounts, fetched: 2, updated: 1, unchanged: 1 });
    expect(() => tally.check()).not.toThrow();
    tally.confirmed(users, 1, noCounts);
    expect(() => tally.check()).toThrow(/3 records were received/);
  });

  it('is degraded by a walk that missed an existing record, not by withheld or pending rows', () => {
    const tally = runTally([users]);
    const missing = {
      withheld: 300,
      pending: 2,
      toConfirm: 0,
      withheldBecause: 'share',
      withholding: null,
    } as const;
    tally.missing(new Map([[users, missing]]));
    tally.deleted(users, 4);
    expect(tally.isDegraded()).toBe(false);
    expect(tally.entities()).toMatchObject([{ withheld: 300, pending: 2, deleted: 4, isWhole: true }]);
    tally.withdrawn(users);
    expect(tally.isDegraded()).toBe(true);
    expect(tally.entities()).toMatchObject([{ withdrawn: 1, isWhole: false }]);
  });

  it('no longer counts a partition as set aside when its parent turns out to be deleted', () => {
    const tally = runTally([users]);
    for (const id of [1, 2]) tally.setAside({ ...partition, id }, failure);
    tally.endedBelow([{ id: 1, entity: users }]);
    expect(tally.failures().reported).toHaveLength(1);
    expect(tally.isDegraded()).toBe(true);
    tally.endedBelow([{ id: 2, entity: users }]);
    expect(tally.failures()).toEqual({ reported: [], omitted: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('tells walks that read from a watermark from those that read from the start', () => {
    const tally = runTally([users]);
    const proof = { kind: 'keyset', isOrdered: true } as const;
    tally.sealed(partition, { proof: { kind: 'seam', isOrdered: true } });
    tally.sealed({ ...partition, mode: 'incremental' }, { proof });
    expect(tally.entities()).toMatchObject([{ incremental: 1, proofs: { seam: 1, keyset: 1 } }]);
    expect(tally.nothingRead()).toBe(false);
  });

  it('reports a hundred failures and counts the rest', () => {
    const tally = runTally([users]);
    for (let id = 0; id < 130; id += 1) tally.setAside({ ...partition, id }, failure);
    expect(tally.failures().reported).toHaveLength(100);
    expect(tally.failures().omitted).toBe(30);
    expect(tally.nothingRead()).toBe(true);
  });
});
