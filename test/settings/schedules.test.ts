import { expect, describe } from 'vitest';
import { nextSlots, previousSlot } from '../../src/settings/cron.ts';
import type { Schedule, Settings } from '../../src/settings/settings.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

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

it.each([
  ['0 0 * * *', 'Africa/Cairo', '2027-04-29T10:00Z', ['2027-04-29T22:00', '2027-04-30T21:00']],
  ['30 0 * * *', 'Africa/Cairo', '2027-04-29T10:00Z', ['2027-04-29T22:00', '2027-04-30T21:30']],
  ['*/15 0 * * *', 'Africa/Cairo', '2027-04-29T20:50Z', ['2027-04-29T22:00', '2027-04-30T21:00']],
  ['30 * * * *', 'Africa/Cairo', '2027-04-29T21:00Z', ['2027-04-29T21:30', '2027-04-29T22:30']],
  ['0 0 30 4 *', 'Africa/Cairo', '2026-05-29T10:00Z', ['2027-04-29T22:00', '2028-04-29T21:00']],
  ['0 0 * * 0', 'America/Santiago', '2027-09-01T10:00Z', ['2027-09-05T04:00', '2027-09-12T03:00']],
  ['0 0 * * *', 'America/Havana', '2027-03-13T10:00Z', ['2027-03-14T05:00', '2027-03-15T04:00']],
  ['0 0 * * *', 'Asia/Beirut', '2027-03-27T10:00Z', ['2027-03-27T22:00', '2027-03-28T21:00']],
  // Its clock skips the last hour of a day.
  ['0 22 * * *', 'America/Nuuk', '2027-03-27T10:00Z', ['2027-03-28T00:00', '2027-03-28T23:00']],
  ['0 23 * * *', 'America/Nuuk', '2027-03-27T10:00Z', ['2027-03-28T01:00', '2027-03-29T00:00']],
  ['30 2 * * *', 'Europe/Berlin', '2027-03-27T10:00Z', ['2027-03-28T01:30', '2027-03-29T00:30']],
  ['0 0 * * *', 'Africa/Cairo', '2027-10-28T10:00Z', ['2027-10-28T22:00', '2027-10-29T22:00']],
])('loses no slot of "%s" in %s to the clock', (pattern, timezone, after, expected) => {
  const slots = nextSlots({ pattern, timezone }, Date.parse(after), 2);
  expect(slots.map((ms) => new Date(ms).toISOString().slice(0, 16))).toEqual(expected);
  for (const slot of slots) expect(previousSlot({ pattern, timezone }, slot + 1)).toBe(slot);
});

let folder: ConfigFolder;
it.beforeEach(({ configs }) => {
  folder = configs;
});

describe('a schedule', () => {
  it('has no jitter and makes up for a missed run once, unless it says otherwise', () => {
    expect(schedule('{ every: 1h }')).toEqual({
      kind: 'every',
      everyMs: 3_600_000,
      jitterMs: 0,
      missed: 'once',
    });
    expect(schedule('{ cron: "0 4 * * *", jitter: 15m, missed: skip }')).toEqual({
      kind: 'cron',
      pattern: '0 4 * * *',
      timezone: 'UTC',
      jitterMs: 900_000,
      missed: 'skip',
    });
  });

  it('may be late by its whole interval, and by a day at most', () => {
    expect(schedule('{ every: 10s, jitter: 10s }')).toMatchObject({ jitterMs: 10_000 });
    expect(schedule('{ every: 7d, jitter: 24h }')).toMatchObject({ jitterMs: 86_400_000 });
    expect(schedule('{ cron: "0 0 * * 0", jitter: 1d }')).toMatchObject({ jitterMs: 86_400_000 });
  });

  function schedule(text: string): Schedule | null | undefined {
    const settings = folder.load(`${goodConfig}    schedule: ${text}\n`);
    return [...settings.connectors.values()][0]?.schedule;
  }
});

describe('freshness', () => {
  it("is asked of every entity as of its connector, of some by a limit of the entity's own", () => {
    const settings = folder.load(
      `${goodConfig}    freshWithin: 2h\n    entities: { tags: { freshWithin: 1d }, lists: { fullEvery: 1d } }\n`,
    );
    expect([...settings.connectors.values()][0]?.freshWithinMs).toBe(7_200_000);
    expect(limits(settings)).toMatchObject({ tags: 86_400_000, lists: 7_200_000, campaigns: 7_200_000 });
  });

  it('may be asked of one entity alone', () => {
    const settings = folder.load(`${goodConfig}    entities: { tags: { freshWithin: 30m } }\n`);
    expect([...settings.connectors.values()][0]?.freshWithinMs).toBeNull();
    expect(limits(settings)).toMatchObject({ tags: 1_800_000, lists: null });
  });

  function limits(settings: Settings): Record<string, number | null> {
    const entities = [...settings.connectors.values()].flatMap((connector) => [...connector.entities]);
    return Object.fromEntries(entities.map(([name, { freshWithinMs }]) => [name, freshWithinMs]));
  }
});

describe('Redis', () => {
  it.each([
    ['redis: {}', 'redis://127.0.0.1:6379', 'connector-sync'],
    ['redis: { prefix: staging-2_b }', 'redis://127.0.0.1:6379', 'staging-2_b'],
    ['redis: { url: "rediss://:pw@cache:6380" }', 'rediss://:pw@cache:6380', 'connector-sync'],
  ])('counts as configured where the file has %s', (text, url, prefix) => {
    const { redis } = folder.load(`${goodConfig}${text}\n`);
    expect(redis).toMatchObject({ isConfigured: true, prefix });
    expect(redis.url.reveal()).toBe(url);
  });
});

describe('the token of the pages', () => {
  it.each(['sixteen-letters!', 'a'.repeat(512)])('may be %s', (token) => {
    expect(folder.load(`${goodConfig}http: { token: "${token}" }\n`).http.token?.reveal()).toBe(token);
  });

  it('comes best from a file, whose last line end is none of it', () => {
    folder.write('token', 'from-a-file-of-its-own\n');
    const { http } = folder.load(`${goodConfig}http: { token: "\${file:./token}" }\n`);
    expect(http.token?.reveal()).toBe('from-a-file-of-its-own');
  });
});
