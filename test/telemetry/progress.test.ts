import { describe, expect, it } from 'vitest';
import type { RunEvent } from '../../src/core/events.ts';
import {
  isConnectorName,
  isDeclaredName,
  type ConnectorName,
  type EntityName,
} from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { printable, printableWithin } from '../../src/telemetry/printable.ts';
import { count, duration, progressLines, progressSummary } from '../../src/telemetry/progress-text.ts';
import {
  advanceProgress,
  pagesPerSecond,
  startProgress,
  type Progress,
} from '../../src/telemetry/progress.ts';
import { showProgress } from '../../src/telemetry/show-progress.ts';
import { instantClock } from '../support/instant-clock.ts';

const newsletter = connectorName('newsletter');
const members = entityName('list_members');
const lists = entityName('lists');

describe('progress', () => {
  it('counts rows, pages and walks, and grows the number of walks with what pages bring to light', () => {
    const progress = play([
      { kind: 'run-started', connector: newsletter, run: 'r' as never, continues: null, due: 2 },
      { kind: 'walk-started', entity: lists, params: {}, resumed: false },
      committed(lists, 3, 3),
      { kind: 'walk-sealed', entity: lists, params: {}, proof: 'single' },
      { kind: 'walk-started', entity: members, params: {}, resumed: false },
      committed(members, 1000, 0),
      { kind: 'call-retried', entity: members, code: 'NETWORK', attempt: 1, waitMs: 250 },
      { kind: 'walk-set-aside', entity: members, params: {}, code: 'NOT_FOUND', message: 'gone' },
    ]);
    expect(progress).toMatchObject({ walksKnown: 5, walksEnded: 2, pages: 2, retries: 1, waitedMs: 250 });
    expect(progress.entities.get(members)).toMatchObject({
      rows: 1000,
      pages: 1,
      open: 0,
      setAside: 1,
      waitedMs: 250,
    });
  });

  it('says that the walks are over and deletes are looked for, and how far that is', () => {
    const begun = play([{ kind: 'sweep-started' }]);
    expect(progressSummary(begun, 1000)).toMatch(/, looking for deletes$/);
    const further = play([
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
      { kind: 'sweep-started' },
      { kind: 'files-started', files: 1200 },
      { kind: 'file-stored', entity: members, bytes: 2048, ms: 5 },
      { kind: 'file-stored', entity: members, bytes: 1024, ms: 5 },
      { kind: 'file-set-aside', entity: members, code: 'FILE_INVALID', message: 'empty' },
    ]);
    expect(progressSummary(progress, 1000)).toMatch(/, files 2 of 1,200 \(3 KiB, 1 failed\)$/);
  });

  it('measures the rate over the last ten seconds only', () => {
    let progress = startProgress(newsletter, 0);
    for (let ms = 0; ms < 20_000; ms += 100) progress = advanceProgress(progress, fetched, ms);
    expect(pagesPerSecond(progress, 20_000)).toBeCloseTo(10, 0);
    expect(pagesPerSecond(progress, 60_000)).toBe(0);
    expect(progress.arrivals.length).toBeLessThanOrEqual(101);
  });

  it('fits narrow terminals, uses colours only where they are wanted, and knows what to expect', () => {
    const progress = play(
      [{ kind: 'walk-started', entity: members, params: {}, resumed: false }, committed(members, 1200, 0)],
      new Map([[members, 3000]]),
    );
    for (const columns of [12, 40, 200]) {
      for (const line of progressLines(progress, 1000, { columns, hasColor: false })) {
        expect(Array.from(line).length).toBeLessThan(columns);
        expect(line).not.toContain('\u001b');
      }
    }
    expect(progressLines(progress, 1000, { columns: 120, hasColor: false }).join('\n')).toContain(
      '1,200 of ~3,000 records',
    );
    expect(progressLines(progress, 1000, { columns: 120, hasColor: true })[0]).toContain('\u001b[1m');
    expect(progressSummary(progress, 1000)).toBe(
      'newsletter  1.0 s: 1,200 records, walks 0 of 0 known, 1 page, 0.0 requests/s, reading list_members',
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
    expect(lines[0]).toContain('newsletter  10.0 s: 0 records');
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

const fetched: RunEvent = { kind: 'page-fetched', entity: members, records: 1, bytes: 1, ms: 1 };

function committed(entity: EntityName, rows: number, newlyDue: number): RunEvent {
  return {
    kind: 'page-committed',
    entity,
    counts: { ...noCounts, fetched: rows, inserted: rows },
    newlyDue,
    bytes: 1,
  };
}

function play(events: readonly RunEvent[], expected?: ReadonlyMap<EntityName, number>): Progress {
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
