import { describe, expect, it } from 'vitest';
import { scanPage } from '../../src/http/scan-json.ts';

const paths = [['result'], ['result', 'data']];
const scan = (text: string | Buffer, maxDepth = 100) => scanPage(Buffer.from(text), paths, maxDepth);
/** An answer with one record that has one member. */
const withMember = (value: string) => `{"result":[{"a":${value}}]}`;

describe('an answer that is no JSON', () => {
  it.each([
    '',
    ' ',
    '{',
    '[',
    '{"result":[',
    '{"result":[]',
    '{"result":[{}]}}',
    '{"result":[]}{}',
    '{"result":[]},',
    '{"result":[1,]}',
    '{"result":[,1]}',
    '{"result":[1 2]}',
    '{"result":[1}}',
    '{"result":[{]}',
    '{"result" []}',
    '{result:[]}',
    "{'result':[]}",
    '{"result":[],}',
    '{,"result":[]}',
    '{"result":[]"a":1}',
    '{"result":[] "a":1}',
    '{"result":[{"a":1,}]}',
    '{"result":[{,"a":1}]}',
    '{"result":[{"a"}]}',
    '{"result":[{"a":}]}',
    '{"result":[{"a":1 "b":2}]}',
    '{"result":[{"a" 1}]}',
    '{"result":[{"a"::1}]}',
    '{"result":[{1:1}]}',
    '/**/{"result":[]}',
    '{"result":[]}//',
    '{"result":[/**/]}',
    '\0{"result":[]}',
    '{"result":[]}\0',
    '﻿{"result":[]}',
    '\xA0{"result":[]}',
    '{"result":[\u2028]}',
    '\v{"result":[]}',
    '{"result":\f[]}',
  ])('gives no page: %j', (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(scan(text)).toBeNull();
  });

  const values = [
    'NaN',
    'Infinity',
    '-Infinity',
    'undefined',
    'True',
    'nul',
    'nulll',
    'tru',
    'fals',
    'falsy',
    'trueish',
    '',
    '01',
    '-01',
    '00',
    '1.',
    '.5',
    '-.5',
    '+1',
    '1e',
    '1e+',
    '1E-',
    '-',
    '--1',
    '1..2',
    '1.e1',
    '0x10',
    '1_000',
    '1e1.5',
    '- 1',
    '1n',
    '"',
    '"a',
    '"\\"',
    '"\\',
    "'a'",
    '"\\x"',
    '"\\a"',
    '"\\u"',
    '"\\u12"',
    '"\\u123g"',
    '"\\u 123"',
    '"\\U0041"',
    '"\\\n"',
    '"\0"',
    '""',
    '"a\nb"',
    '"a	b"',
    '"a"b"',
    '"a""b"',
    '[',
    ']',
    '[1,]',
    '[,]',
    '[1',
    '[1}',
    '{]',
    '{"b":1',
    '{"b"}',
    '{"b":1,}',
    '{"b":1]',
    '{b:1}',
    '{"b":1;}',
    '[1 2]',
    '[1:2]',
    '{"b",1}',
    '[[]',
    '[]]',
    '{}}',
    '{"b":{}',
    '[""""]',
    '[""]',
    '{"":1}',
    '{"\\q":1}',
  ];
  it.each(values)('gives no page, whatever holds the value: %j', (value) => {
    for (const text of [
      withMember(value),
      `{"result":[${value}]}`,
      `{"result":[{"a":[${value}]}]}`,
      `{"result":[{"a":{"b":${value}}}]}`,
      `{"result":[],"a":${value}}`,
      `{"a":{"b":${value}},"result":[]}`,
    ]) {
      let isJson = true;
      try {
        JSON.parse(text);
      } catch {
        // As the value alone.
        isJson = false;
      }
      // An empty value leaves an empty array, which is one.
      if (value !== '') expect(isJson, text).toBe(false);
      expect(scan(text) !== null, text).toBe(isJson);
    }
  });

  it.each([
    ['a byte that begins nothing', [0xff]],
    ['a continuation alone', [0x80]],
    ['a cut letter', [0xc5]],
    ['a cut letter of four bytes', [0xf0, 0x9f, 0x98]],
    ['an overlong quote', [0xc0, 0xa2]],
    ['an overlong NUL', [0xc0, 0x80]],
    ['an overlong slash of three bytes', [0xe0, 0x80, 0xaf]],
    ['a surrogate', [0xed, 0xa0, 0x80]],
    ['a pair of surrogates', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
    ['a letter beyond Unicode', [0xf4, 0x90, 0x80, 0x80]],
    ['ISO 8859-1', [0x62, 0xfc, 0x63]],
  ])('gives no page when a string has %s', (_, bytes) => {
    const around = (text: string) =>
      Buffer.concat([Buffer.from(text), Buffer.from(bytes), Buffer.from('"}]}')]);
    expect(scan(around('{"result":[{"a":"'))).toBeNull();
    expect(scan(around('{"a":"x').subarray(0, 7 + bytes.length))).toBeNull();
  });

  it.each(['utf16le', 'latin1'] as const)('gives no page in the encoding %s', (encoding) => {
    expect(scan(Buffer.from('{"result":[{"a":"é"}]}', encoding))).toBeNull();
  });

  it('gives no page wherever it was cut', () => {
    const text = ' {"a":[{}],"result":[{"a":"\\u00e9","b":[true,{"c":-1.5e3}]},null],"z":{}}';
    expect(scan(text)?.count).toBe(2);
    for (let length = 0; length < text.length; length += 1) expect(scan(text.slice(0, length))).toBeNull();
  });
});
