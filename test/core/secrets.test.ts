import { describe, expect } from 'vitest';
import { isLikeGlob } from '../../src/core/names.ts';
import { hideSecrets, isWeakSecret } from '../../src/core/secret.ts';
import { readFields, readJson, writeJson, type JsonValue } from '../../src/core/json.ts';
import { it } from '../support/it.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { startSeed } from '../support/trials.ts';

const sentences = [
  'The client id or the client secret is wrong.',
  'Expected the header Authorization: Bearer <token>; ask for a token first.',
  'get an application token was answered with 401; check api.clientId and api.clientSecret',
  '{"token":null,"password":"","error":{"code":"AUTH_FAILED","message":"1234 of 12 rows"}}',
];

describe('hiding secrets', () => {
  // Proves promise 10.1
  it.each(['me', 'mine', 'secret', 'token', 'password', 'wrong', 'client', '1234', '12', 'a', ''])(
    'leaves sentences whole where the secret is %j',
    (secret) => {
      for (const sentence of sentences) expect(hideSecrets(sentence, [secret])).toBe(sentence);
    },
  );

  // Proves promise 10.1
  it.each([
    ['{"client_secret":"mine"}', '{"client_secret":"[secret]"}'],
    [String.raw`"{\"client_secret\": \"mine\"}"`, String.raw`"{\"client_secret\": \"[secret]\"}"`],
    ['client_id=a&client_secret=mine&b', 'client_id=a&client_secret=[secret]&b'],
    ["PASSWORD: 'mine'", "PASSWORD: '[secret]'"],
    ['redis://user:mine@host', 'redis://user:[secret]@host'],
    ['redis://:mine@host', 'redis://:[secret]@host'],
  ])('hides a word where it is given as a secret: %s', (text, clean) => {
    expect(hideSecrets(text, ['mine'])).toBe(clean);
  });

  it('hides a short secret with a digit or a sign where it stands by itself', () => {
    expect(hideSecrets('p4ss, xp4ssx, "p4ss".', ['p4ss'])).toBe('[secret], xp4ssx, "[secret]".');
    expect(hideSecrets('a$(b) and a$(b)', ['a$(b)'])).toBe('[secret] and [secret]');
  });

  it('takes every sign of a short secret as it is written', () => {
    const signs = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index));
    for (const sign of signs) {
      const secret = `a${sign}1b`;
      expect(hideSecrets(`x ${secret} y`, [secret])).toBe('x [secret] y');
    }
  });

  // Proves promise 10.1
  it('hides every other secret wherever it stands, the longest first', () => {
    const secrets = ['s3cret-of-9', 's3cret-of-9-and-more', 'correcthorsebattery'];
    const text = 'xs3cret-of-9-and-morex ys3cret-of-9y correcthorsebatterystaple';
    expect(hideSecrets(text, secrets)).toBe('x[secret]x y[secret]y [secret]staple');
  });
});

