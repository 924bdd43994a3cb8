import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { ConnectorName } from '../../../src/core/names.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  dayMs,
  entityReport,
  hourMs,
  identity,
  member,
  members,
  news,
  onlyPartition,
  opens,
  page,
  sealed,
  report,
  type Bench,
  type SinkKind,
  type Started,
  walkFailure,
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
      const paused = [
        { connector: news, since: now(), reason: 'too expensive' },
        { connector: wiki, since: now(), reason: 'moving house' },
      ];
      expect(await history.pauses()).toEqual(paused);
      expect(await (await bench().open()).history.pauses()).toEqual(paused);
      expect(await history.connectors()).toEqual([]);
      expect(await sink.resume([wiki, unseen])).toEqual(new Set([wiki]));
      expect(await sink.resume([wiki])).toEqual(new Set());
      expect(await history.pauses()).toEqual(paused.slice(0, 1));
    },
  );

  it('keeps the beginning of a pause that is given another reason', async () => {
    const sink = await bench().open();
    const since = now();
    await sink.pause([news], { since, reason: 'first' });
    const later = instant(bench().clock.now() + hourMs);
    await sink.pause([news, wiki], { since: later, reason: 'second' });
    expect(await sink.history.pauses()).toEqual([
      { connector: news, since, reason: 'second' },
      { connector: wiki, since: later, reason: 'second' },
    ]);
  });

  // Proves promise 11.3
  everywhere(
    'takes pauses and cancel requests from other processes while the holder’s run continues',
    async () => {
      const holder = await bench().open();
      const started = await bench().begin(holder, 'r1');
      const beside = await bench().open();
      await beside.pause([news], { since: now(), reason: 'enough' });
      expect(await holder.history.isCancelRequested(started.run)).toBe(false);
      expect(await beside.requestCancel(started.run, now())).toBe(true);
      expect(await beside.requestCancel(started.run, now())).toBe(true);
      expect(await holder.history.isCancelRequested(started.run)).toBe(true);
      const { id } = await onlyPartition(holder, started.lease);
      await holder.commit(started.lease, [page(started, id, [member('1')])]);
      expect(await bench().rows()).toHaveLength(1);
    },
  );

  it('refuses to cancel a run that is over or was never begun, and leaves the next run alone', async () => {
    const sink = await bench().open();
    const started = await bench().begin(sink, 'r1');
    await sink.requestCancel(started.run, now());
    await sink.finish(started.lease, started.run, report(started, { outcome: 'interrupted' }));
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
    await readAll(bench(), sink, 'r1', { outcome: 'degraded', withheld: 7 });
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

  it('reports the same of one connector among many as of all of them', async () => {
    const sink = await bench().open();
    await readAll(bench(), sink, 'r1', { outcome: 'ok' });
    for (let index = 0; index < 12; index += 1) {
      const other = await sink.acquire(identity({ connector: `c${index}` as ConnectorName }));
      await other[Symbol.asyncDispose]();
    }
    const all = await sink.history.connectors();
    expect(all).toHaveLength(13);
    const [one] = await sink.history.connectors([news]);
    expect(one?.entities.map(({ entity }) => entity)).toContain(members);
    expect(one).toEqual(all.find(({ connector }) => connector === news));
    expect(await sink.history.connectors(['c3' as ConnectorName])).toEqual(
      all.filter(({ connector }) => connector === 'c3'),
    );
    expect(await sink.history.connectors([wiki])).toEqual([]);
  });

  // Proves promise 11.3
  it('knows how old an entity is: as the beginning of the newest chain that read all of it', async () => {
    const sink = await bench().open();
    const asOf = async (): Promise<unknown> =>
      (await sink.history.freshness(news)).find(({ entity }) => entity === members)?.asOf;
    expect(await sink.history.freshness(news)).toEqual([]);

    const first = now();
    await readAll(bench(), sink, 'r1', { outcome: 'ok' });
    expect(await asOf()).toBe(first);

    bench().clock.advance(hourMs);
    await readAll(bench(), sink, 'r2', { outcome: 'degraded', isWhole: false });
    expect(await asOf(), 'something of it was left out').toBe(first);

    bench().clock.advance(hourMs);
    const third = now();
    await readAll(bench(), sink, 'r3', { outcome: 'degraded', isWhole: true });
    expect(await asOf(), 'what was left out was of another entity').toBe(third);

    bench().clock.advance(hourMs);
    await readAll(bench(), sink, 'r4', { outcome: 'failed', isWhole: true });
    expect(await asOf(), 'the run did not come to its end').toBe(third);
    expect(await sink.history.freshness(wiki)).toEqual([]);
  });

  // Proves promise 11.3
  it('counts the age of an entity from the first run of the chain, not from the one that ended it', async () => {
    const sink = await bench().open();
    const began = now();
    const started = await bench().begin(sink, 'r1');
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
    await started.lease[Symbol.asyncDispose]();
    expect(await sink.history.freshness(news)).toContainEqual({ entity: members, asOf: null });
    bench().clock.advance(hourMs);
    await readAll(bench(), sink, 'r2', { outcome: 'ok' });
    expect(await sink.history.run('r2' as Started['run'])).toMatchObject({ continues: 'r1' });
    expect(await sink.history.freshness(news)).toContainEqual({ entity: members, asOf: began });
  });

  // Proves promise 11.3
  everywhere(
    'does not count a chain that began in the middle of a walk that an earlier one had left',
    async () => {
      const sink = await bench().open();
      const asOf = async (): Promise<unknown> => (await sink.history.freshness(news)).map(({ asOf }) => asOf);
      const first = now();
      const change = { leaves: [members] };
      const started = await bench().begin(sink, 'r1', change);
      const { id } = await onlyPartition(sink, started.lease);
      await sink.commit(started.lease, [page(started, id, [])]);
      const why = walkFailure({ at: first });
      await sink.setAside(started.lease, { partition: id, run: started.run }, why);
      const aside = { ...entityReport(members, {}), isWhole: false };
      await sink.finish(
        started.lease,
        started.run,
        report(started, { outcome: 'degraded', entities: [aside] }),
      );
      await started.lease[Symbol.asyncDispose]();

      bench().clock.advance(hourMs);
      await readAll(bench(), sink, 'r2', { outcome: 'ok', change });
      expect(await sink.history.run('r2' as Started['run'])).toMatchObject({ continues: null });
      expect(await asOf(), 'its first half is of the first run').toEqual([null, null]);

      bench().clock.advance(hourMs);
      const third = now();
      await readAll(bench(), sink, 'r3', { outcome: 'ok', change });
      expect(await asOf()).toEqual([third, third]);
    },
  );

  it('still knows the age of an entity when the run that read it is past its retention', async () => {
    const sink = await bench().open();
    const first = now();
    await readAll(bench(), sink, 'r1', { outcome: 'ok' });
    bench().clock.advance(91 * dayMs);
    await readAll(bench(), sink, 'r2', { outcome: 'degraded', isWhole: false });
    expect(await sink.history.run('r1' as Started['run'])).toBeNull();
    expect(await sink.history.freshness(news)).toContainEqual({ entity: members, asOf: first });
  });
}

/** A run that reads its one partition to the end and reports it as given. */
async function readAll(
  bench: Bench,
  sink: Sink,
  run: string,
  {
    outcome,
    isWhole = true,
    withheld = 0,
    change = {},
  }: Pick<RunReport, 'outcome'> & {
    readonly isWhole?: boolean;
    readonly withheld?: number;
    readonly change?: Partial<RunPlan>;
  },
): Promise<void> {
  const started = await bench.begin(sink, run, change);
  const { id } = await onlyPartition(sink, started.lease);
  const [stored] = await sink.commit(started.lease, [page(started, id, [], { seal: sealed })]);
  const entities = [
    { ...entityReport(members, stored?.counts[0]?.counts ?? {}), isWhole, withheld },
    { ...entityReport(opens, {}), isWhole },
  ];
  await sink.finish(started.lease, started.run, report(started, { outcome, entities }));
  await started.lease[Symbol.asyncDispose]();
}
