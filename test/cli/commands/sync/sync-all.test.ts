import { describe, expect, it } from 'vitest';
import { askedRuns } from '../../../../src/cli/commands/sync.ts';
import type { RunEvent } from '../../../../src/core/events.ts';
import type { EntityName } from '../../../../src/core/names.ts';
import type { RunReport } from '../../../../src/sinks/run-report.ts';
import { instantClock } from '../../../support/instant-clock.ts';

const reportOf = (calls: number): RunReport => ({ calls }) as unknown as RunReport;
const called = (entity: string | null): RunEvent => ({
  kind: 'call-ended',
  entity: entity as EntityName | null,
  answer: 'ok',
  ms: 1,
  waitedMs: 0,
});

describe('what a person asks of the runs of a sync', () => {
  it('is an ordinary run without options', () => {
    const asked = askedRuns({}, instantClock());
    expect(asked.next()).toEqual({ isFull: false, allowDeletes: false, budgetMs: null, maxCalls: null });
    asked.ended(reportOf(1_000_000));
    expect(asked.next()).not.toBeNull();
    expect(asked.isBudgeted).toBe(false);
  });

  it('is passed on to each of them', () => {
    const asked = askedRuns({ full: true, allowDeletes: true }, instantClock());
    expect(asked.next()).toMatchObject({ isFull: true, allowDeletes: true });
    expect(asked.next()).toMatchObject({ isFull: true, allowDeletes: true });
  });

  it('gives the next run what the runs before it have left of the time', () => {
    const clock = instantClock();
    const asked = askedRuns({ budget: '10m' }, clock);
    expect(asked.next()).toMatchObject({ budgetMs: 600_000 });
    clock.advance(540_000);
    expect(asked.next()).toMatchObject({ budgetMs: 60_000 });
    clock.advance(60_000);
    expect(asked.next()).toBeNull();
  });

  it('gives the next run what the runs before it have left of the calls', () => {
    const asked = askedRuns({ maxCalls: '100' }, instantClock());
    expect(asked.next()).toMatchObject({ maxCalls: 100 });
    asked.ended(reportOf(70));
    expect(asked.next()).toMatchObject({ maxCalls: 30 });
    asked.ended(reportOf(30));
    expect(asked.next()).toBeNull();
  });

  it('counts the calls of a run that brings no report by its events, without those for tokens', () => {
    const asked = askedRuns({ maxCalls: '10' }, instantClock());
    for (const entity of ['lists', null, 'lists']) asked.onEvent(called(entity));
    asked.ended(null);
    expect(asked.next()).toMatchObject({ maxCalls: 8 });
    asked.onEvent(called('lists'));
    asked.ended(reportOf(5));
    expect(asked.next()).toMatchObject({ maxCalls: 3 });
  });

  it.each([
    [
      { budget: '10 minutes' },
      '--budget: expected a duration such as 30s, 30m, 1h30m or 7d, got "10 minutes"',
    ],
    [{ budget: '0s' }, '--budget'],
    [{ budget: '' }, '--budget'],
    [{ maxCalls: '0' }, '--max-calls: expected a whole number from 1, got "0"'],
    [{ maxCalls: '1.5' }, '--max-calls'],
    [{ maxCalls: '-3' }, '--max-calls'],
    [{ maxCalls: '1e3' }, '--max-calls'],
    [{ maxCalls: '' }, '--max-calls'],
  ])('is refused where it means nothing: %j', (flags, message) => {
    expect(() => askedRuns(flags, instantClock())).toThrow(message);
  });
});
