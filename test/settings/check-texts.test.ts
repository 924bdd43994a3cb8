import { describe, expect, it } from 'vitest';
import { checkCron, checkTimezone, nextSlots } from '../../src/settings/cron.ts';
import { checkBaseUrl, checkRedisUrl, formatDuration, parseDuration } from '../../src/settings/texts.ts';
import { checkBaseUrl as checkAtTheClient } from '../../src/source/api/api-caller.ts';

describe('the base URL', () => {
  it.each([
    ['https://api.example.com', 'https://api.example.com'],
    ['https://api.example.com:8443/prefix//', 'https://api.example.com:8443/prefix'],
    ['https://10.1.2.3', 'https://10.1.2.3'],
    ['http://127.0.0.1:8080/', 'http://127.0.0.1:8080'],
    ['http://127.1:8080', 'http://127.0.0.1:8080'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://localhost:8080', 'http://localhost:8080'],
    ['https://[2001:db8::1]', 'https://[2001:db8::1]'],
  ])('may be %s', (text, value) => {
    expect(checkBaseUrl(text)).toEqual({ ok: true, value });
    expect(() => checkAtTheClient(value)).not.toThrow();
  });

  it.each([
    ['http://api.example.com', 'expected https'],
    ['http://10.1.2.3', 'expected https'],
    ['http://localhost.', 'expected https'],
    ['http://127.0.0.1.example.com', 'expected https'],
    ['https://169.254.169.254', 'link-local'],
    ['https://0xa9fea9fe', 'link-local'],
    ['https://[::ffff:169.254.169.254]', 'link-local'],
    ['https://[::ffff:7f00:1]', 'link-local'],
    ['https://[::7f00:1]', 'link-local'],
    ['https://[::]', 'link-local'],
    ['https://[fe80::1]', 'link-local'],
    ['https://[64:ff9b::a9fe:a9fe]', 'link-local'],
    ['https://0.0.0.0', 'link-local'],
    ['https://[fd00:ec2::254]', 'metadata'],
    ['https://[FD00:0ec2:0::254]', 'metadata'],
    ['https://user@host', 'user name'],
    ['https://user:hush@host', 'user name'],
    ['https://host/?a', 'query'],
    ['https://host/?', 'query'],
    ['https://host/#', 'fragment'],
    ['https://host/api/v1/', '/api/v1'],
    ['ftp://host', 'expected an address'],
    ['host', 'expected an address'],
    ['https://ho st', 'expected an address'],
    ['https://host\n', 'expected an address'],
    ['https:\\\\host', 'expected an address'],
    ['', 'expected an address'],
  ])('may not be %j', (text, why) => {
    expect(checkBaseUrl(text)).toEqual({ ok: false, why: expect.stringContaining(why) });
  });
});

describe('the Redis URL', () => {
  it.each(['redis://127.0.0.1:6379', 'redis://localhost', 'redis://[::1]:1/2', 'rediss://:pw@cache:6380'])(
    'may be %s',
    (text) => {
      expect(checkRedisUrl(text)).toEqual({ ok: true, value: text });
    },
  );

  it.each(['redis://cache', 'rediss://user@cache', 'http://127.0.0.1', 'redis:///x', 'cache:6379'])(
    'may not be %s',
    (text) => {
      expect(checkRedisUrl(text).ok).toBe(false);
    },
  );
});

describe('a cron pattern', () => {
  it.each([
    '* * * * *',
    '*/30 * * * *',
    '0 0 1 1 *',
    '0 9-17/2 * * mon-fri',
    '5,10-20 4 * JAN,jul 7',
    '5/15 * * * *',
    '0 30 4 * * *',
    '0 0 29 2 *',
    '0 0 31 2 1',
    '  0 0 * *  0 ',
  ])('may be "%s"', (pattern) => {
    expect(checkCron(pattern)).toEqual({ ok: true, value: pattern.trim() });
  });

  it.each([
    ['* * * *', 'expected 5 fields'],
    ['* * * * * * *', 'expected 5 fields'],
    ['60 * * * *', 'minute: expected numbers 0-59'],
    ['* 24 * * *', 'hour: expected'],
    ['* * 0 * *', 'day of month: expected'],
    ['* * * 13 *', 'month: expected numbers 1-12 or jan-dec'],
    ['* * * * 8', 'day of week: expected numbers 0-7 or sun-sat'],
    ['60 * * * * *', 'second: expected'],
    ['*/0 * * * *', 'minute: expected'],
    ['5-1 * * * *', 'minute: expected'],
    ['1,,2 * * * *', 'minute: expected'],
    ['-1 * * * *', 'minute: expected'],
    ['@daily', 'expected 5 fields'],
    ['0 0 30 2 *', 'no chosen month has a day 30'],
    ['0 0 31 4,6 *', 'no chosen month has a day 31'],
  ])('may not be "%s"', (pattern, why) => {
    expect(checkCron(pattern)).toEqual({ ok: false, why: expect.stringContaining(why) });
  });

  it.each([
    ['0,0 * * * *', '0 * * * *'],
    ['50,0-20/10,10 * * * *', '0,10,20,50 * * * *'],
    ['0 4 * jan,1,3 sun,7,fri-sat', '0 4 * 1,3 0,5,6'],
    [' 0 4,4  1 * 5-7,0', '0 4 1 * 0,5,6'],
  ])('may name a value twice: "%s" is "%s"', (pattern, value) => {
    expect(checkCron(pattern)).toEqual({ ok: true, value });
    expect(nextSlots({ pattern: value, timezone: 'UTC' }, 0, 1)).toHaveLength(1);
  });

  it('belongs to a time zone that exists', () => {
    expect(['UTC', 'Europe/Berlin', 'America/Argentina/Ushuaia'].map(checkTimezone)).toEqual([
      null,
      null,
      null,
    ]);
    expect(['Mars/Olympus', '+02:00', '', 'CEST x'].filter((zone) => checkTimezone(zone) === null)).toEqual(
      [],
    );
  });
});

describe('a duration', () => {
  it.each([
    ['30s', 30_000],
    ['30m', 1_800_000],
    ['1h30m', 5_400_000],
    ['7d', 604_800_000],
    ['1d2h3m4s', 93_784_000],
  ])('%s is %i ms and is written the same way again', (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
    expect(formatDuration(ms)).toBe(text);
  });

  it.each(['', '0s', '5', 'm', '1.5h', '30m1h', '1h 30m', '-1h', '1w', '500ms'])('is not %j', (text) => {
    expect(parseDuration(text)).toBeNull();
  });
});
