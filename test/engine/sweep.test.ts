import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import type { EntityName, RunId } from '../../src/core/names.ts';
import {
  isOtherAccount,
  isStrange,
  type Answered,
  type SampledEntity,
} from '../../src/engine/check-account.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';
import { findGetParams } from '../../src/engine/complete-page.ts';
import { nothingDone, runTally } from '../../src/engine/run-tally.ts';
import { judgeDeletes, sweepRun } from '../../src/engine/sweep/sweep-run.ts';
import { wholeEntities } from '../../src/engine/sync-connector.ts';
import { completenessOf, type RowsOf, type EntityReport } from '../../src/sinks/run-report.ts';
import type { Candidate, EndedPartition, Judgement, TombstoneChoice } from '../../src/sinks/deletes.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { entityNamed, allEntities, chosenEntities } from '../support/sync-once.ts';
import { repeats, startSeed } from '../support/trials.ts';
import { noCounts } from '../../src/core/records.ts';
import type { Lease } from '../../src/sinks/lease.ts';
import type { EntityMissing, Sink } from '../../src/sinks/sink-access.ts';
import { SyncError, type Recovery } from '../../src/core/errors.ts';
import type { RunEvent } from '../../src/core/events.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import { ordinaryRun, type RunOptions } from '../../src/engine/plan-run.ts';
import type { Run } from '../../src/engine/run.ts';
import type { Source } from '../../src/source/source.ts';

const mailingDefinition = builtInDefinition('email-marketing');
const members = 'list_members' as EntityName;
const lists = 'lists' as EntityName;
const campaigns = 'campaigns' as EntityName;

/** Missing rows of `list_members`, `lists` or `campaigns`, numbered from `from`. */
function missingRows(entity: EntityName, number: number, more: Partial<FakeRow> = {}): FakeRow[] {
  return Array.from({ length: number }, (_, index) => ({
    entity,
    row: index + 1,
    keyText: entity === members ? `["a1","m${index + 1}"]` : `["x${index + 1}"]`,
    needs: 'nothing' as const,
    missed: 1,
    isAllowed: false,
    wasVouchedFor: false,
    ...more,
  }));
}

/** What the service answers for the id of a record: null for one that is gone. */
type Answers = (id: string) => JsonValue;

let runs = 0;

/** The sweep of one run; each call is a run of its own. */
async function sweep(
  deletes: FakeDeletes,
  more: Partial<RunOptions> & {
    readonly answers?: Answers;
    readonly signal?: AbortSignal;
    readonly definition?: Definition;
    readonly requestsPerSecond?: number;
  } = {},
) {
  const {
    answers = () => null,
    signal = new AbortController().signal,
    definition = mailingDefinition,
    requestsPerSecond = 0.1,
    ...options
  } = more;
  /** Ids that were asked for, in order. */
  const asked: string[] = [];
  const events: RunEvent[] = [];
  const tally = runTally([...definition.entities.keys()]);
  const get: Source['get'] = ({ params }) => {
    const { subscriber_hash: member, campaign_id: campaign, list_id: list, block_id: block } = params;
    const id = [member, campaign, list, block].find((part) => typeof part === 'string') ?? '';
    asked.push(id);
    return new Promise((resolve) => resolve(answers(id)));
  };
  const run = {
    sink: { deletes },
    lease: { connector: 'test', epoch: 1 } as unknown as Lease,
    id: `r${(runs += 1)}` as RunId,
    source: { get },
    definition,
    policies: new Map(),
    entities: new Map(),
    asked: { ...ordinaryRun, ...options },
    concurrency: 3,
    requestsPerSecond,
    tally,
    onEvent: (event: RunEvent) => events.push(event),
    signal,
  };
  /** What ended the sweep early; null where nothing did. */
  const error: unknown = await sweepRun(run as unknown as Run).then(
    () => null,
    (reason: unknown) => reason,
  );
  return { events, asked, tally, error, report: (entity: EntityName) => reportOf(tally, entity) };
}

function fails(code: 'UPSTREAM' | 'NOT_FOUND' | 'AUTH_FAILED' | 'BUDGET_SPENT', recovery: Recovery): never {
  throw new SyncError(`fails with ${code}`, { code, recovery });
}

function reportOf(tally: ReturnType<typeof runTally>, entity: EntityName): EntityReport {
  const found = tally.entities().find((report) => report.entity === entity);
  if (found === undefined) throw new Error(`no report of ${entity}`);
  return found;
}

