import { expect, it as everywhere, onTestFinished } from 'vitest';
import { instant, systemClock } from '../../../src/core/clock.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import { noCounts } from '../../../src/core/records.ts';
import { newForMs } from '../../../src/sinks/readings.ts';
import type { ClaimedMessage, FoundState, NewMessage, NoticeChanges } from '../../../src/sinks/notices.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  dayMs,
  entityReport,
  hourMs,
  identity,
  member,
  members,
  news,
  opens,
  sealed,
  type Bench,
  type SinkKind,
  type Started,
  walkFailure,
  resetScope,
  start,
} from './fixture.ts';
import { rulesOf, useBench } from './use-bench.ts';

const wiki = 'wiki' as ConnectorName;
const unseen = 'unseen' as ConnectorName;

/** What an operator changes in a sink, and asks of it, while a run may be active. */
export function operating(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const now = (): string => instant(bench().clock.now());

  // Proves promise 11.3
  everywhere(
    'pauses connectors that it has never held, until they are resumed, and shows it to every reader',
    async () => {
      const sink = await bench().open();
      await using history = await bench().openHistory();
      expect(await history.pauses()).toEqual([]);
      await sink.pause([wiki], { since: now(), reason: 'moving house' });
      await sink.pause([news], { since: now(), reason: 'too expensive' });
      const who: unknown = expect.stringMatching(/^.+@.+$/);
      const paused = [
        { connector: news, since: now(), reason: 'too expensive', who },
        { connector: wiki, since: now(), reason: 'moving house', who },
      ];
      expect(await history.pauses()).toEqual(paused);
      expect(await (await bench().open()).history.pauses()).toEqual(paused);
      expect(await history.connectors()).toEqual([]);
      expect(await sink.resume([wiki, unseen])).toEqual(new Set([wiki]));
      expect(await sink.resume([wiki])).toEqual(new Set());
      expect(await history.pauses()).toEqual(paused.slice(0, 1));
    },
  );

  // Proves promise 11.3
  everywhere(
    'takes pauses and cancel requests from other processes while the holder’s run continues',
    async () => {
      const holder = await bench().open();
      const { started, commit } = await bench().walking('r1', {}, { sink: holder });
      const beside = await bench().open();
      await beside.pause([news], { since: now(), reason: 'enough' });
      expect(await holder.history.isCancelRequested(started.run)).toBe(false);
      expect(await beside.requestCancel(started.run, now())).toBe(true);
      expect(await beside.requestCancel(started.run, now())).toBe(true);
      expect(await holder.history.isCancelRequested(started.run)).toBe(true);
      await commit([member('1')]);
      expect(await bench().rows()).toHaveLength(1);
    },
  );

  it('refuses to cancel a run that is over or was never begun, and leaves the next run alone', async () => {
    const sink = await bench().open();
    const { started, finish } = await bench().walking('r1', {}, { sink });
    await sink.requestCancel(started.run, now());
    await finish({ outcome: 'interrupted' });
    expect(await sink.requestCancel(started.run, now())).toBe(false);
    expect(await sink.requestCancel('r0' as Started['run'], now())).toBe(false);
    const next = 'r2' as Started['run'];
    expect(await sink.startRun(started.lease, bench().plan(next))).toMatchObject({ continues: 'r1' });
    expect(await sink.history.isCancelRequested(next)).toBe(false);
    expect(await sink.history.isCancelRequested('r0' as Started['run'])).toBe(false);
  });

  it('reports the state of every connector at once, as the single questions do', async () => {
    const sink = await bench().open();
    expect(await sink.history.overview()).toEqual([]);
    await readAll(bench(), sink, 'r1', 'degraded', { withheld: 7 });
    const started = await bench().begin(sink, 'r2');
    const other = await sink.acquire(identity({ connector: wiki }));
    await sink.pause([unseen], { since: now(), reason: 'moving house' });
    const [first, second, third, ...more] = await sink.history.overview();
    expect(more).toEqual([]);
    const { lastRun, definition, connectorId, baseUrl } = (await sink.history.connectors([news]))[0] ?? {};
    const { report: _report, ...running } = lastRun ?? {};
    expect(first).toMatchObject({
      connector: news,
      identity: { definition, connectorId, baseUrl },
      paused: null,
      lastRun: running,
      lastEnded: { run: 'r1', state: 'degraded' },
      freshness: await sink.history.freshness(news),
      missing: [{ entity: members, withheld: 7, pending: 0 }],
    });
    expect(first?.lastRun).toMatchObject({ run: 'r2', state: 'running' });
    expect(second).toMatchObject({ connector: unseen, identity: null, lastRun: null, lastEnded: null });
    expect(second?.paused).toEqual(await sink.history.pause(unseen));
    expect(third).toMatchObject({ connector: wiki, paused: null, lastRun: null, missing: [] });
    expect(await sink.history.pause(news)).toBeNull();
    expect((await sink.history.connectors([wiki])).map(({ connector }) => connector)).toEqual([wiki]);
    await other[Symbol.asyncDispose]();
    await started.lease[Symbol.asyncDispose]();
  });

  everywhere(
    'adds up by day what runs have changed, and says what they read otherwise than before',
    async () => {
      const sink = await bench().open();
      const choices = (list: string): string => JSON.stringify([[members, [{ list }], []]]);
      const plan = { choices: choices('a') };
      await bench().read('r1', [member('1'), member('2')], { sink, plan });
      bench().clock.advance(dayMs);
      const updated = { ...entityReport(members, { fetched: 1, updated: 1 }), deleted: 2 };
      const ended = { entities: [updated, { ...updated, entity: opens, counts: noCounts }] };
      await bench().read('r2', [member('1', 'Bea')], { sink, plan: { choices: choices('b') }, ended });
      const nothing = { entity: members, added: 0, changed: 0, deleted: 0 };
      const second = [
        { ...nothing, day: '2026-03-02', changed: 1 },
        { ...nothing, day: '2026-03-02', deleted: 2 },
        { ...nothing, day: '2026-03-02', deleted: 2, entity: opens },
      ];
      const { changes } = sink.history;
      expect(await changes(news, instant(start + 1))).toEqual({ changes: second, oldestKept: null });
      const all = [{ ...nothing, day: '2026-03-01', added: 2 }, ...second];
      expect(new Set((await changes(news, instant(start))).changes)).toEqual(new Set(all));
      const same = { isOtherDefinition: false, added: [], left: [] };
      expect(await sink.history.scopeChanges(news, 9)).toMatchObject([
        { ...same, run: 'r2', changed: [members] },
      ]);
      // A run of chosen entities is no change of settings.
      await bench().read('r3', [], { sink, plan });
      await bench().read('r4', [], { sink, plan: { choices: choices('b') } });
      expect((await sink.history.scopeChanges(news, 9)).map(({ run }) => run)).toEqual(['r2']);
    },
  );

  // Proves promise 11.3
  it('knows how old an entity is: as the beginning of the newest chain that read all of it', async () => {
    const sink = await bench().open();
    const asOf = async (): Promise<unknown> =>
      (await sink.history.freshness(news)).find(({ entity }) => entity === members)?.asOf;
    expect(await sink.history.freshness(news)).toEqual([]);

    const first = now();
    await readAll(bench(), sink, 'r1', 'ok');
    expect(await asOf()).toBe(first);

    bench().clock.advance(hourMs);
    await readAll(bench(), sink, 'r2', 'degraded', { isWhole: false });
    expect(await asOf(), 'something of it was left out').toBe(first);

    bench().clock.advance(hourMs);
    const third = now();
    await readAll(bench(), sink, 'r3', 'degraded', { isWhole: true });
    expect(await asOf(), 'what was left out was of another entity').toBe(third);

    bench().clock.advance(hourMs);
    await readAll(bench(), sink, 'r4', 'failed', { isWhole: true });
    expect(await asOf(), 'the run did not come to its end').toBe(third);
    expect(await sink.history.freshness(wiki)).toEqual([]);
  });

  // Proves promise 11.3
  everywhere(
    'does not count a chain that began in the middle of a walk that an earlier one had left',
    async () => {
      const sink = await bench().open();
      const asOf = async (): Promise<unknown> => (await sink.history.freshness(news)).map(({ asOf }) => asOf);
      const first = now();
      const plan = { leaves: [members] };
      const { started, id, commit, finish } = await bench().walking('r1', plan, { sink });
      await commit([]);
      const why = walkFailure({ at: first });
      await sink.setAside(started.lease, { partition: id, run: started.run }, why);
      const aside = { ...entityReport(members, {}), isWhole: false };
      await finish({ outcome: 'degraded', entities: [aside] });
      await started.lease[Symbol.asyncDispose]();

      bench().clock.advance(hourMs);
      await readAll(bench(), sink, 'r2', 'ok', { plan });
      expect(await sink.history.run('r2' as Started['run'])).toMatchObject({ continues: null });
      expect(await asOf(), 'its first half is of the first run').toEqual([null, null]);

      bench().clock.advance(hourMs);
      const third = now();
      await readAll(bench(), sink, 'r3', 'ok', { plan });
      expect(await asOf()).toEqual([third, third]);
    },
  );

  it('still knows the age of an entity when the run that read it is past its retention', async () => {
    const sink = await bench().open();
    const first = now();
    await readAll(bench(), sink, 'r1', 'ok');
    bench().clock.advance(91 * dayMs);
    await readAll(bench(), sink, 'r2', 'degraded', { isWhole: false });
    expect(await sink.history.run('r1' as Started['run'])).toBeNull();
    expect(await sink.history.freshness(news)).toContainEqual({ entity: members, asOf: first });
  });
}