/** As Python's `html.escape`. */
const html = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#x27;');
const json = (text: string): string => JSON.stringify(text).slice(1, -1);
const ascii = (text: string): string =>
  json(text).replaceAll(
    /[\u0080-\uffff<>&']/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
const url = encodeURIComponent;

describe('an escaped secret', () => {
  // Proves promise 10.1
  it.each([
    ['JSON', json],
    ['JSON with / escaped', (text: string) => json(text).replaceAll('/', String.raw`\/`)],
    ['JSON in ASCII', ascii],
    ['JSON twice', (text: string) => json(json(text))],
    ['JSON in ASCII, three times', (text: string) => ascii(ascii(ascii(text)))],
    ['HTML', html],
    ['HTML twice', (text: string) => html(html(text))],
    [
      'HTML by numbers',
      (text: string) => text.replaceAll(/[^a-z0-9]/giu, (one) => `&#${one.codePointAt(0)};`),
    ],
    ['HTML in JSON', (text: string) => json(html(text))],
    ['JSON in HTML', (text: string) => html(json(text))],
    ['a URL', url],
    ['a URL with / left', (text: string) => url(text).replaceAll('%2F', '/')],
    ['a URL in small letters', (text: string) => url(text).replaceAll(/%../g, (one) => one.toLowerCase())],
    ['a URL twice', (text: string) => url(url(text))],
    ['a form', (text: string) => url(text).replaceAll('%20', '+')],
    ['a URL in JSON in HTML', (text: string) => html(json(url(text)))],
  ])('is hidden in %s', (_what, escape) => {
    for (const secret of [
      'p+S/EC&RE"Té<55>-LONG',
      String.raw`a\\b\"c d😀'e;f`,
      'tab\tand\nline%41',
      'p&1"',
      '+/&"+/&"',
    ]) {
      expect(hideSecrets(`x ${escape(secret)} y`, [secret]), secret).toBe('x [secret] y');
    }
  });

  it('is looked for in linear time, whatever stands beside it', () => {
    const secret = String.raw`ab\\\\\\\\\\"&"&cd`;
    for (const part of ['\\', '&amp;', '%25', 'ab\\', '&a', '"']) {
      const text = `ab ${part.repeat(50_000)}`;
      expect(hideSecrets(text, [secret])).toBe(text);
    }
  });
});

describe('a weak secret', () => {
  it.each(['', 'me', 'mine', 'password', 'changeme', 'p4ssw0r', '12345678'.slice(0, 7)])(
    'is %j',
    (secret) => {
      expect(isWeakSecret(secret)).toBe(true);
    },
  );

  it.each(['only-for-trying-out', 'p4ssw0rd', 'correcthorsebattery', '12345678'])('is not %j', (secret) => {
    expect(isWeakSecret(secret)).toBe(false);
  });
});

describe('a glob', () => {
  const seed = startSeed();
  it(`means what the regular expression does that has .* for each * (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const text = (signs: string): string =>
      Array.from({ length: Math.floor(random() * 7) }, () => signs[Math.floor(random() * signs.length)]).join(
        '',
      );
    const differences: string[] = [];
    let hits = 0;
    for (let trial = 0; trial < 20_000; trial += 1) {
      const [glob, name] = [text('ab.**'), text('ab.')];
      const expected = new RegExp(`^${glob.replaceAll('.', '\\.').replaceAll('*', '.*')}$`).test(name);
      hits += Number(expected);
      if (isLikeGlob(name, glob) !== expected) differences.push(`${glob} ${name}`);
    }
    expect(differences).toEqual([]);
    expect(hits).toBeGreaterThan(1_000);
  });

  it('of many stars is matched without trying all the ways in which it could be', () => {
    expect(isLikeGlob('a'.repeat(100_000), `${'*a'.repeat(1_000)}*b`)).toBe(false);
  });
});

it('writes equal values as equal texts, whatever the order of their members', () => {
  expect(writeJson({ b: [1, { d: null, c: true }], a: 'x' })).toBe('{"a":"x","b":[1,{"c":true,"d":null}]}');
});

it('leaves out members that are undefined', () => {
  expect(writeJson({ a: undefined, b: 1 })).toBe('{"b":1}');
});

it.each<[string, JsonValue]>([
  ['integers beyond 2^53', [9_007_199_254_740_993n, -9_007_199_254_740_993n, 10n ** 40n]],
  [
    'doubles that are long integers',
    [2 ** 53, 2 ** 60, -(2 ** 63), 1e20, 1e21, 1.7976931348623157e308, 5e-324],
  ],
  [
    'long digits in texts and names',
    { '9007199254740993': '9007199254740993', deep: ['-9007199254740993,', '"1'] },
  ],
  [
    'texts that look like the mark of a big integer',
    ['#9007199254740993', '##', 9_007_199_254_740_993n, '\\"#'],
  ],
  ['lone surrogates and control characters', ['\ud800', '\u0000\u001f\u2028', 9_007_199_254_740_993n]],
  ['decimals with many digits', [1 / 3, 14 / 15, -1 / 97, 1234567890123456.5, -2.220446049250313e-16]],
])('reads back %s as they were', (_what, value) => {
  expect(readJson(writeJson(value))).toEqual(value);
});

it('reads integers that no double holds, and fields of records to the last digit', () => {
  const text = `[9007199254740991,9007199254740992,1${'0'.repeat(400)},"#9007199254740992",0.1234567890123456]`;
  const others = [10n ** 400n, '#9007199254740992', 0.1234567890123456];
  expect(readJson(text)).toEqual([2 ** 53 - 1, 2 ** 53, ...others]);
  expect(readFields(text)).toEqual([2 ** 53 - 1, 2n ** 53n, ...others]);
});

it('keeps a member named __proto__ a member', () => {
  const read = readJson('{"__proto__":{"polluted":9007199254740993}}');
  expect(Object.keys(read as object)).toEqual(['__proto__']);
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});
