import { describe, expect, it } from 'vitest';
import { hideSecrets, isWeakSecret } from '../../src/core/hide-secrets.ts';

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
