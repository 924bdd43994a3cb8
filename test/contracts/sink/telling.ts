import { expect, it as everywhere, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { newForMs } from '../../../src/sinks/drift.ts';
import type { ClaimedMessage, FoundState, NewMessage, NoticeChanges } from '../../../src/sinks/notices.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import {
  entityReport,
  member,
  members,
  news,
  onlyPartition,
  page,
  report,
  sealed,
  type SinkKind,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

const how = { leaseMs: 60_000, keepMs: 60_000 };
const stored = entityReport(members, { fetched: 1, inserted: 1 });

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
    const run = await bench().begin(sinks[0], 'r1');
    const { id } = await onlyPartition(sinks[0], run.lease);
    await sinks[0].commit(run.lease, [page(run, id, [member('1')], { seal: sealed })]);
    await sinks[0].finish(run.lease, run.run, report(run, { outcome: 'failed', entities: [stored] }));
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
      const run = await bench().begin(sink, name, { isFull: true });
      const { id } = await onlyPartition(sink, run.lease);
      const drift = [
        { entity: members, field, kind: 'undeclared', type: 'string' },
        ...(known === undefined
          ? []
          : [{ entity: members, field: known, kind: 'undeclared', type: 'boolean' } as const]),
      ] as const;
      await sink.commit(run.lease, [page(run, id, [member(name)], { drift, seal: sealed })]);
      await sink.finish(run.lease, run.run, report(run, { entities: [stored] }));
      await run.lease[Symbol.asyncDispose]();
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
    // Acknowledged by name: what comes later is new, whatever the clocks say, and messages are sent as before.
    const detail = { fields: ['members.newer: undeclared'] };
    await sink.noteAction({ action: 'acknowledge-fields', connector: news, detail });
    await sink.noteAction({
      action: 'pause',
      connector: news,
      detail: { fields: ['members.last: undeclared'] },
    });
    expect(await overview()).toEqual([]);
    bench().clock.advance(-1_500);
    await read('r4', 'last');
    expect(await overview()).toEqual(['last']);
    await sink.notices.update([news], ({ fields }) => {
      expect((fields.get(news) ?? []).map(({ field }) => field).toSorted()).toEqual(['last', 'new', 'newer']);
      return null;
    });
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
