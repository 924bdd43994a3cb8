import { describe, expect, it } from 'vitest';
import type { ReadEarlier, RunEvent } from '../../src/core/events.ts';
import { isConnectorName, isDeclaredName, type EntityName, type RunId } from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { expectedRecords, remaining } from '../../src/telemetry/expected-records.ts';
import { progressLines, progressSummary } from '../../src/telemetry/progress-text.ts';
import {
  advanceProgress,
  startProgress,
  type Expected,
  type Progress,
} from '../../src/telemetry/progress.ts';

const lists = entityName('lists');
const members = entityName('list_members');

const started = (due = 1, continues: RunId | null = null) => {
  const connector = 'newsletter';
  if (!isConnectorName(connector)) throw new Error('expected a name');
  return { kind: 'run-started', connector, run: 'r' as never, continues, due } as const;
};
const startedAfter = (earlier: readonly ReadEarlier[]) => ({
  ...started(2, 'earlier' as never),
  earlier,
});
const walk = (entity: EntityName, id = ''): RunEvent => ({
  kind: 'walk-started',
  entity,
  params: { id },
  isIncremental: false,
  resumed: false,
});
const counted = (entity: EntityName, records: number, id = ''): RunEvent => ({
  kind: 'listing-counted',
  entity,
  params: { id },
  records,
});
const page = (
  entity: EntityName,
  fetched: number,
  id = '',
  more: { duplicate?: number; newlyDue?: number } = {},
) =>
  ({
    kind: 'page-committed',
    entity,
    params: { id },
    counts: { ...noCounts, fetched, duplicate: more.duplicate ?? 0 },
    newlyDue: more.newlyDue ?? 0,
    bytes: 1,
  }) as const;
const found = (listings: number | null, records: number | null): RunEvent => ({
  kind: 'listings-found',
  entity: members,
  parent: lists,
  listings,
  records,
});
const sealed = (entity: EntityName, id = ''): RunEvent => ({
  kind: 'walk-sealed',
  entity,
  params: { id },
  proof: 'seam',
});

/** Lists were read: two of them, with 12,000 members as they state. */
const listsRead = [
  started(),
  walk(lists),
  page(lists, 2, '', { newlyDue: 2 }),
  found(2, 12_000),
  sealed(lists),
];

describe('how many records a run will have read', () => {
  it('is what the service has counted, without a tilde, once all listings are read or have ended', () => {
    const progress = play([
      ...listsRead,
      ...['a', 'b'].flatMap((id) => [walk(members, id), counted(members, 4000, id), page(members, 1000, id)]),
    ]);
    expect(expectedRecords(progress, members)).toEqual({ records: 8000, isEstimate: false });
    expect(lineOf(progress, members)).toContain('2,000 of 8,000 records');
    // A listing that ended with fewer has none that are missing.
    const ended = advanceProgress(progress, sealed(members, 'a'), 500);
    expect(expectedRecords(ended, members)).toEqual({ records: 5000, isEstimate: false });
    const all = [page(members, 3000, 'b'), sealed(members, 'b')];
    expect(
      lineOf(
        all.reduce((now, event) => advanceProgress(now, event, 500), ended),
        members,
      ),
    ).toContain('5,000 records ');
  });

  it('is an estimate by what parents state while listings wait, and while more may be found', () => {
    const waiting = play([...listsRead, walk(members, 'a'), page(members, 1000, 'a')]);
    expect(lineOf(waiting, members)).toContain('1,000 of ~12,000 records');
    const half = advanceProgress(waiting, counted(members, 4000, 'a'), 500);
    expect(expectedRecords(half, members)).toEqual({ records: 10_000, isEstimate: true });
    const growing = play([
      started(),
      walk(lists),
      page(lists, 1, '', { newlyDue: 1 }),
      found(1, 500),
      walk(members, 'a'),
      counted(members, 600, 'a'),
    ]);
    expect(expectedRecords(growing, members)).toEqual({ records: 600, isEstimate: true });
  });

  it('is an estimate by what ended listings had where parents state nothing, and unknown before', () => {
    const begun = [
      started(),
      walk(lists),
      page(lists, 3, '', { newlyDue: 3 }),
      found(3, null),
      sealed(lists),
    ];
    const first = play([...begun, walk(members, 'a'), page(members, 200, 'a')]);
    expect(expectedRecords(first, members)).toBeNull();
    expect(lineOf(first, members)).toContain(' 200 records ');
    expect(expectedRecords(advanceProgress(first, sealed(members, 'a'), 500), members)).toEqual({
      records: 600,
      isEstimate: true,
    });
  });

  it('counts a record that came twice once, as totals of services do', () => {
    const progress = play([
      started(),
      walk(lists),
      counted(lists, 1500),
      page(lists, 1000),
      page(lists, 510, '', { duplicate: 10 }),
    ]);
    expect(lineOf(progress, lists)).toContain(' 1,500 records ');
  });

  it('is what the sink holds where only some listings became due', () => {
    const known = new Map([[members, { rows: 9000, pages: 12 }]]);
    const some = play([started(), found(null, null), walk(members, 'a'), counted(members, 50, 'a')], known);
    expect(expectedRecords(some, members)).toEqual({ records: 9000, isEstimate: true });
  });

  it('counts what the runs before have read, after a resume', () => {
    // The lists have been read, 4,000 members of the first two, and a part of the third; a fourth waits.
    const resumed = startedAfter([
      { entity: lists, records: 4, listings: { read: 1, due: 0 }, parent: null },
      { entity: members, records: 5000, listings: { read: 2, due: 2 }, parent: lists },
    ]);
    expect(progressSummary(play([resumed]), 500)).toContain(': 5,004 records, 3 of 5 known listings read');
    expect(lineOf(play([resumed]), lists)).toMatch(/^· lists +4 records {2}read before the resume$/);
    expect(lineOf(play([resumed]), members)).toContain(
      '5,000 of ~10,000 records  2 listings wait for others',
    );
    const third = [walk(members, 'c'), counted(members, 1000, 'c'), page(members, 400, 'c')];
    expect(lineOf(play([resumed, ...third]), members)).toContain('5,400 of ~8,500 records');
    const all = [...third, walk(members, 'd'), counted(members, 300, 'd')];
    expect(expectedRecords(play([resumed, ...all]), members)).toEqual({ records: 6300, isEstimate: false });
  });

  it('takes what the sink holds after a resume only where it holds more than the runs before have read', () => {
    const inTree = { entity: lists, records: 700, listings: null, parent: null };
    const known = (rows: number) => new Map([[lists, { rows, pages: 9 }]]);
    const rows = (stored: number) => expectedRecords(play([startedAfter([inTree])], known(stored)), lists);
    expect(rows(700)).toBeNull();
    expect(rows(2000)).toEqual({ records: 2000, isEstimate: true });
  });

  it('has no tilde only where no listing waits that was found before this run', () => {
    const one = [walk(members, 'a'), counted(members, 4000, 'a')];
    expect(expectedRecords(play([started(1), ...one]), members)).toEqual({
      records: 4000,
      isEstimate: false,
    });
    expect(expectedRecords(play([started(2), ...one]), members)).toEqual({ records: 4000, isEstimate: true });
  });
});

