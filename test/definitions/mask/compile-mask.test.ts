import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import {
  compileMask,
  ruleAt,
  ruleTree,
  type MaskRule,
  type MaskRules,
} from '../../../src/definitions/mask/masks.ts';

const hash: MaskRule = { kind: 'hash', as: 'text' };
const drop: MaskRule = { kind: 'drop' };
const keep: MaskRule = { kind: 'keep' };

function rules(
  fields: Record<string, MaskRule>,
  unknownFields: MaskRules['unknownFields'] = 'keep',
): MaskRules {
  return { fields: new Map(Object.entries(fields)), unknownFields };
}

function masked(
  fields: Record<string, MaskRule>,
  record: JsonValue,
  unknown: MaskRules['unknownFields'] = 'keep',
) {
  // Objects without a prototype, and as JSON as a sink would have them.
  return JSON.parse(
    JSON.stringify(compileMask(rules(fields, unknown), (text) => `#${text}`)(record)),
  ) as JsonValue;
}

describe('a mask', () => {
  it.each<[string, Record<string, MaskRule>, JsonValue, JsonValue]>([
    ['drops a field', { email: drop }, { id: 1, email: 'a@b' }, { id: 1 }],
    ['drops a null', { email: drop }, { id: 1, email: null }, { id: 1 }],
    ['keeps null as null', { email: hash }, { email: null }, { email: null }],
    ['leaves no trace of blanks', { email: hash }, { email: ' \t' }, { email: '' }],
    ['hashes a text in one form', { email: hash }, { email: ' A@B ' }, { email: '#a@b' }],
    [
      'hashes a value as it came',
      { id: { kind: 'hash', as: 'value' }, n: { kind: 'hash', as: 'value' } },
      { id: ' aB1', n: ['Q'] },
      { id: '# aB1', n: '#["Q"]' },
    ],
    ['hashes a number by its text', { phone: hash }, { phone: 5 }, { phone: '#5' }],
    ['hashes an object as a whole', { a: hash }, { a: { y: 1, x: ['Q'] } }, { a: '#{"x":["q"],"y":1}' }],
    ['follows a path', { 'a.b': hash }, { a: { b: 'x', c: 'y' } }, { a: { b: '#x', c: 'y' } }],
    [
      'follows a path through arrays',
      { 'a.b': hash },
      { a: [{ b: 'x' }, [{ b: 'y' }]] },
      { a: [{ b: '#x' }, [{ b: '#y' }]] },
    ],
    [
      'takes any name for *',
      { 'a.*.b': hash },
      { a: { p: { b: 'x' }, q: { b: 'y' } } },
      { a: { p: { b: '#x' }, q: { b: '#y' } } },
    ],
    ['takes any place of an array for *', { 'a.*': hash }, { a: ['x', 'y'] }, { a: ['#x', '#y'] }],
    [
      'prefers a name to *',
      { 'a.*': hash, 'a.b': keep },
      { a: { b: 'x', c: 'y' } },
      { a: { b: 'x', c: '#y' } },
    ],
    ['knows a name with dots in it', { 'a.b': hash }, { 'a.b': 'x' }, { 'a.b': '#x' }],
    ['masks what lies below a name with dots', { a: drop }, { 'a.b': 'x', c: 1 }, { c: 1 }],
    ['drops a text where members are expected', { 'a.b': hash }, { a: 'x' }, {}],
    ['drops a text among elements likewise', { 'a.b': hash }, { a: ['x', { b: 'y' }] }, { a: [{ b: '#y' }] }],
    [
      'drops a text where * leads on to members',
      { 'a.*.b': hash },
      { a: { p: 'x', q: { b: 'y' } } },
      { a: { q: { b: '#y' } } },
    ],
    ['drops a number there, keeps null', { 'a.*.b': hash }, { a: { p: 5, q: null } }, { a: { q: null } }],
    ['drops texts in arrays there', { 'a.*.b': hash }, { a: { p: ['x', [true]] } }, { a: { p: [[]] } }],
    [
      'drops a text in an array where * is a place',
      { 'a.*.b': hash },
      { a: ['x', { b: 'y' }] },
      { a: [{ b: '#y' }] },
    ],
    ['drops a text where several * lead on', { 'a.*.*.b': hash }, { a: { p: { q: 'x' } } }, { a: { p: {} } }],
    [
      'keeps a field of the record that only * leads through',
      { '*.b': hash },
      { a: 'x', c: { b: 'y' } },
      { a: 'x', c: { b: '#y' } },
    ],
    ['truncates texts and digits', { zip: { kind: 'truncate', length: 2 } }, { zip: 12345 }, { zip: '12' }],
    ['truncates by character', { a: { kind: 'truncate', length: 1 } }, { a: '😀x' }, { a: '😀' }],
    [
      'truncates each element',
      { a: { kind: 'truncate', length: 1 } },
      { a: ['xy', null] },
      { a: ['x', null] },
    ],
    ['drops an object to be truncated', { a: { kind: 'truncate', length: 1 } }, { a: { b: 'x' } }, {}],
    ['shows nothing of what is no object', { a: drop }, 'x@y', null],
    ['shows nothing of an array of records', { a: drop }, [{ a: 'x' }], null],
  ])('%s', (_, fields, record, expected) => {
    expect(masked(fields, record)).toEqual(expected);
  });

  it('takes a member named __proto__ for a member', () => {
    const record = JSON.parse('{"__proto__": {"email": "x"}, "id": 1}') as JsonValue;
    expect(JSON.stringify(compileMask(rules({ '*.email': hash }), (text) => `#${text}`)(record))).toBe(
      '{"__proto__":{"email":"#x"},"id":1}',
    );
  });

  it('drops what is nested deeper than it follows', () => {
    let deep: JsonValue = 'x@y';
    for (let level = 0; level < 10_000; level += 1) deep = [deep];
    expect(masked({ a: hash, 'b.c': hash }, { a: deep, b: deep, id: 1 })).toMatchObject({ id: 1 });
    expect(JSON.stringify(masked({ a: hash, 'b.c': hash }, { a: deep, b: deep }))).not.toContain('x@y');
  });

  it('gives the record itself where nothing of it is masked', () => {
    const record = { id: 1, tags: ['x'] };
    expect(compileMask(rules({ email: drop, 'tags.name': keep }), String)(record)).toBe(record);
  });
});