/** A run that reads its one partition to the end and reports it as given. */
async function readAll(
  bench: Bench,
  sink: Sink,
  run: string,
  outcome: RunReport['outcome'],
  { isWhole = true, withheld = 0, plan = {} } = {},
): Promise<void> {
  const entities = [
    { ...entityReport(members, {}), isWhole, withheld },
    { ...entityReport(opens, {}), isWhole },
  ];
  await bench.read(run, [], { sink, plan, ended: { outcome, entities } });
}

/** What a sink notes for people: how rows change from day to day, and who did what. */
export function noting(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  it('keeps acts for 400 days', async () => {
    const sink = await bench().open();
    await sink.noteAction({ action: 'run-now', connector: news });
    const first = await bench().walking('r1', {}, { sink });
    await first.commit([member('1')], { seal: sealed });
    bench().clock.advance(400 * dayMs);
    await first.finish();
    expect(await sink.history.actions({ limit: 9 })).toHaveLength(1);
    await first.release();
    const second = await bench().walking('r2', {}, { sink });
    bench().clock.advance(dayMs);
    await second.finish();
    expect(await sink.history.actions({ limit: 9 })).toEqual([]);
  });

  it('notes by which mask an entity is stored, and when all of it is', async () => {
    const sink = await bench().open();
    const maskedBy = (mask: string): Partial<RunPlan> => ({
      masks: [{ entity: members, mask, keyId: `key of ${mask}` }],
    });
    const readAll = async (run: string, plan: Partial<RunPlan>): Promise<unknown> => {
      const { commit, finish, release } = await bench().walking(run, { isFull: true, ...plan }, { sink });
      const begun = await sink.history.masks(news);
      await commit([member('1')], { seal: sealed });
      await finish();
      await release();
      bench().clock.advance(dayMs);
      return [begun, await sink.history.masks(news)];
    };
    const now = (): string => instant(bench().clock.now());
    const first = { entity: members, mask: 'a', keyId: 'key of a', deleted: 0, quarantined: 0 };
    const began = now();
    expect(await readAll('r1', maskedBy('a'))).toEqual([
      [{ ...first, since: null, readAt: null }],
      [{ ...first, since: null, readAt: began }],
    ]);
    const changed = now();
    const second = { ...first, mask: 'b', keyId: 'key of b', since: changed };
    expect(await readAll('r2', maskedBy('b'))).toEqual([
      [{ ...second, readAt: null }],
      [{ ...second, readAt: changed }],
    ]);
    expect(await readAll('r3', maskedBy('b'))).toEqual([
      [{ ...second, readAt: changed }],
      [{ ...second, readAt: changed }],
    ]);
    expect(await readAll('r4', {})).toEqual([[], []]);
  });

  it('notes who did what with the act itself, newest first', async () => {
    const { clock, folder } = bench();
    const sink = await bench().open();
    await using asAnna = await kind.open(folder, { clock, who: 'anna' });
    const wiki = 'wiki' as ConnectorName;
    await asAnna.pause([wiki], { since: instant(start), reason: 'moving house' });
    expect(await asAnna.resume([wiki])).toEqual(new Set([wiki]));
    expect(await asAnna.resume([wiki])).toEqual(new Set());
    const plan = bench().plan('r1', { act: { action: 'allow-deletes' } });
    {
      await using lease = await sink.acquire(identity());
      await sink.startRun(lease, plan);
      expect(await asAnna.requestCancel(plan.run, instant(start))).toBe(true);
    }
    const { partitions } = await sink.repair.reset(news, resetScope({ entity: members, withData: false }));
    const at = instant(start);
    const act = { at, connector: news, entity: null, detail: {}, run: null };
    const noted = await sink.history.actions({ limit: 9 });
    const host = /^.+@.+$/;
    expect(noted.map(({ id: _id, ...one }) => one)).toEqual([
      {
        ...act,
        who: expect.stringMatching(host) as string,
        action: 'reset',
        entity: members,
        detail: { withData: false, partitions, rows: 0 },
      },
      { ...act, who: 'anna', action: 'cancel', run: plan.run },
      { ...act, who: expect.stringMatching(host) as string, action: 'allow-deletes', run: plan.run },
      { ...act, who: 'anna', action: 'resume', connector: wiki },
      { ...act, who: 'anna', action: 'pause', connector: wiki, detail: { reason: 'moving house' } },
    ]);
    expect(await sink.history.actions({ limit: 1, connector: wiki })).toMatchObject([{ action: 'resume' }]);
  });

  it('keeps what people did when a connector is reset with its data', async () => {
    const { sink, commit, release } = await bench().walking();
    await commit([member('1')]);
    await sink.noteAction({ action: 'run-now', connector: news });
    await release();
    await sink.repair.reset(news, resetScope());
    expect((await sink.history.actions({ limit: 9 })).map(({ action }) => action)).toEqual([
      'reset',
      'run-now',
    ]);
  });
}

