import { expect, it } from 'vitest';
import { previousSlot } from '../../src/settings/cron.ts';

const from = (pattern: string, now: string, timezone = 'UTC'): string | null => {
  const slot = previousSlot({ pattern, timezone }, Date.parse(now));
  return slot === null ? null : new Date(slot).toISOString();
};

it.each([
  ['30 3 * * *', '2026-05-04T03:29:59.999Z', '2026-05-03T03:30:00.000Z'],
  ['30 3 * * *', '2026-05-04T03:30:00.000Z', '2026-05-04T03:30:00.000Z'],
  ['30 3 * * *', '2026-05-04T03:30:00.001Z', '2026-05-04T03:30:00.000Z'],
  ['* * * * * *', '2026-05-04T03:30:07.400Z', '2026-05-04T03:30:07.000Z'],
  // Every second of Mondays: many slots, and then none for days.
  ['* * * * * 1', '2026-05-07T12:00:00.000Z', '2026-05-04T23:59:59.000Z'],
  ['0 0 29 2 *', '2027-01-01T00:00:00.000Z', '2024-02-29T00:00:00.000Z'],
])('finds the last slot of %s before %s', (pattern, now, slot) => {
  expect(from(pattern, now)).toBe(slot);
});

it('knows summer time', () => {
  expect(from('30 3 * * *', '2026-03-29T12:00:00Z', 'Europe/Berlin')).toBe('2026-03-29T01:30:00.000Z');
  expect(from('30 2 * * *', '2026-10-25T12:00:00Z', 'Europe/Berlin')).toBe('2026-10-25T00:30:00.000Z');
});
