import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/core/events.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
  type RunId,
} from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { printable, printableWithin, count, duration } from '../../src/telemetry/format.ts';
import { remaining } from '../../src/telemetry/expected-records.ts';
import { progressLines, progressSummary } from '../../src/telemetry/progress-text.ts';
import {
  advanceProgress,
  startProgress,
  type Expected,
  type Progress,
} from '../../src/telemetry/progress.ts';
import { rates } from '../../src/telemetry/rates.ts';
import { showProgress, tellOutage } from '../../src/telemetry/show-progress.ts';
import { instantClock } from '../support/instant-clock.ts';

const newsletter = connectorName('newsletter');
const members = entityName('list_members');
const lists = entityName('lists');

describe('progress', () => {
  it('counts rows, pages and walks, and grows the number of walks with what pages bring to light', () => {
    const progress = play([
      runStarted({ due: 2 }),
      walkStarted(lists),
      committed(lists, 3, 3),
      { kind: 'walk-sealed', entity: lists, params: {}, proof: 'single' },
      walkStarted(members),
      committed(members, 1000, 0),
      retried(1, 250),
      { kind: 'walk-set-aside', entity: members, params: {}, code: 'NOT_FOUND', message: 'gone' },
    ]);
    expect(progress).toMatchObject({ walksKnown: 5, walksEnded: 2, retries: 1 });
    expect(progress.entities.get(lists)).toMatchObject({ rows: 3, pages: 1 });
    expect(progress.entities.get(members)).toMatchObject({
      rows: 1000,
      pages: 1,
      open: 0,
      setAside: 1,
    });
  });

  it('says that the walks are over and deletes are looked for, and how far that is', () => {
    const begun = play([runStarted({}), { kind: 'sweep-started' }]);
    expect(progressSummary(begun, 1000)).toMatch(/, looking for deletes$/);
    const further = play([
      runStarted({}),
      { kind: 'sweep-started' },
      { kind: 'record-confirmed', entity: members, verdict: 'gone' },
      { kind: 'record-confirmed', entity: members, verdict: 'there' },
      { kind: 'rows-deleted', entity: members, rows: 1200 },
      { kind: 'deletes-withheld', entity: lists, rows: 30, live: 40, because: 'share' },
    ]);
    expect(progressSummary(further, 1000)).toMatch(/, looking for deletes \(2 asked for, 1,200 marked\)$/);
  });

  it('says how far it is with the files', () => {
    const progress = play([
      runStarted({}),
      { kind: 'sweep-started' },
      { kind: 'files-started', files: 1200 },
      { kind: 'file-stored', entity: members, bytes: 2048, ms: 5 },
      { kind: 'file-stored', entity: members, bytes: 1024, ms: 5 },
      { kind: 'file-set-aside', entity: members, code: 'FILE_INVALID', message: 'empty' },
    ]);
    expect(progressSummary(progress, 1000)).toMatch(/, files 2 of 1,200 \(3 KiB, 1 failed\)$/);
  });

  it('says that the sink is away, why, and how long it is still tried', () => {
    const away = { kind: 'sink-away', message: 'PostgreSQL at db is read-only', leftMs: 58_000 } as const;
    const progress = play([runStarted({}), retried(1, 250), away]);
    expect(progressSummary(progress, 10_000)).toMatch(
      /, PostgreSQL at db is read-only, trying for another 49 s$/,
    );
    const back = advanceProgress(progress, { kind: 'sink-back' }, 11_000);
    expect(progressSummary(back, 11_000)).not.toContain('PostgreSQL');
    const lines: string[] = [];
    const tell = tellOutage((line) => lines.push(line), instantClock());
    tell(away);
    tell({ kind: 'sink-back' });
    expect(lines).toEqual([
      'PostgreSQL at db is read-only, trying for another 58 s',
      'the sink can be written to again',
    ]);
  });

  it('measures pages and records a second over the last ten seconds only', () => {
    let progress = startProgress(newsletter, 0);
    for (let ms = 0; ms < 20_000; ms += 100) progress = advanceProgress(progress, fetched, ms);
    expect(rates(progress, 20_000)).toEqual({ pages: 10, records: 500 });
    expect(rates(progress, 60_000)).toEqual({ pages: 0, records: 0 });
    expect(progress.arrivals.length).toBeLessThanOrEqual(11);
  });

  it('counts towards all records only where all of them are read', () => {
    const expected = new Map([[members, { rows: 100_000, pages: 101 }]]);
    const text = (...events: RunEvent[]): string =>
      progressLines(play(events, expected), 1000, wide).join('\n');
    const read = committed(members, 3, 0);
    expect(text(runStarted({}), walkStarted(members), read)).toContain('3 of ~100,000 records');
    const incremental = text(runStarted({}), walkStarted(members, true), read);
    expect(incremental).toContain('3 records (changes only)');
    expect(incremental).not.toContain('100,000');
    const resumed = text(runStarted({ continues: 'earlier' as never }), walkStarted(members), read);
    expect(resumed).toContain('(resumed earlier)');
    // Nothing of it was read before the resume.
    expect(resumed).toContain('3 of ~100,000 records');
  });

  it('names rateLimit where calls wait for it, and not what was a pause of the service', () => {
    const waiting = (pacedMs: number): RunEvent => ({
      kind: 'call-ended',
      entity: members,
      answer: 'ok',
      ms: 1,
      waitedMs: pacedMs,
      pacedMs,
    });
    const text = (...events: RunEvent[]): string =>
      progressLines(play([runStarted({}), walkStarted(members), ...events]), 1000, wide).join('\n');
    expect(text(waiting(400))).toContain('calls wait 0.4 s: rateLimit');
    expect(text(waiting(400), waiting(10))).not.toContain('rateLimit');
    expect(text({ kind: 'throttled', waitMs: 1 }, waiting(400))).not.toContain('rateLimit');
  });

  it('says how long it still takes, at least where an entity has no estimate, and not while it waits', () => {
    const known: Expected = { rows: 30_000, pages: 300 };
    const after10s = (all: ReadonlyMap<EntityName, Expected>, more: readonly RunEvent[] = []): Progress => {
      let progress = advanceProgress(startProgress(newsletter, 0, all), runStarted({}), 0);
      for (let ms = 0; ms < 10_000; ms += 100) {
        progress = advanceProgress(progress, fetched, ms);
        progress = advanceProgress(progress, committed(members, 50, 0), ms);
      }
      return more.reduce((left, event) => advanceProgress(left, event, 10_000), progress);
    };
    const progress = after10s(new Map([[members, known]]));
    expect(remaining(progress, 10_000)).toEqual({ ms: 20_000, isAtLeast: false });
    expect(progressSummary(progress, 10_000)).toContain('500 records/s, about 20 s left');
    const unknown = new Map([
      [members, known],
      [lists, { rows: null, pages: null }],
    ]);
    expect(remaining(after10s(unknown), 10_000)).toMatchObject({ isAtLeast: false });
    expect(remaining(after10s(unknown, [committed(lists, 1, 0)]), 10_000)).toEqual({
      ms: 20_000,
      isAtLeast: true,
    });
    expect(
      remaining(after10s(new Map([[members, known]]), [{ kind: 'throttled', waitMs: 5000 }]), 10_000),
    ).toBeNull();
  });

  it('tells a wait for the rate limit from work, and from an API that is away', () => {
    const throttled: readonly RunEvent[] = [
      runStarted({}),
      { kind: 'throttled', waitMs: 12_000 },
      { ...retried(1, 12_000), code: 'THROTTLED' },
    ];
    expect(progressSummary(play(throttled), 500)).toMatch(/, rate-limit wait, next call in 12 s$/);
    expect(progressSummary(play(throttled), 13_000)).not.toContain('wait');
    const away = play([runStarted({}), retried(3, 8000)]);
    expect(progressLines(away, 500, wide).at(-1)).toBe(
      'cannot reach api.example: connection refused, attempt 3 of 6, next in 8 s',
    );
    expect(progressSummary(advanceProgress(away, answered, 600), 600)).not.toContain('api.example');
  });

  it('says that it connects, not that it has read nothing, until the API has answered', () => {
    const connecting = startProgress(newsletter, 0);
    expect(progressLines(connecting, 1000, wide)).toEqual(['newsletter  1.0 s', 'connecting']);
    expect(progressSummary(connecting, 1000)).toBe('newsletter  1.0 s: connecting');
    const away = play([{ ...retried(2, 4000), entity: null }]);
    expect(progressSummary(away, 2500)).toBe(
      'newsletter  2.5 s: cannot reach api.example: connection refused, attempt 2 of 6, next in 2 s',
    );
  });

  it('fits narrow terminals, drops the least important there, and uses colours only where they are wanted', () => {
    const progress = play(
      [runStarted({}), walkStarted(members), committed(members, 1200, 0)],
      new Map([[members, { rows: 3000, pages: null }]]),
    );
    for (const columns of [12, 40, 60, 80, 120]) {
      for (const line of progressLines(progress, 1000, { columns, hasColor: false })) {
        expect(Array.from(line).length).toBeLessThan(columns);
        expect(line).not.toContain('\u001b');
        if (columns >= 40) expect(line).not.toContain('…');
      }
    }
    expect(progressLines(progress, 1000, wide).join('\n')).toContain('1,200 of ~3,000 records');
    expect(progressLines(progress, 1000, { ...wide, hasColor: true })[0]).toContain('\u001b[1m');
    expect(progressSummary(progress, 1000)).toBe(
      'newsletter  1.0 s: 1,200 records, 0 of 0 known listings read, 0 records/s, 0.0 requests/s, reading list_members (1,200 of ~3,000 records)',
    );
  });

  it('is redrawn at most ten times a second, and removed at the end', async () => {
    const clock = instantClock();
    const drawn: (readonly string[])[] = [];
    const began = clock.now();
    const enough = gate(20, drawn);
    const display = showProgress(
      newsletter,
      {
        style: () => ({ columns: 80, hasColor: false }),
        redraw: (lines) => {
          drawn.push(lines);
          enough.tick();
        },
        addLine: () => expect.unreachable('a live display adds no lines'),
      },
      clock,
    );
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
    const display = showProgress(
      newsletter,
      {
        style: null,
        redraw: () => expect.unreachable('nothing can be redrawn'),
        addLine: (line) => {
          lines.push(line);
          enough.tick();
        },
      },
      clock,
    );
    await enough.reached;
    await display[Symbol.asyncDispose]();
    expect(clock.sleeps.every((ms) => ms === 10_000)).toBe(true);
    expect(lines[0]).toContain('newsletter  10.0 s: connecting');
  });

  it('reports each further failed attempt in one line where there is no terminal, and the first answer', async () => {
    const clock = instantClock();
    const lines: string[] = [];
    const tell = tellOutage((line) => lines.push(line), clock);
    // Four calls beside each other.
    for (const attempt of [1, 1, 1, 1, 2, 2, 1, 2, 3]) {
      clock.advance(100);
      tell(retried(attempt, 1000 * attempt));
    }
    tell({ ...retried(1, 1000), code: 'THROTTLED' });
    tell(retried(4, 0));
    tell(answered);
    expect(lines).toEqual([
      'cannot reach api.example: connection refused, attempt 1 of 6, next in 1 s',
      'cannot reach api.example: connection refused, attempt 2 of 6, next in 2 s',
      'cannot reach api.example: connection refused, attempt 3 of 6, next in 3 s',
      'calls are answered again after 800 ms',
    ]);
  });

  it('does not write a line for each call of a service that fails every other one', async () => {
    const clock = instantClock();
    const lines: string[] = [];
    const tell = tellOutage((line) => lines.push(line), clock);
    for (let call = 0; call < 200; call += 1) {
      clock.advance(100);
      tell(retried(1, 50));
      tell(answered);
    }
    expect(lines).toHaveLength(4);
  });
});

