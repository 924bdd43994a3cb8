import { describe, expect } from 'vitest';
import type { Schedule, Settings } from '../../src/settings/settings.ts';
import { goodConfig, it, type ConfigFolder } from '../support/settings/config-folder.ts';

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

describe('the token of the board', () => {
  it.each(['sixteen-letters!', 'a'.repeat(512)])('may be %s', (token) => {
    expect(folder.load(`${goodConfig}http: { token: "${token}" }\n`).http.token?.reveal()).toBe(token);
  });

  it('comes best from a file, whose last line end is none of it', () => {
    folder.write('token', 'from-a-file-of-its-own\n');
    const { http } = folder.load(`${goodConfig}http: { token: "\${file:./token}" }\n`);
    expect(http.token?.reveal()).toBe('from-a-file-of-its-own');
  });
});
