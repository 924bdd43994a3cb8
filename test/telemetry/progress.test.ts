import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/core/events.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
} from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { printable, printableWithin } from '../../src/telemetry/format.ts';
import { openProgress, progressLines, showProgress } from '../../src/telemetry/progress.ts';
import { instantClock } from '../support/instant-clock.ts';

const newsletter = connectorName('newsletter');
const members = entityName('list_members');
const lists = entityName('lists');
const wide = { columns: 200, hasColor: false };

const started = (due = 0, more: object = {}) =>
  ({ kind: 'run-started', connector: newsletter, run: 'r' as never, continues: null, due, ...more }) as const;
const walk = (entity: EntityName, id = '', isIncremental = false): RunEvent => ({
  kind: 'walk-started',
  entity,
  params: { id },
  isIncremental,
  resumed: false,
});
const counted = (entity: EntityName, records: number, id = ''): RunEvent => ({
  kind: 'listing-counted',
  entity,
  params: { id },
  records,
});
const page = (entity: EntityName, read: number, id = '', { duplicate = 0, newlyDue = 0 } = {}): RunEvent => ({
  kind: 'page-committed',
  entity,
  params: { id },
  counts: { ...noCounts, fetched: read, duplicate },
  newlyDue,
  bytes: 1,
});
const fetched = (entity: EntityName, records: number): RunEvent => ({
  kind: 'page-fetched',
  entity,
  records,
  bytes: 1,
  ms: 1,
});
const sealed = (entity: EntityName, id = ''): RunEvent => ({
  kind: 'walk-sealed',
  entity,
  params: { id },
  proof: 'seam',
});
const answered: RunEvent = { kind: 'call-ended', entity: null, answer: 'ok', ms: 1, waitedMs: 0 };