describe('a mask with unknownFields: drop', () => {
  it.each<[string, Record<string, MaskRule>, JsonValue, JsonValue]>([
    [
      'keeps what a path covers',
      { id: keep, email: hash },
      { id: 1, email: 'x', phone: 2 },
      { id: 1, email: '#x' },
    ],
    ['keeps all that lies in what is kept', { a: keep }, { a: { b: [1] }, c: 1 }, { a: { b: [1] } }],
    ['keeps of an object what is named', { 'a.b': keep }, { a: { b: 1, c: 2 } }, { a: { b: 1 } }],
    [
      'masks within what is kept',
      { a: keep, 'a.b': hash },
      { a: { b: 'x', c: 2 } },
      { a: { b: '#x', c: 2 } },
    ],
    ['drops nulls that no path covers', { id: keep }, { id: null, a: null }, { id: null }],
  ])('%s', (_, fields, record, expected) => {
    expect(masked(fields, record, 'drop')).toEqual(expected);
  });
});

describe('a text to be hashed', () => {
  it.each<['email' | 'phone', readonly string[]]>([
    [
      'email',
      ['ann@example.com', ' Ann@Example.COM ', 'Ann Lee <ANN@example.com>', 'mailto:ann@example.com'],
    ],
    ['email', ['ａnn@example.com', 'ann@example.com']],
    ['phone', ['+1 (555) 010-9999', '+15550109999', '001 555 010 9999', 'tel:+1-555-0109999']],
    ['phone', ['(030) 1234', '030 1234', '0301234']],
  ])('is one text for one %s', (as, texts) => {
    const found = texts.map((text) => masked({ a: { kind: 'hash', as } }, { a: text }));
    expect(new Set(found.map((one) => JSON.stringify(one))).size).toBe(1);
  });

  it('is another one for another country, and for what is no number', () => {
    const texts = ['+4930', '+130', '30', 'none', '<a>', 'unknown>'];
    const found = texts.map((a) => JSON.stringify(masked({ a: { kind: 'hash', as: 'phone' } }, { a })));
    expect(new Set(found).size).toBe(texts.length);
  });
});

describe('the rule for a path', () => {
  it.each([
    [{ 'activity.*.ip': hash }, 'activity.ip', 'hash'],
    [{ 'activity.ip': hash }, 'activity.ip', 'hash'],
    [{ activity: drop }, 'activity.timestamp', 'drop'],
    [{ 'activity.*.ip': hash }, 'activity.timestamp', 'keep'],
    [{ '*': hash }, 'id', 'hash'],
    [{ 'tags.*': hash }, 'tags', 'keep'],
  ] as const)('%j at %s is %s', (fields, path, kind) => {
    const all = rules(fields);
    expect(ruleAt(all, ruleTree(all), path.split('.')).kind).toBe(kind);
  });

  it('is to drop what an allow-list does not cover', () => {
    const all = rules({ 'a.b': keep, c: keep }, 'drop');
    const kinds = ['a.b', 'a.c', 'c.d', 'e'].map((path) => ruleAt(all, ruleTree(all), path.split('.')).kind);
    expect(kinds).toEqual(['keep', 'drop', 'keep', 'drop']);
  });
});