describe('a sweep', () => {
  it('suspects only parents that get can judge and that may be deleted', async () => {
    const deletes = fakeDeletes([], {});
    await sweep(deletes);
    const [, ...suspects] = deletes.calls.find((call) => call.startsWith('suspect'))?.split(' ') ?? [];
    expect(suspects).toContain('list_members');
    for (const name of ['segment_members', 'automations', 'email_activity', 'unsubscribes']) {
      expect(suspects).not.toContain(name);
    }
  });

  it('withholds what a guard does not believe, asks and marks nothing of it, and says so', async () => {
    const deletes = fakeDeletes([...missingRows(members, 300, { needs: 'get' }), ...missingRows(lists, 2)], {
      list_members: 1000,
      lists: 100,
    });
    const { report, events, asked } = await sweep(deletes);
    expect(asked).toEqual([]);
    expect(report(members)).toMatchObject({
      deleted: 0,
      withheld: 300,
      pending: 0,
      withheldBecause: 'share',
    });
    expect(report(lists)).toMatchObject({ deleted: 2, withheld: 0, withheldBecause: null });
    expect(report(members).withholding).toEqual({
      dayAgo: 1000,
      deletedInDay: 0,
      below: 0,
      along: [],
      maxDeleteShare: 0.2,
      minDeleteRows: 20,
    });
    expect(events.filter(({ kind }) => kind === 'deletes-withheld')).toEqual([
      { kind: 'deletes-withheld', entity: members, rows: 300, live: 1000, because: 'share' },
    ]);
  });

  it('keeps lists that would take too many members along, with all of those', async () => {
    const along = { lists: [{ entity: members, rows: 400 }] };
    const deletes = fakeDeletes(missingRows(lists, 2), { lists: 100, list_members: 1000 }, { along });
    const { report, events } = await sweep(deletes);
    expect(report(lists)).toMatchObject({
      deleted: 0,
      withheld: 2,
      withheldBecause: 'along',
      withholding: { along: along.lists },
    });
    expect(report(members)).toMatchObject({ withheld: 0, pending: 0 });
    expect(events.map(({ kind }) => kind)).toEqual(['sweep-started', 'deletes-withheld']);
    expect((await sweep(deletes, { allowDeletes: true })).report(lists)).toMatchObject({ deleted: 2 });
  });

  it('says how many rows of an entity would go along with the records of others', async () => {
    const rows = [...missingRows(members, 100), ...missingRows(lists, 2)];
    const along = { lists: [{ entity: members, rows: 400 }] };
    const { report } = await sweep(fakeDeletes(rows, { lists: 100, list_members: 2000 }, { along }));
    expect(report(members)).toMatchObject({
      withheld: 100,
      withheldBecause: 'share',
      withholding: { dayAgo: 2000, deletedInDay: 0, below: 400 },
    });
  });

  // Proves promise 4
  it('counts what get no longer returns although it did before, before it is deleted', async () => {
    const rows = missingRows(members, 150, { needs: 'get', wasVouchedFor: true });
    const deletes = fakeDeletes(rows, { list_members: 400 });
    const { report, asked } = await sweep(deletes);
    expect(asked).toHaveLength(150);
    expect(report(members)).toMatchObject({ deleted: 0, withheld: 150, withheldBecause: 'share' });
    expect((await sweep(deletes)).report(members), 'and goes on counting').toMatchObject({ withheld: 150 });
  });

  it('completes deletes that an earlier run was allowed while new rows are withheld', async () => {
    const rows = [...missingRows(lists, 50, { isAllowed: true }), ...missingRows(lists, 300)];
    const { report } = await sweep(fakeDeletes(rows, { lists: 400 }));
    expect(report(lists)).toMatchObject({ deleted: 50, withheld: 300, withheldBecause: 'share' });
  });

  it('marks of an entity that came back empty what had been missed before', async () => {
    const rows = [...missingRows(lists, 2, { missed: 2 }), ...missingRows(lists, 3)];
    const { report } = await sweep(fakeDeletes(rows, { lists: 5 }));
    expect(report(lists)).toMatchObject({ deleted: 2, withheld: 3, withheldBecause: 'empty' });
  });

  it('leaves what must be missed twice for the next walk, and counts it as pending', async () => {
    const rows = [
      ...missingRows(campaigns, 2, { needs: 'walk' }),
      ...missingRows(campaigns, 1, { needs: 'walk', missed: 2 }),
    ];
    const { report, tally } = await sweep(fakeDeletes(rows, { campaigns: 100 }));
    expect(report(campaigns)).toMatchObject({ deleted: 1, pending: 2, withheld: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('says what is withheld and pending also where it is broken off', async () => {
    const stop = new AbortController();
    const reason = new Error('stopped by test');
    const rows = [...missingRows(lists, 300), ...missingRows(members, 3, { needs: 'get' })];
    const { report, error } = await sweep(fakeDeletes(rows, { lists: 400, list_members: 100 }), {
      signal: stop.signal,
      answers: () => {
        stop.abort(reason);
        return null;
      },
    });
    expect(error).toBe(reason);
    expect(report(lists)).toMatchObject({ withheld: 300, deleted: 0 });
    expect(report(members)).toMatchObject({ pending: 3 });
  });
});

const guards = { maxDeleteShare: 0.2, minDeleteRows: 20 };
const all = { withheldBecause: null, passing: ['all'] };
const byShare = { withheldBecause: 'share', passing: ['allowed'] };
const users = 'users' as EntityName;
const notes = 'notes' as EntityName;

function found(more: Partial<EntityMissing>): EntityMissing {
  const { live = 100, deletedInDay = 0 } = more;
  return {
    entity: users,
    live,
    dayAgo: live + deletedInDay,
    deletedInDay,
    missing: 0,
    allowed: 0,
    missedTwice: 0,
    vouchedFor: 0,
    toConfirm: 0,
    orphans: 0,
    hasSurvivor: true,
    along: [],
    isAdopted: false,
    ...more,
  };
}

const judge = (of: Partial<EntityMissing>, others: readonly EntityMissing[] = [], by = guards) => {
  const [own] = judgeDeletes([found(of), ...others], by);
  return { withheldBecause: own?.withheldBecause, passing: own?.passing };
};

describe('the guard of deletes', () => {
  it.each<[string, Partial<EntityMissing>, object]>([
    ['nothing is missing', {}, all],
    ['nothing is stored', { live: 0 }, all],
    [
      'one row of an adopted entity',
      { live: 1000, missing: 1, isAdopted: true },
      { withheldBecause: 'adopted', passing: ['allowed'] },
    ],
    ['what a person allowed of one', { live: 1000, missing: 1, allowed: 1, isAdopted: true }, all],
    ['few rows of many', { live: 1000, missing: 5 }, all],
    ['exactly the share', { live: 1000, missing: 200 }, all],
    ['one more than the share', { live: 1000, missing: 201 }, byShare],
    ['exactly the least number, of few rows', { live: 25, missing: 20 }, all],
    ['one more than the least number, of few rows', { live: 25, missing: 21 }, byShare],
    ['the rest of the share, after deletes of the day', { live: 900, deletedInDay: 100, missing: 100 }, all],
    ['one more than that', { live: 900, deletedInDay: 100, missing: 101 }, byShare],
    ['less than the share, of rows that came today', { live: 9000, dayAgo: 100, missing: 21 }, byShare],
    ['as much, of which get has returned all before', { live: 1000, missing: 900, vouchedFor: 900 }, all],
    ['as much, of which get has returned few before', { live: 1000, missing: 900, vouchedFor: 600 }, byShare],
    [
      'all of it, and get has returned all before',
      { live: 9, missing: 9, vouchedFor: 9, hasSurvivor: false },
      all,
    ],
    ['as much, and all of it allowed', { live: 1000, missing: 900, allowed: 900 }, all],
    ['as much, of which few are not allowed', { live: 1000, missing: 900, allowed: 895 }, all],
    ['as much, of which many are not allowed', { live: 1000, missing: 900, allowed: 600 }, byShare],
  ])('judges: %s', (_title, missing, verdict) => {
    expect(judge(missing)).toEqual(verdict);
  });

  // Proves promise 4
  it('withholds records that would take too many rows of others along, and too many of those with them', () => {
    const along = (rows: number): readonly RowsOf[] => [{ entity: notes, rows }];
    const ofNotes = (more: Partial<EntityMissing> = {}): EntityMissing =>
      found({ entity: notes, live: 1000, ...more });
    expect(judge({ missing: 6, along: along(200) }, [ofNotes()])).toEqual(all);
    const byOthers = { withheldBecause: 'along', passing: ['allowed'] };
    expect(judge({ missing: 6, along: along(201) }, [ofNotes()])).toEqual(byOthers);
    // Own and taken along count together, and so do those of several entities that lead there.
    const both = judgeDeletes([found({ missing: 6, along: along(150) }), ofNotes({ missing: 51 })], guards);
    expect(both.map(({ withheldBecause }) => withheldBecause)).toEqual(['along', 'share']);
    const other = found({ entity: 'teams' as EntityName, missing: 1, along: along(100) });
    expect(judge({ missing: 1, along: along(101) }, [other, ofNotes()])).toEqual(byOthers);
    expect(judge({ missing: 1, along: along(101) }, [ofNotes({ deletedInDay: 130 })])).toEqual(byOthers);
  });

  // Proves promise 4
  it('keeps an entity that came back empty until another chain of runs has missed all of it', () => {
    const empty = { live: 5, missing: 5, hasSurvivor: false };
    const kept = { withheldBecause: 'empty', passing: ['allowed', 'missed-twice'] };
    expect(judge(empty)).toEqual(kept);
    expect(judge({ ...empty, missedTwice: 4 })).toEqual(kept);
    expect(judge({ ...empty, missedTwice: 5 })).toEqual(all);
    expect(judge({ ...empty, allowed: 5 })).toEqual(all);
  });

  it('keeps an entity that came back empty however often it does, where that is too much', () => {
    const large = { live: 500, missing: 500, hasSurvivor: false };
    expect(judge(large)).toEqual({ withheldBecause: 'empty', passing: ['allowed'] });
    expect(judge({ ...large, missedTwice: 500 })).toEqual(byShare);
    const parents = { live: 6, missing: 6, hasSurvivor: false, along: [{ entity: notes, rows: 4730 }] };
    const ofNotes = found({ entity: notes, live: 4736 });
    expect(judge(parents, [ofNotes])).toEqual({ withheldBecause: 'empty', passing: ['allowed'] });
    expect(judge({ ...parents, missedTwice: 6 }, [ofNotes])).toEqual({
      withheldBecause: 'along',
      passing: ['allowed'],
    });
  });

  // Proves promise 4
  it('keeps rows of which others came in place until a person lets them go', () => {
    const kept = { withheldBecause: 'replaced', passing: ['allowed'] };
    const replaced = { live: 4, missing: 2, missedTwice: 2, hasSurvivor: false };
    expect(judge(replaced)).toEqual(kept);
    expect(judge({ ...replaced, allowed: 2 })).toEqual(all);
    const one = { live: 2, missing: 1, hasSurvivor: false };
    expect(judge(one), 'one row without any below it').toEqual(all);
    expect(judge({ ...one, along: [{ entity: notes, rows: 1 }] })).toEqual(kept);
  });

  it('compares shares that no binary fraction can hold as they are written', () => {
    const strict = { maxDeleteShare: 0.57, minDeleteRows: 0 };
    expect(judge({ live: 100, missing: 57 }, [], strict)).toEqual(all);
    expect(judge({ live: 100, missing: 58 }, [], strict)).toEqual(byShare);
  });

  it('lets nothing pass with a share and a least number of zero, and everything with a share of one', () => {
    expect(judge({ live: 1_000_000, missing: 1 }, [], { maxDeleteShare: 0, minDeleteRows: 0 })).toEqual(
      byShare,
    );
    const most = { live: 50, dayAgo: 10, missing: 49, along: [{ entity: notes, rows: 50 }] };
    const ofNotes = found({ entity: notes, live: 50 });
    expect(judge(most, [ofNotes], { maxDeleteShare: 1, minDeleteRows: 0 })).toEqual(all);
  });
});

const member = (id: string, more: Readonly<Record<string, JsonValue>> = {}): JsonValue => ({
  id,
  list_id: 'a1',
  email_address: `${id}@example.com`,
  status: 'subscribed',
  ...more,
});
const large = { list_members: 10_000, campaigns: 10_000, lists: 10_000 };
const blocks = 'blocks' as EntityName;
const needsGet = { needs: 'get' as const };

describe('a row that looks deleted', () => {
  it('is deleted when get does not find it either', async () => {
    const deletes = fakeDeletes(missingRows(members, 3, needsGet), large);
    const { report, asked, events } = await sweep(deletes);
    expect(asked.toSorted()).toEqual(['m1', 'm2', 'm3']);
    expect(deletes.judged.map(({ verdict }) => verdict)).toEqual(['gone', 'gone', 'gone']);
    expect(report(members)).toMatchObject({ deleted: 3, pending: 0, withdrawn: 0 });
    expect(events.filter(({ kind }) => kind === 'record-confirmed')).toHaveLength(3);
  });

  // Proves promise 4
  it('is stored when get returns it, and withdraws the proof of its walk', async () => {
    const deletes = fakeDeletes(missingRows(members, 1, needsGet), large);
    const { report, tally } = await sweep(deletes, { answers: (id) => member(id) });
    expect(deletes.judged).toMatchObject([
      { verdict: 'there', isUnlisted: false, record: { keyText: '["a1","m1"]' } },
    ]);
    expect(report(members)).toMatchObject({
      deleted: 0,
      withdrawn: 1,
      isWhole: false,
      counts: { fetched: 1, unchanged: 1 },
    });
    expect(tally.isDegraded()).toBe(true);
    expect(() => tally.check()).not.toThrow();
  });

  it('withdraws each walk once, however many of its records exist', async () => {
    const rows = [
      ...missingRows(members, 5, { ...needsGet, partition: 'a' }),
      ...missingRows(members, 30, { ...needsGet, partition: 'b' }).slice(5),
    ];
    const { report } = await sweep(fakeDeletes(rows, large), { answers: (id) => member(id) });
    expect(report(members)).toMatchObject({ withdrawn: 2, counts: { fetched: 30 } });
  });

  it('withdraws nothing where listings are known to leave such records out, or were before', async () => {
    const rows = [
      ...missingRows(members, 1, needsGet),
      ...missingRows(members, 2, { ...needsGet, wasVouchedFor: true }).slice(1),
    ];
    const deletes = fakeDeletes(rows, large);
    const { report, tally } = await sweep(deletes, {
      answers: (id) => member(id, id === 'm1' ? { status: 'archived' } : {}),
    });
    expect(deletes.judged.map((one) => one.verdict === 'there' && one.isUnlisted)).toEqual([true, false]);
    expect(report(members)).toMatchObject({ withdrawn: 0, deleted: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('withdraws nothing where get returns a record that the walk put in quarantine', async () => {
    const deletes = fakeDeletes(missingRows(members, 1, needsGet), large);
    const { report, tally } = await sweep(deletes, {
      answers: (id) =>
        member(id, { merge_fields: JSON.parse(`${'['.repeat(200)}${']'.repeat(200)}`) as JsonValue }),
    });
    expect(deletes.judged).toMatchObject([{ verdict: 'there', record: null, isRefused: true }]);
    expect(report(members)).toMatchObject({ withdrawn: 0, deleted: 0 });
    expect(tally.isDegraded()).toBe(false);
  });

  it('stays unchanged if get returns another record or one that cannot be stored', async () => {
    const deletes = fakeDeletes(missingRows(members, 2, needsGet), large);
    const { report } = await sweep(deletes, {
      answers: (id) => (id === 'm1' ? member('someone-else') : { status: 'subscribed' }),
    });
    expect(deletes.judged).toMatchObject([
      { verdict: 'there', record: null },
      { verdict: 'there', record: null },
    ]);
    expect(report(members).counts.fetched).toBe(0);
  });

  it('stays unchanged if get returns only a part of a block, which does not say that it has left its page', async () => {
    const keyText = '["b1"]';
    const deletes = fakeDeletes(missingRows(blocks, 1, { ...needsGet, keyText }), { blocks: 10_000 });
    const { report } = await sweep(deletes, {
      definition: builtInDefinition('workspace-notes'),
      answers: (id) => ({ object: 'block', id }),
    });
    expect(deletes.judged).toMatchObject([{ verdict: 'there', record: null, isUnlisted: false }]);
    expect(report(blocks)).toMatchObject({ deleted: 0 });
  });

  // Proves promise 4
  it('is asked about at most as often as the rate allows in ten minutes, entities taking turns', async () => {
    const rows = [...missingRows(members, 1_500, needsGet), ...missingRows(campaigns, 30, needsGet)];
    const { report, asked } = await sweep(fakeDeletes(rows, large), { requestsPerSecond: 2 });
    expect(asked).toHaveLength(1_200);
    expect(new Set(asked).size).toBe(1_200);
    expect(report(campaigns)).toMatchObject({ deleted: 30, pending: 0, toConfirm: 0 });
    expect(report(members)).toMatchObject({ deleted: 1_170, pending: 330, toConfirm: 330 });
  });

  it.each([{ maxCalls: 5_000 }, { budgetMs: 3_600_000 }])(
    'is asked about until nothing is left where the run has a limit: %j',
    async (limit) => {
      const deletes = fakeDeletes(missingRows(members, 1_000, needsGet), large);
      const { asked, report } = await sweep(deletes, limit);
      expect(asked).toHaveLength(1_000);
      expect(report(members)).toMatchObject({ deleted: 1_000, pending: 0, toConfirm: 0 });
    },
  );

  // Proves promise 4
  it('is deleted although the time of the run is over, once it was answered', async () => {
    const deletes = fakeDeletes(missingRows(members, 100, needsGet), large);
    const over = new AbortController();
    let answered = 0;
    const answers = (): null => {
      answered += 1;
      if (answered === 30) over.abort(new Error('over'));
      return null;
    };
    const { report, error } = await sweep(deletes, { answers, signal: over.signal, budgetMs: 1_000 });
    expect(error).toMatchObject({ message: 'over' });
    expect(report(members).deleted).toBeGreaterThanOrEqual(30);
  });

  it.each([
    ['UPSTREAM', 'retry'],
    ['NOT_FOUND', 'skip-partition'],
    ['UPSTREAM', 'skip-entity'],
  ] as const)(
    'stays pending when its question fails (%s, %s), and others are asked',
    async (code, recovery) => {
      const deletes = fakeDeletes(missingRows(members, 40, needsGet), large);
      const { report, error, asked } = await sweep(deletes, {
        answers: (id) => (id === 'm2' || id === 'm35' ? fails(code, recovery) : null),
      });
      expect(error).toBeNull();
      expect(asked).toHaveLength(40);
      expect(report(members)).toMatchObject({ deleted: 38, pending: 2, withdrawn: 0 });
    },
  );

  it('is asked about in this run although others before it got no answer', async () => {
    const deletes = fakeDeletes(missingRows(members, 100, needsGet), large);
    const isUnanswered = (id: string): boolean => id.endsWith('7');
    const answers = (id: string): JsonValue => (isUnanswered(id) ? fails('UPSTREAM', 'retry') : null);
    const { asked, report } = await sweep(deletes, { answers });
    expect(asked).toHaveLength(100);
    expect(new Set(asked).size, 'each once').toBe(100);
    expect(report(members)).toMatchObject({ deleted: 90, pending: 10 });
    const next = await sweep(deletes);
    expect(next.asked.toSorted(), 'again in the next run').toEqual(asked.filter(isUnanswered).toSorted());
  });

  it.each([
    ['AUTH_FAILED', 'stop'],
    ['UPSTREAM', 'throttle'],
    ['BUDGET_SPENT', 'stop'],
  ] as const)(
    'ends the sweep when its question fails with %s (%s), after the answers are stored',
    async (code, recovery) => {
      const deletes = fakeDeletes([...missingRows(members, 40, needsGet), ...missingRows(lists, 2)], large);
      let answered = 0;
      const { error, report, asked } = await sweep(deletes, {
        answers: () => {
          answered += 1;
          return answered > 30 ? fails(code, recovery) : null;
        },
      });
      expect(error).toMatchObject({ code });
      expect(asked.length).toBeLessThanOrEqual(33);
      expect(report(members).deleted).toBe(30);
      expect(report(lists).deleted, 'needs no question').toBe(2);
    },
  );

  it('that no get can be made for stays pending and costs no call', async () => {
    const rows = missingRows(members, 30, needsGet).map((row) => ({ ...row, keyText: '["a1"]' }));
    const { asked, report } = await sweep(fakeDeletes(rows, large));
    expect(asked).toEqual([]);
    expect(report(members)).toMatchObject({ deleted: 0, pending: 30 });
  });
});

describe('the parameters of a get', () => {
  const mailing = builtInDefinition('email-marketing');
  const members = entityNamed(mailing, 'list_members');
  const interests = entityNamed(mailing, 'interests');
  const segments = entityNamed(mailing, 'segments');

  it('come from the key, in the type that the service wants', () => {
    const row = { keyText: '["a1","5d41402abc4b2a76b9719d911017c592"]', inject: {}, params: {} };
    expect(findGetParams(members, row)).toEqual({
      list_id: 'a1',
      subscriber_hash: '5d41402abc4b2a76b9719d911017c592',
    });
  });

  it('come from what the partition fills in, and from its own parameters', () => {
    const parts = keyOf(interests.key, { id: 'i1', category_id: 'c1', list_id: 'a1' });
    const params = { list_id: 'a1', interest_category_id: 'c1' };
    expect(findGetParams(interests, { keyText: parts, inject: {}, params })).toEqual({
      ...params,
      interest_id: 'i1',
    });
  });

  it.each([9007199254740993n, 9007199254740992n])('keep every digit of a number: %s', (id) => {
    const keyText = keyOf(segments.key, { list_id: 'a1', id });
    expect(findGetParams(segments, { keyText, inject: {}, params: { list_id: 'a1' } })).toEqual({
      list_id: 'a1',
      segment_id: String(id),
    });
  });

  it('are not to be had where the entity has no get, or where a part is missing', () => {
    const none = entityNamed(mailing, 'segment_members');
    expect(findGetParams(none, { keyText: '["x"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1"]', inject: {}, params: {} })).toBeNull();
    expect(findGetParams(members, { keyText: '["a1",null]', inject: {}, params: {} })).toBeNull();
  });

  it('hold what looks like JSON in a key as the text that it is', () => {
    const keyText = '["a,\\"]1","[\\\\\\",\\"x"]';
    expect(findGetParams(members, { keyText, inject: {}, params: {} })).toEqual({
      list_id: 'a,"]1',
      subscriber_hash: '[\\","x',
    });
  });
});

function keyOf(names: readonly string[], values: Readonly<Record<string, string | bigint>>): string {
  const parts = names.map((name) => values[name] ?? null);
  return `[${parts.map((part) => (typeof part === 'bigint' ? String(part) : JSON.stringify(part))).join(',')}]`;
}

const seed = startSeed(11);
const trials = repeats('TRIALS', { share: 1_000, full: 10_000 });

/** Rows of one listing, before and after what happened to the account. */
interface Listing {
  readonly stored: readonly number[];
  readonly served: readonly number[];
}

function shuffled(ids: readonly number[], random: () => number): readonly number[] {
  return ids
    .map((id) => [random(), id] as const)
    .toSorted(([one], [other]) => one - other)
    .map(([, id]) => id);
}

/** A day or a month of an account: some leave, others come, and the listing may be in any order. */
function honestListing(size: number, mostLeave: number, random: () => number): Listing {
  const stored = Array.from({ length: size }, (_, id) => id);
  const share = random() * mostLeave;
  const stay = stored.filter(() => random() >= share);
  const come = Array.from({ length: Math.floor(random() * 2 * size) }, (_, index) => size + index);
  const order = random();
  const served =
    order < 0.4
      ? [...stay, ...come]
      : order < 0.8
        ? [...come, ...stay]
        : shuffled([...stay, ...come], random);
  return { stored, served };
}

function sampled({ stored, served }: Listing, isWalked: boolean, random: () => number): SampledEntity {
  const there = new Set(served);
  const spread = Array.from(
    { length: Math.min(5, stored.length) },
    (_, index) => stored[Math.floor((stored.length * index) / 5)] ?? 0,
  );
  const answers = spread.map((id): Answered => {
    if (random() < 0.02) return 'unanswered';
    return there.has(id) ? 'found' : 'not-found';
  });
  return { isWalked, answers };
}

/** Whether the run stops at the first page of the first of the listings. */
function stops([walked, ...roots]: readonly Listing[], random: () => number): boolean {
  if (walked === undefined) return false;
  const page = walked.served.slice(0, 10 + Math.floor(random() * 990));
  const stored = new Set(walked.stored);
  const known = page.filter((id) => stored.has(id)).length;
  const account = { live: stored.size, isAdopted: false, records: page.length, known };
  if (!isStrange(account)) return false;
  return isOtherAccount(
    [sampled(walked, true, random), ...roots.map((root) => sampled(root, false, random))],
    stored.size,
  );
}

describe('the check for another account', () => {
  // Proves promise 4.1
  it(`stops none of ${trials} honest revisions of accounts (seed ${seed})`, () => {
    const random = seededRandom(seed);
    let strange = 0;
    for (let trial = 0; trial < trials; trial += 1) {
      const rows = trial % 2 === 0 ? 1_001 : 1;
      const walked = honestListing(rows + Math.floor(random() * 500), 0.3, random);
      const roots = Array.from({ length: 1 + Math.floor(random() * 4) }, () =>
        honestListing(1 + Math.floor(random() * 20), 0.1, random),
      );
      if (!walked.served.slice(0, 10).some((id) => id < walked.stored.length)) strange += 1;
      expect(stops([walked, ...roots], random), `trial ${trial}`).toBe(false);
    }
    expect(strange).toBeGreaterThan(trials / 10);
  });

  it('stops an account that shares no row', () => {
    const other = (size: number): Listing => {
      const stored = Array.from({ length: size }, (_, id) => id);
      return { stored, served: stored.map((id) => id + 100_000) };
    };
    expect(stops([other(1_001), other(1), other(20)], () => 0.5)).toBe(true);
    expect(stops([other(5), other(20)], () => 0.5)).toBe(true);
  });

  it('asks about nothing that has no row, was adopted, or shows one stored row', () => {
    const strange = { live: 1_001, isAdopted: false, records: 100, known: 0 };
    expect(isStrange(strange)).toBe(true);
    for (const more of [{ live: 0 }, { isAdopted: true }, { records: 0 }, { known: 1 }]) {
      expect(isStrange({ ...strange, ...more })).toBe(false);
    }
  });

  // Proves promise 4.1
  it('takes five rows of the listing, or without a get two other entities, that are all gone', () => {
    const gone = (isWalked: boolean, rows: number): SampledEntity => ({
      isWalked,
      answers: Array.from({ length: rows }, () => 'not-found' as const),
    });
    const isOther = (sampled: readonly SampledEntity[], live = 1_001): boolean =>
      isOtherAccount(sampled, live);
    expect(isOther([gone(true, 5)])).toBe(true);
    expect(isOther([gone(true, 4)])).toBe(false);
    expect(isOther([gone(true, 0), gone(false, 1)])).toBe(false);
    expect(isOther([gone(true, 0), gone(false, 1), gone(false, 2)])).toBe(true);
    expect(isOther([gone(true, 5), { isWalked: false, answers: ['not-found', 'unanswered'] }])).toBe(false);
    for (const [sampled, is] of [
      [[gone(true, 5)], false],
      [[gone(true, 5), gone(false, 2)], false],
      [[gone(true, 5), gone(false, 3)], true],
    ] as const) {
      expect(isOther(sampled, 1_000), 'of few rows').toBe(is);
    }
  });
});

const none: ReadonlySet<EntityName> = new Set();
const nothing = { partMissing: none, unconfirmed: none, left: none };
const mailing = builtInDefinition('email-marketing');

/** The entities that count as whole when something was left out of those named. */
function wholeWithout(leftOut: readonly string[], chosen: ChosenEntities = allEntities(mailing)): string[] {
  return wordsWithout(leftOut, chosen).flatMap(({ entity, isWhole }) => (isWhole ? [entity] : []));
}

function wordsWithout(
  leftOut: readonly string[],
  chosen: ChosenEntities = allEntities(mailing),
  found: Partial<typeof nothing> = {},
) {
  const names: readonly EntityName[] = [...mailing.entities.values()]
    .filter(({ name }) => chosen.has(name))
    .flatMap(({ name, explodedTable }) => (explodedTable === null ? [name] : [name, explodedTable.entity]));
  const reports = names.map((entity) => ({
    ...nothingDone,
    entity,
    pages: 1,
    proofs: { ...nothingDone.proofs, single: 1 },
    isWhole: !leftOut.includes(entity),
  }));
  return wholeEntities(mailing, chosen, reports, { ...nothing, ...found }, ({ isWhole }) => !isWhole);
}

describe('an entity is whole', () => {
  it('when nothing was left out anywhere', () => {
    expect(wholeWithout([])).toContain('email_activity_events');
    expect(wholeWithout([]).length).toBe(mailing.entities.size + 1);
  });

  // Proves promise 11.3
  it('not when something is missing of what leads to it, at whatever distance', () => {
    const whole = wholeWithout(['lists']);
    expect(whole).toContain('campaigns');
    for (const below of ['lists', 'list_members', 'segments', 'segment_members']) {
      expect(whole).not.toContain(below);
    }
  });

  it('not when its rows are made of elements of an entity that is not', () => {
    expect(wholeWithout(['email_activity'])).not.toContain('email_activity_events');
  });

  it('whatever is missing of entities beside and below it', () => {
    expect(
      wholeWithout(['list_members'], chosenEntities(mailing, ['lists', 'list_members', 'segments'])),
    ).toEqual(['lists', 'segments']);
  });
});

describe('the word for how complete an entity is', () => {
  const wordOf = (entity: string, found: Partial<typeof nothing>, leftOut: readonly string[] = []) =>
    wordsWithout(leftOut, allEntities(mailing), found).find((one) => one.entity === entity)?.completeness;
  const [lists] = [...mailing.entities.keys()].filter((name) => name === 'lists');
  const ofLists = new Set(lists === undefined ? [] : [lists]);

  // Proves promise 3
  it('is the worst of what holds of its listings', () => {
    const facts = { isUnread: false, isDoubted: false, isUnordered: false };
    expect(completenessOf(facts, [])).toBe('complete');
    expect(completenessOf({ ...facts, isUnordered: true }, [])).toBe('unconfirmed');
    expect(completenessOf({ ...facts, isDoubted: true, isUnordered: true }, [])).toBe('part-missing');
    expect(completenessOf({ ...facts, isUnread: true, isDoubted: true }, [])).toBe('not-yet');
    expect(completenessOf({ ...facts, isUnordered: true }, ['complete', 'part-missing'])).toBe(
      'part-missing',
    );
  });

  it.each([
    [{ unconfirmed: ofLists }, 'unconfirmed'],
    [{ partMissing: ofLists, unconfirmed: ofLists }, 'part-missing'],
    [{ left: ofLists, partMissing: ofLists }, 'not-yet'],
    [{}, 'complete'],
  ] as const)('holds of what is found through it too: %o', (found, word) => {
    expect(wordOf('lists', found)).toBe(word);
    expect(wordOf('segment_members', found)).toBe(word);
    expect(wordOf('campaigns', found)).toBe('complete');
  });

  it('is never "complete" where something of it failed', () => {
    expect(wordOf('list_members', {}, ['lists'])).toBe('not-yet');
    const failed = wordsWithout(['lists']).flatMap(({ entity, isProven }) => (isProven ? [] : [entity]));
    expect(failed).toEqual(expect.arrayContaining(['lists', 'list_members']));
    expect(failed).not.toContain('campaigns');
  });
});

/** One row that no full walk met. */
interface FakeRow {
  readonly entity: EntityName;
  readonly row: number;
  readonly keyText: string;
  needs: 'nothing' | 'get' | 'walk';
  missed: number;
  isAllowed: boolean;
  wasVouchedFor: boolean;
  readonly partition?: string;
  isFoundGone?: boolean;
}

type FakeDeletes = Sink['deletes'] & {
  /** Every call in order, with what matters of it. */
  readonly calls: string[];
  readonly rows: FakeRow[];
  readonly judged: Judgement[];
};

/** Deletes of plain objects: what is missing, of entities with so many live rows. */
function fakeDeletes(
  rows: FakeRow[],
  live: Readonly<Record<string, number>>,
  more: {
    readonly sweeps?: number;
    readonly orphans?: readonly (readonly RowsOf[])[];
    readonly replaced?: string;
    /** Rows that would go along with an entity's missing ones. */
    readonly along?: Readonly<Record<string, readonly RowsOf[]>>;
    readonly deletedInDay?: Readonly<Record<string, number>>;
    readonly ended?: readonly EndedPartition[];
  } = {},
): FakeDeletes {
  const calls: string[] = [];
  const judged: Judgement[] = [];
  /** Rows handed out for a `get`, with the run that did so last; in that order. */
  const asked = new Map<FakeRow, RunId>();
  let sweepsLeft = more.sweeps ?? 1;
  const orphans = [...(more.orphans ?? [])];
  const of = (entity: EntityName): FakeRow[] => rows.filter((row) => row.entity === entity);
  const deleted = new Map<EntityName, number>();
  const liveOf = (entity: EntityName): number =>
    (live[entity] ?? of(entity).length) - (deleted.get(entity) ?? 0);
  const remove = (gone: readonly FakeRow[]): void => {
    for (const row of gone) rows.splice(rows.indexOf(row), 1);
  };

  return {
    calls,
    rows,
    judged,
    batchRows: 1000,
    sweep: () => {
      calls.push('sweep');
      sweepsLeft -= 1;
      return Promise.resolve({ isDone: sweepsLeft <= 0 });
    },
    suspectParents: (_lease, _run, confirmable) => {
      calls.push(`suspect ${confirmable.join(' ')}`);
      return Promise.resolve();
    },
    endedBelow: () => Promise.resolve(more.ended ?? []),
    missing: () =>
      Promise.resolve(
        [...new Set([...rows.map(({ entity }) => entity), ...(Object.keys(live) as EntityName[])])].map(
          standing,
        ),
      ),
    allow: (_lease: Lease, _run: RunId, entity: EntityName) => {
      calls.push(`allow ${entity}`);
      for (const row of of(entity)) row.isAllowed = true;
      return Promise.resolve();
    },
    toConfirm: (_lease, run, entity, limit) => {
      const open = of(entity).filter((row) => row.needs === 'get' && asked.get(row) !== run);
      const order = [...asked.keys()];
      const handedOut = open.toSorted((a, b) => order.indexOf(a) - order.indexOf(b)).slice(0, limit);
      for (const row of handedOut) {
        asked.delete(row);
        asked.set(row, run);
      }
      return Promise.resolve(handedOut.map(candidate));
    },
    judge: (_lease, _run, entity, judgements) => {
      calls.push(`judge ${entity} ${judgements.length}`);
      judged.push(...judgements);
      for (const row of of(entity).filter((one) => judgements.some((judged) => judged.row === one.row))) {
        const isGone = judgements.some((one) => one.row === row.row && one.verdict === 'gone');
        if (isGone) Object.assign(row, { isFoundGone: true, wasVouchedFor: false });
        else remove([row]);
      }
      const stored = judgements.filter((one) => one.verdict === 'there' && one.record !== null).length;
      return Promise.resolve({ ...noCounts, fetched: stored, unchanged: stored });
    },
    tombstone: (_lease, _run, entity, which, limit) => {
      const ready = of(entity)
        .filter((row) => isReady(row, which))
        .slice(0, limit);
      if (ready.length > 0) calls.push(`tombstone ${entity} ${which} ${ready.length}`);
      remove(ready);
      deleted.set(entity, (deleted.get(entity) ?? 0) + ready.length);
      return Promise.resolve(ready.length);
    },
    tombstoneBelow: () => {
      calls.push('orphans');
      return Promise.resolve(orphans.shift() ?? []);
    },
  };

  function standing(entity: EntityName): EntityMissing {
    const missing = of(entity);
    const count = (isWanted: (row: FakeRow) => boolean): number => missing.filter(isWanted).length;
    return {
      entity,
      live: liveOf(entity),
      missing: missing.length,
      allowed: count((row) => row.isAllowed),
      missedTwice: count((row) => row.missed >= 2),
      vouchedFor: count((row) => row.wasVouchedFor && !row.isAllowed),
      toConfirm: count((row) => row.needs === 'get'),
      orphans: 0,
      dayAgo: liveOf(entity) + (deleted.get(entity) ?? 0),
      deletedInDay: (more.deletedInDay?.[entity] ?? 0) + (deleted.get(entity) ?? 0),
      hasSurvivor: missing.length < liveOf(entity) && more.replaced !== entity,
      along: missing.some((row) => !row.isAllowed) ? (more.along?.[entity] ?? []) : [],
      isAdopted: false,
    };
  }
}

function isReady(row: FakeRow, which: TombstoneChoice): boolean {
  if ((row.needs === 'get' && row.isFoundGone !== true) || (row.needs === 'walk' && row.missed < 2)) {
    return false;
  }
  if (which === 'allowed') return row.isAllowed;
  return which === 'all' || row.missed >= 2;
}

function candidate({ entity, row, keyText, wasVouchedFor, partition = 'p' }: FakeRow): Candidate {
  return {
    entity,
    row,
    keyText,
    params: { partition },
    inject: {},
    wasVouchedFor,
    missingSince: '2026-01-01T00:00:00.000Z',
  };
}