describe('progress', () => {
  it('counts rows, pages and walks, and grows the number of walks with what pages bring to light', () => {
    const { progress } = play([
      started(2),
      walk(lists),
      page(lists, 3, '', { newlyDue: 3 }),
      sealed(lists),
      walk(members),
      page(members, 1000),
      retried(1, 250),
      { kind: 'walk-set-aside', entity: members, params: { id: '' }, code: 'NOT_FOUND', message: 'gone' },
    ]);
    expect(progress.snapshot()).toMatchObject({
      walksKnown: 5,
      walksEnded: 2,
      retries: 1,
      entities: [
        { entity: lists, rows: 3, pages: 1 },
        { entity: members, rows: 1000, pages: 1, open: 0, setAside: 1 },
      ],
    });
  });

  it('counts listings whose parameters are integers beyond 2^53', () => {
    const params = { id: 2n ** 60n };
    const { progress } = play([started(1), { ...walk(members), params } as RunEvent]);
    expect(progress.snapshot().entities).toMatchObject([{ entity: members, open: 1 }]);
  });

  it('says that the walks are over and deletes are looked for, and how far that is', () => {
    const run = play([started(), { kind: 'sweep-started' }]);
    expect(run.summary()).toMatch(/, looking for deletes$/);
    run.add(
      { kind: 'record-confirmed', entity: members, verdict: 'gone' },
      { kind: 'record-confirmed', entity: members, verdict: 'there' },
      { kind: 'rows-deleted', entity: members, rows: 1200 },
    );
    expect(run.summary()).toMatch(/, looking for deletes \(2 asked for, 1,200 marked\)$/);
    run.add(
      { kind: 'files-started', files: 1200 },
      { kind: 'file-stored', entity: members, bytes: 2048, ms: 5 },
      { kind: 'file-stored', entity: members, bytes: 1024, ms: 5 },
      { kind: 'file-set-aside', entity: members, code: 'FILE_INVALID', message: 'empty' },
    );
    expect(run.summary()).toMatch(/, files 2 of 1,200 \(3 KiB, 1 failed\)$/);
  });

  it('says that the sink is away, why, and how long it is still tried', () => {
    const away = { kind: 'sink-away', message: 'PostgreSQL at db is read-only', leftMs: 58_000 } as const;
    const run = play([started(), retried(1, 250), away]);
    run.clock.advance(9500);
    expect(run.summary()).toMatch(/, PostgreSQL at db is read-only, trying for another 49 s$/);
    run.add({ kind: 'sink-back' });
    expect(run.summary()).not.toContain('PostgreSQL');
  });

  it('tells a wait for the rate limit from work, and from an API that is away', () => {
    const throttled = play([
      started(),
      { kind: 'throttled', waitMs: 12_000 },
      { ...retried(1, 12_000), code: 'THROTTLED' },
    ]);
    expect(throttled.summary()).toMatch(/, rate-limit wait, next call in 12 s$/);
    throttled.clock.advance(12_500);
    expect(throttled.summary()).not.toContain('wait');
    const away = play([started(), retried(3, 8000)]);
    expect(away.lines().split('\n').at(-1)).toBe(
      'cannot reach api.example: connection refused, attempt 3 of 6, next in 8 s',
    );
    away.add(answered);
    expect(away.summary()).not.toContain('api.example');
  });

  it('says that it connects, not that it has read nothing, until the API has answered', () => {
    const connecting = play([]);
    connecting.clock.advance(500);
    expect(connecting.lines()).toBe('newsletter  1.0 s\nconnecting');
    expect(connecting.summary()).toBe('newsletter  1.0 s: connecting');
    connecting.add({ ...retried(2, 4000), entity: null });
    connecting.clock.advance(1500);
    expect(connecting.summary()).toBe(
      'newsletter  2.5 s: cannot reach api.example: connection refused, attempt 2 of 6, next in 3 s',
    );
  });

  it('fits narrow terminals, drops the least important there, and uses colours only where they are wanted', () => {
    const run = play([started(), walk(members), counted(members, 3000), page(members, 1200)]);
    for (const columns of [12, 40, 60, 80, 120]) {
      for (const line of progressLines(run.progress.snapshot(), { columns, hasColor: false })) {
        expect(Array.from(line).length).toBeLessThan(columns);
        expect(line).not.toContain('\u001b');
        if (columns >= 40) expect(line).not.toContain('…');
      }
    }
    expect(progressLines(run.progress.snapshot(), { ...wide, hasColor: true })[0]).toContain('\u001b[1m');
    run.clock.advance(500);
    expect(run.summary()).toBe(
      'newsletter  1.0 s: 1,200 records, 0 of 0 known listings read, 0 records/s, 0.0 requests/s, reading list_members (1,200 of 3,000 records)',
    );
  });
});

describe('how many records a run will have read', () => {
  it('is what the service has counted, where it has counted every open listing', () => {
    const run = play([
      started(2),
      ...['a', 'b'].flatMap((id) => [walk(lists, id), counted(lists, 4000, id), page(lists, 1000, id)]),
    ]);
    expect(run.lineOf(lists)).toContain('2,000 of 8,000 records');
    // A listing that ended with fewer has none that are missing.
    run.add(sealed(lists, 'a'));
    expect(run.lineOf(lists)).toContain('2,000 of 5,000 records');
    run.add(walk(lists, 'c'));
    expect(run.lineOf(lists)).toContain('2,000 records ');
    run.add(sealed(lists, 'c'), page(lists, 3000, 'b'), sealed(lists, 'b'));
    expect(run.lineOf(lists)).toContain('5,000 records ');
    run.add(walk(members, '', true), page(members, 3));
    expect(run.lineOf(members)).toContain('3 records (changes only)');
  });

  it('counts a record that came twice once, as totals of services do', () => {
    const pages = [page(lists, 1000), page(lists, 510, '', { duplicate: 10 })];
    expect(play([started(1), walk(lists), counted(lists, 1500), ...pages]).lineOf(lists)).toContain(
      ' 1,500 records ',
    );
  });

  it('counts what this run reads, after a resume', () => {
    const run = play([started(2, { continues: 'earlier' })]);
    expect(run.lines()).toContain('(resumed earlier)');
    expect(run.summary()).toContain(': 0 records, 0 of 2 known listings read');
    run.add(walk(lists), counted(lists, 1000), page(lists, 400));
    expect(run.lineOf(lists)).toContain('400 of 1,000 records');
  });
});