it('a first run says how long it takes by what the service has counted, from the eleventh second on', () => {
  let progress = play([started(), walk(lists), counted(lists, 30_000)]);
  for (let ms = 0; ms < 10_000; ms += 1000) {
    progress = advanceProgress(
      progress,
      { kind: 'page-fetched', entity: lists, records: 1000, bytes: 1, ms: 1 },
      ms,
    );
    progress = advanceProgress(progress, page(lists, 1000), ms);
  }
  expect(remaining(progress, 9999)).toBeNull();
  expect(remaining(progress, 10_000)).toEqual({ ms: 20_000, isAtLeast: false });
  const unknown = advanceProgress(progress, walk(members, 'a'), 10_000);
  expect(progressSummary(unknown, 10_000)).toContain('at least 20 s left');
  const text = progressSummary(progress, 10_000);
  expect(text).toContain('1,000 records/s, about 20 s left');
  expect(text).toContain('reading lists (10,000 of 30,000 records)');
  expect(lineOf(progress, lists, 10_000)).toMatch(/ 1,000\/s {2}10 pages$/);
});

it('a resumed run says how long it takes by the pages of this run alone', () => {
  let progress = play([
    startedAfter([{ entity: lists, records: 20_000, listings: { read: 0, due: 1 }, parent: null }]),
    walk(lists),
    counted(lists, 30_000),
  ]);
  for (let ms = 0; ms < 10_000; ms += 1000) {
    const fetched = { kind: 'page-fetched', entity: lists, records: 1000, bytes: 1, ms: 1 } as const;
    progress = advanceProgress(advanceProgress(progress, fetched, ms), page(lists, 1000), ms);
  }
  expect(lineOf(progress, lists, 10_000)).toContain('30,000 of 50,000 records');
  expect(remaining(progress, 10_000)).toEqual({ ms: 20_000, isAtLeast: false });
});

it('the line of an entity says what it waits for, and why', () => {
  const retried: RunEvent = {
    kind: 'call-retried',
    entity: members,
    code: 'UPSTREAM',
    message: 'the service answered 503',
    attempt: 2,
    attempts: 6,
    waitMs: 8000,
  };
  const waiting = play([...listsRead, walk(members, 'a'), page(members, 1000, 'a'), retried]);
  expect(lineOf(waiting, members)).toContain('waits 8 s: answered with an error, attempt 2 of 6');
  expect(lineOf(waiting, lists)).not.toContain('waits');
  const ok: RunEvent = { kind: 'call-ended', entity: members, answer: 'ok', ms: 1, waitedMs: 0, pacedMs: 0 };
  expect(lineOf(advanceProgress(waiting, ok, 500), members)).not.toContain('waits');
  const throttled = advanceProgress(waiting, { kind: 'throttled', waitMs: 12_000 }, 9000);
  expect(lineOf(throttled, members, 9000)).toContain('waits 12 s: rate limit');
});

function play(events: readonly RunEvent[], expected?: ReadonlyMap<EntityName, Expected>): Progress {
  const connector = 'newsletter';
  if (!isConnectorName(connector)) throw new Error('expected a name');
  return events.reduce(
    (progress, event) => advanceProgress(progress, event, 500),
    startProgress(connector, 0, expected),
  );
}

function lineOf(progress: Progress, entity: EntityName, nowMs = 500): string {
  const lines = progressLines(progress, nowMs, { columns: 200, hasColor: false });
  return lines.find((line) => line.slice(2).startsWith(`${entity} `)) ?? '';
}

function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) throw new Error(`${text} should be an entity name`);
  return text;
}