describe('text for people', () => {
  it('keeps remote text from steering the terminal or reversing the line', () => {
    expect(printable('a\u001b[2Jb\nc\u009bd\u202ee\u2066f\u200bg\ufeff')).toBe('a�[2Jb�c�d�e�f�g�');
    expect(printable('Zürich 🎉 \ud800')).toBe('Zürich 🎉 �');
    expect(printableWithin('🎉🎉🎉🎉', 3)).toBe('🎉🎉…');
  });

  it('writes numbers and durations the same everywhere', () => {
    expect([count(0), count(999), count(1_234_567)]).toEqual(['0', '999', '1,234,567']);
    expect([850, 4200, 200_000, 7_500_000].map(duration)).toEqual([
      '850 ms',
      '4.2 s',
      '3 min 20 s',
      '2 h 5 min',
    ]);
  });
});

const wide = { columns: 120, hasColor: false };
const fetched: RunEvent = { kind: 'page-fetched', entity: members, records: 50, bytes: 1, ms: 1 };
const answered: RunEvent = { kind: 'call-ended', entity: null, answer: 'ok', ms: 1, waitedMs: 0, pacedMs: 0 };

function runStarted({ due = 0, continues = null as RunId | null }): RunEvent {
  return { kind: 'run-started', connector: newsletter, run: 'r' as never, continues, due };
}