describe('how fast a run is', () => {
  it('is an average over the run, waits included', () => {
    const run = play([started(1), walk(lists), counted(lists, 30_000)]);
    run.tenSeconds(lists, 1000);
    expect(run.summary()).toContain('952 records/s, 1.0 requests/s');
    run.clock.advance(9500);
    expect(run.summary()).toContain('500 records/s, 0.5 requests/s');
    expect(run.summary()).toContain('reading lists (10,000 of 30,000 records)');
    expect(run.lineOf(lists)).toMatch(/ 10 pages$/);
  });
});

describe('the display', () => {
  it('is redrawn at most ten times a second, and removed at the end', async () => {
    const clock = instantClock();
    const drawn: (readonly string[])[] = [];
    const began = clock.now();
    const enough = gate(20, drawn);
    const screen = {
      style: () => ({ columns: 80, hasColor: false }),
      redraw: enough.add,
      addLine: () => expect.unreachable('a live display adds no lines'),
    };
    const display = showProgress(newsletter, screen, clock);
    await enough.reached;
    await display[Symbol.asyncDispose]();
    expect(clock.sleeps.every((ms) => ms === 100)).toBe(true);
    expect(drawn.length - 1).toBeLessThanOrEqual((clock.now() - began) / 100);
    expect(drawn.at(-1)).toEqual([]);
  });

  it('is a line every ten seconds where there is no terminal', async () => {
    const clock = instantClock();
    const lines: string[] = [];
    const enough = gate(3, lines);
    const redraw = () => expect.unreachable('nothing can be redrawn');
    const display = showProgress(newsletter, { style: null, redraw, addLine: enough.add }, clock);
    display.onEvent({ kind: 'sink-made', sink: 'main', place: '/data/main.db' });
    await enough.reached;
    await display[Symbol.asyncDispose]();
    expect(clock.sleeps.every((ms) => ms === 10_000)).toBe(true);
    expect(lines[0]).toBe('newsletter: made the sink main: /data/main.db');
    expect(lines[1]).toContain('newsletter  10.0 s: connecting');
  });
});

describe('text for people', () => {
  it('keeps remote text from steering the terminal or reversing the line', () => {
    expect(printable('a\u001b[2Jb\nc\u009bd\u202ee\u2066f\u200bg\ufeff')).toBe('a�[2Jb�c�d�e�f�g�');
    expect(printable('Zürich 🎉 \ud800')).toBe('Zürich 🎉 �');
    expect(printableWithin('🎉🎉🎉🎉', 3)).toBe('🎉🎉…');
  });
});

function retried(attempt: number, waitMs: number): Extract<RunEvent, { readonly kind: 'call-retried' }> {
  const message = 'cannot reach api.example: connection refused';
  return { kind: 'call-retried', entity: members, code: 'NETWORK', message, attempt, attempts: 6, waitMs };
}

/** A run of which so much has happened half a second after its start. */
function play(events: readonly RunEvent[]) {
  const clock = instantClock();
  const progress = openProgress(newsletter, clock);
  clock.advance(500);
  const add = (...more: readonly RunEvent[]): void => more.forEach(progress.onEvent);
  add(...events);
  const lines = (): string => progressLines(progress.snapshot(), wide).join('\n');
  return {
    clock,
    progress,
    add,
    lines,
    lineOf: (entity: EntityName): string =>
      lines()
        .split('\n')
        .find((line) => line.slice(2).startsWith(`${entity} `)) ?? '',
    summary: () => progressLines(progress.snapshot(), null)[0],
    /** A page each second. */
    tenSeconds: (entity: EntityName, records: number): void => {
      for (let second = 0; second < 10; second += 1) {
        add(fetched(entity, records), page(entity, records));
        clock.advance(1000);
      }
    },
  };
}

function gate<One>(size: number, collected: One[]) {
  let open: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => (open = resolve));
  const add = (one: One): void => {
    if (collected.push(one) >= size) open();
  };
  return { add, reached };
}

function connectorName(text: string): ConnectorName {
  if (!isConnectorName(text)) throw new Error(`${text} should be a connector name`);
  return text;
}

function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) throw new Error(`${text} should be an entity name`);
  return text;
}
