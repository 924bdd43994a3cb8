import { expect, it } from 'vitest';
import { firstHourOfDay, hourOf } from '../../../src/sinks/ledger/days.ts';

it('takes for the last day the hours back to the same hour of yesterday', () => {
  const now = '2026-03-01T10:59:00.000Z';
  expect([firstHourOfDay(now), hourOf(now)]).toEqual(['2026-02-28T10', '2026-03-01T10']);
});
