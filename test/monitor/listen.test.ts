import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { parseListenAddress } from '../../src/monitor/listen-address.ts';
import { openTokenCheck, tokensOf } from '../../src/monitor/page-access.ts';
import { instantClock } from '../support/instant-clock.ts';

const token = 'tök€n:with:colons-0123';
const basic = (userAndPassword: string): string => `Basic ${Buffer.from(userAndPassword).toString('base64')}`;

const bob = { name: 'bob', may: 'read' } as const;
const open = (clock = instantClock()) => {
  const tokens = [
    { name: 'anna', may: 'act', token: new Secret('another-token-0123') },
    { ...bob, token: new Secret(token) },
  ] as const;
  return openTokenCheck({ tokens, wrongTries: 3, wrongTriesMs: 10_000, clock }).judge;
};

it('has the tokens of the config by name', () => {
  const secret = new Secret(token);
  const named = { name: 'bob', may: 'read', token: secret };
  const http = {
    hosts: [],
    connectorSeries: 'all',
    tokens: { bob: { may: 'read', token: secret } },
  } as const;
  expect(tokensOf({ ...http, token: null })).toEqual([named]);
  expect(tokensOf({ ...http, token: secret })).toEqual([{ ...named, name: 'http.token', may: 'act' }, named]);
});

describe('a token', () => {
  it.each([basic(`anybody:${token}`), basic(`:${token}`), `Bearer ${token}`, `bearer  ${token} `])(
    'is accepted in "%s"',
    (header) => expect(open()(header)).toEqual(bob),
  );

  it.each([
    '',
    'Basic',
    'Bearer',
    'Basic %%%',
    basic(token),
    basic(`${token}:`),
    basic(`user:${token} `),
    basic(`user:${token.slice(1)}`),
    `Bearer ${token}x`,
    `Digest ${token}`,
    token,
  ])('is not accepted in "%s"', (header) => expect(open()(header)).toBe('wrong'));

  it('is taken however many wrong ones come, which must wait until the window has passed', () => {
    const clock = instantClock();
    const check = open(clock);
    expect([1, 2, 3].map(() => check('Bearer wrong'))).toEqual(['wrong', 'wrong', 'wrong']);
    expect([check('Bearer wrong'), check(`Bearer ${token}`)]).toEqual(['too-many', bob]);
    clock.advance(10_000);
    expect(check('Bearer wrong')).toEqual('wrong');
  });

  it('does not count requests without a token, nor correct ones, as tries', () => {
    const check = open();
    for (let tries = 0; tries < 20; tries += 1) {
      expect(check(undefined)).toBe('missing');
      expect(check(`Bearer ${token}`)).toEqual(bob);
    }
  });
});

describe('the address to listen on', () => {
  it.each([
    ['9400', '127.0.0.1', 9400],
    [':9400', null, 9400],
    ['127.0.0.1:9400', '127.0.0.1', 9400],
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['[::1]:9400', '::1', 9400],
    ['[::]:9400', '::', 9400],
    ['localhost:0', 'localhost', 0],
    ['worker-1.internal:65535', 'worker-1.internal', 65_535],
  ])('reads %s', (text, host, port) => {
    expect(parseListenAddress(text)).toEqual({ host, port });
  });

  it.each([
    '',
    ':',
    'localhost',
    'localhost:',
    '65536',
    ':99999',
    '-1',
    '9400x',
    '::1:9400',
    '[::1]9400',
    '[nonsense]:1',
    '[127.0.0.1]:1',
    'a b:1',
    'http://localhost:9400',
    '-host:1',
    ' 9400',
  ])('rejects "%s" and names the accepted forms', (text) => {
    expect(() => parseListenAddress(text)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining(':9400 (every interface)') }),
    );
  });
});
