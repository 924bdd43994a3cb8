import { describe, expect, it } from 'vitest';
import { classifyThrown, readUpstreamMessage, type CallFacts } from '../../../src/source/api/call-failure.ts';
import { JsonTextError, parseJsonText } from '../../../src/http/lossless-json.ts';
import { redactMessage } from '../../../src/http/redact-message.ts';
import { policyRate, retryAfterMs } from '../../../src/http/exchange.ts';

describe('JSON text', () => {
  it.each([
    '{"a":[1,-0,0.1,1e5,"x\\u00e9\\ud83d\\ude00",null,true]}',
    '{"a":1,"a":2}',
    '[1234567890123456, "1234567890123456789"]',
    '  [ 5 ]  ',
    '{"id":"1234567890123456"}',
  ])('reads as JSON.parse does: %s', (text) => {
    expect(parseJsonText(text)).toEqual(JSON.parse(text));
    expect(parseJsonText(`[${text},9007199254740993]`)).toEqual([JSON.parse(text), 9007199254740993n]);
  });

  it.each<[string, unknown]>([
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993', -9007199254740993n],
    ['[ 123456789012345678901234567890 ]', [123456789012345678901234567890n]],
    ['{"a": 1e400}', { a: 10n ** 400n }],
    ['[-1.5e309]', [-15n * 10n ** 308n]],
    ['[1e-400]', [0]],
    ['[12345678901234567.5]', [Number('12345678901234567.5')]],
  ])('keeps the number in %s', (text, value) => {
    expect(parseJsonText(text)).toEqual(value);
  });

  it.each(['', '{', '[1,]', 'nope', '[9007199254740993', '[1e9999999]', '{"a":9007199254740993}x'])(
    'is refused without being quoted: %j',
    (text) => {
      expect(() => parseJsonText(text)).toThrow(JsonTextError);
    },
  );
});

describe('a redacted message', () => {
  it.each<[string, string]>([
    ['mail to ann.b+c@example.co.uk now', 'mail to [e-mail] now'],
    ['Authorization: Bearer abc.def.ghi', 'Authorization: Bearer [redacted]'],
    ['api_key=short1 and password: "hunter2"', 'api_key=[redacted] and password: "[redacted]"'],
    ['hash d41d8cd98f00b204e9800998ecf8427e', 'hash [redacted]'],
    ['page 39a69b4e-7cc2-4f7a-a656-dd128f3ce855 gone', 'page 39a69b4e-7cc2-4f7a-a656-dd128f3ce855 gone'],
    ['a\u0000b\u001b[31mc\u202ed\ufeffe', 'a b [31mc d e'],
    ['an_ordinary_name_of_a_parameter_that_is_long', 'an_ordinary_name_of_a_parameter_that_is_long'],
    ['the s3cret word', 'the [secret] word'],
  ])('%j', (text, clean) => {
    expect(redactMessage(text, ['s3cret', ''])).toBe(clean);
  });

  it('has at most 300 characters', () => {
    expect(redactMessage('word '.repeat(500), []).length).toBe(300);
  });
});

describe('Retry-After', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  it.each<[string | null, string | null, number | null]>([
    [null, null, null],
    ['5', null, 5_000],
    ['0', null, 0],
    ['1.5', null, 1_500],
    ['86400', null, 3_600_000],
    ['-5', null, null],
    ['soon', null, null],
    ['Thu, 01 Jan 2026 00:00:30 GMT', null, 30_000],
    ['Wed, 31 Dec 2025 00:00:30 GMT', null, 0],
    // The server's clock is an hour ahead: only the difference counts.
    ['Thu, 01 Jan 2026 01:00:30 GMT', 'Thu, 01 Jan 2026 01:00:00 GMT', 30_000],
  ])('%j (Date %j) is %j ms', (header, date, ms) => {
    expect(retryAfterMs(header, date, now)).toBe(ms);
  });
});

describe('RateLimit-Policy', () => {
  it.each<[string | null, number | null]>([
    [null, null],
    ['"token";q=1000;w=1', 1000],
    ['"burst"; q=100; w=60', 100 / 60],
    ['100;w=60', 100 / 60],
    ['"hour";q=1000;w=3600, "second";q=10;w=1', 1000 / 3600],
    ['"bytes";q=10;qu="content-bytes"', null],
    ['"token";q=0;w=1', null],
    ['"token";q=5;w=0', null],
    ['soon', null],
  ])('%j is %j calls a second', (header, rate) => {
    expect(policyRate(header)).toBe(rate);
  });
});

describe("a failure's body", () => {
  it.each<[string, string, boolean]>([
    ['{"message":"m","errors":[{"field":"f","message":"e"}]}', 'm; e', true],
    ['{"detail":"Not Found"}', 'Not Found', true],
    ['{"detail":[{"loc":["body"],"msg":"field required"}]}', 'field required', true],
    ['{"error":{"message":"x"}}', 'x', true],
    ['{"message":null,"errors":[]}', '{"message":null,"errors":[]}', true],
    ['<html>', '<html>', false],
    ['', '', false],
    ['"text"', '"text"', false],
  ])('%s says %j', (body, text, isJson) => {
    expect(readUpstreamMessage(body)).toMatchObject({ text, isJson });
  });
});

describe('a failure without an answer', () => {
  const facts: CallFacts = {
    purpose: 'execute',
    label: 'list members',
    entity: null,
    isRoot: false,
    canShrink: false,
    hasPageToken: false,
    patterns: [],
  };
  const of = (code: string) => classifyThrown(Object.assign(new Error('raw text'), { code }), facts);

  it.each([
    ['ENOTFOUND', 'NETWORK', 'retry', 1],
    ['ECONNREFUSED', 'NETWORK', 'retry', Infinity],
    ['EAI_AGAIN', 'NETWORK', 'retry', Infinity],
    ['EPIPE', 'NETWORK', 'retry', Infinity],
    ['UND_ERR_CONNECT_TIMEOUT', 'TIMEOUT', 'retry', Infinity],
    ['ETIMEDOUT', 'TIMEOUT', 'retry', Infinity],
    ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'BODY_TOO_LARGE', 'skip-partition', null],
    ['ERR_ADDRESS_REFUSED', 'CONFIG_INVALID', 'stop', null],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', 'NETWORK', 'stop', null],
    ['CERT_HAS_EXPIRED', 'NETWORK', 'stop', null],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'NETWORK', 'stop', null],
  ])('%s', (code, expected, recovery, most) => {
    const failure = of(code);
    expect(failure?.error).toMatchObject({ code: expected, recovery });
    expect(failure?.retry?.most ?? null).toBe(most);
  });

  it('is none of the call when the program is wrong', () => {
    expect(classifyThrown(new TypeError('x is not a function'), facts)).toBeNull();
    expect(of('UND_ERR_INVALID_ARG')).toBeNull();
  });
});