function walkStarted(entity: EntityName, isIncremental = false): RunEvent {
  return { kind: 'walk-started', entity, params: {}, isIncremental, resumed: false };
}

function retried(attempt: number, waitMs: number): Extract<RunEvent, { readonly kind: 'call-retried' }> {
  const message = 'cannot reach api.example: connection refused';
  return { kind: 'call-retried', entity: members, code: 'NETWORK', message, attempt, attempts: 6, waitMs };
}

function committed(entity: EntityName, rows: number, newlyDue: number): RunEvent {
  return {
    kind: 'page-committed',
    params: {},
    entity,
    counts: { ...noCounts, fetched: rows, inserted: rows },
    newlyDue,
    bytes: 1,
  };
}

function play(events: readonly RunEvent[], expected?: ReadonlyMap<EntityName, Expected>): Progress {
  return events.reduce(
    (progress, event) => advanceProgress(progress, event, 500),
    startProgress(newsletter, 0, expected),
  );
}

function gate(
  size: number,
  collected: readonly unknown[],
): { tick(): void; readonly reached: Promise<void> } {
  let open: () => void = () => undefined;
  const reached = new Promise<void>((resolve) => (open = resolve));
  return { tick: () => collected.length >= size && open(), reached };
}

function connectorName(text: string): ConnectorName {
  if (!isConnectorName(text)) throw new Error(`${text} should be a connector name`);
  return text;
}

function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) throw new Error(`${text} should be an entity name`);
  return text;
}