const how = { leaseMs: 60_000, keepMs: 60_000 };

function message(notice: string, change: Partial<NewMessage> = {}): NewMessage {
  return { notice, channel: 'ops', connector: news, kind: 'failed', payload: '{"odd":"\\u0000"}', ...change };
}

async function claimed(sink: Sink, channel = 'ops'): Promise<ClaimedMessage> {
  const found = await sink.notices.claim(channel, how);
  if (found.kind !== 'message') throw new Error(`expected a message, got ${JSON.stringify(found)}`);
  return found.message;
}

/** Notifications: each change is found once, and each message sent by one process at a time, in order. */
export function telling(kind: SinkKind): void {
  const bench = useBench(kind);
  /** As in another process, which waits for the write lock. */
  const openWaiting = async (): Promise<Sink> => {
    const { clock, folder } = bench();
    const sink = await kind.open(folder, {
      clock: { ...clock, sleep: async (ms) => await systemClock.sleep(ms) },
    });
    onTestFinished(async () => await sink[Symbol.asyncDispose]());
    return sink;
  };

  everywhere('finds each change once, however many processes look at the same time', async () => {
    const sinks = [await openWaiting(), await openWaiting(), await openWaiting()] as const;
    await bench().read('r1', [member('1')], { sink: sinks[0], ended: { outcome: 'failed' } });
    let decided = 0;
    const decide = ({ overviews, conditions }: FoundState): NoticeChanges | null => {
      decided += 1;
      expect(overviews.get(news)?.lastEnded?.state).toBe('failed');
      if (conditions.size > 0) return null;
      const since = '2026-03-01T10:00:00.000Z';
      return {
        stored: [
          { connector: news, kind: 'failed', subject: '', since, detail: '{}' },
          { connector: '', kind: 'publication-failed', subject: 'lake', since, detail: '{}' },
        ],
        dropped: [],
        messages: [message('n1')],
      };
    };
    await Promise.all(sinks.map(async ({ notices }) => await notices.update([news], decide)));
    expect(decided).toBeGreaterThan(3);
    const history = await bench().openHistory();
    const rows = await history.outbox(10);
    await history[Symbol.asyncDispose]();
    expect(rows.map(({ notice, attempts, givenUpAt }) => [notice, attempts, givenUpAt])).toEqual([
      ['n1', 0, null],
    ]);
    await sinks[1].notices.update([], ({ overviews, conditions }) => {
      expect([overviews.size, (conditions.get('') ?? []).map(({ subject }) => subject)]).toEqual([
        0,
        ['lake'],
      ]);
      return { stored: [], dropped: [...conditions.values()].flat(), messages: [] };
    });
    expect(await bench().count('_sync_conditions')).toBe(1);
  });

  everywhere('tells which fields are new since the first read', async () => {
    const sink = await bench().open();
    const read = async (name: string, field: string, known?: string): Promise<void> => {
      const run = await bench().walking(name, { isFull: true }, { sink });
      const drift = [
        { entity: members, field, kind: 'undeclared', type: 'string' },
        ...(known === undefined
          ? []
          : [{ entity: members, field: known, kind: 'undeclared', type: 'boolean' } as const]),
      ] as const;
      await run.commit([member(name)], { drift, seal: sealed });
      await run.finish();
      await run.release();
      bench().clock.advance(1_000);
    };
    await read('r1', 'old');
    await read('r2', 'new');
    const seen: string[] = [];
    await sink.notices.update([news], ({ fields }) => {
      seen.push(
        ...(fields.get(news) ?? []).map(({ entity, field, kind: how }) => `${entity}.${field} ${how}`),
      );
      return null;
    });
    expect(seen).toEqual(['members.new undeclared']);
    const overview = async () => (await sink.history.overview())[0]?.newFields.map(({ field }) => field);
    expect(await overview()).toEqual(['new']);
    // Known for longer than people are shown it; another type of its values is no news.
    bench().clock.advance(newForMs);
    await read('r3', 'newer', 'new');
    expect(await overview()).toEqual(['newer']);
  });

  everywhere('gives each message to one process at a time, those of a channel in order', async () => {
    const [one, two] = [await openWaiting(), await openWaiting()];
    await one.notices.put([message('a'), message('b'), message('m', { channel: 'mail', connector: null })]);
    const both = await Promise.all([one.notices.claim('ops', how), two.notices.claim('ops', how)]);
    expect(both.map((found) => found.kind).toSorted()).toEqual(['later', 'message']);
    expect(await two.notices.claim('none', how)).toEqual({ kind: 'none' });
    expect(await claimed(two, 'mail')).toMatchObject({ notice: 'm', connector: null });
    const first = both.flatMap((found) => (found.kind === 'message' ? [found.message] : []))[0];
    expect(first).toMatchObject({ ...message('a'), attempts: 1 });
    if (first === undefined) return;
    await two.notices.failed(first, 'it answered with 503', 0);
    // In front of the second one, and with the same id.
    const again = await claimed(two);
    expect(again).toMatchObject({ notice: 'a', attempts: 2 });
    // A process that lost its claim settles nothing.
    await one.notices.delivered(first);
    expect(await bench().count('_sync_outbox')).toBe(3);
    await two.notices.delivered(again);
    const second = await claimed(one);
    expect(second.notice).toBe('b');
    await one.notices.failed(second, 'it answered with 503', 60_000);
    expect(await two.notices.claim('ops', how)).toMatchObject({ kind: 'later' });
  });

  everywhere('gives up what is refused, and what was not delivered in time', async () => {
    const sink = await bench().open();
    await sink.notices.put([message('a'), message('b'), message('c')]);
    await sink.notices.failed(await claimed(sink), 'it answered with 400', null);
    expect((await claimed(sink)).notice).toBe('b');
    expect(await sink.notices.claim('ops', { ...how, keepMs: -60_000 })).toEqual({ kind: 'none' });
    const history = await bench().openHistory();
    const rows = await history.outbox(10);
    await history[Symbol.asyncDispose]();
    expect(rows.map(({ notice, lastError, givenUpAt }) => [notice, lastError, givenUpAt === null])).toEqual([
      ['a', 'it answered with 400', false],
      ['b', null, false],
      ['c', null, false],
    ]);
  });
}
