import { expect, it } from 'vitest';
import { firstHourOfDay, hourOf, weighRows } from '../../../src/sinks/decisions/last-day.ts';

it('weighs rows against those of 24 hours ago', () => {
  const account = { stored: 100, judged: 10, addedInDay: 30, deletedInDay: 5 };
  expect(weighRows(account)).toEqual({ live: 90, dayAgo: 65, deletedInDay: 5 });
  expect(weighRows({ ...account, addedInDay: 200 }).dayAgo).toBe(0);
});

it('takes for the last day the hours back to the same hour of yesterday', () => {
  const now = '2026-03-01T10:59:00.000Z';
  expect([firstHourOfDay(now), hourOf(now)]).toEqual(['2026-02-28T10', '2026-03-01T10']);
});
