import { describe, expect } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import type { Action } from '../../src/definitions/definition.ts';
import { linearPattern } from '../../src/definitions/upstream/service-texts.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import {
  compileMask,
  ruleAt,
  ruleTree,
  type MaskRule,
  type MaskRules,
} from '../../src/definitions/record-masks.ts';
import { checkParams, convertParams, missingParams, convertValue } from '../../src/definitions/params.ts';
import { it } from '../support/it.ts';

const definitions = loadDefinitions([builtInDefinitionsFolder]);
const members = listOf('email-marketing', 'list_members');
const pages = listOf('workspace-notes', 'pages');

describe('checking parameters', () => {
  it('says nothing about good ones, also when they come as texts', () => {
    expect(checkParams(members, { status: 'subscribed', count: 1000, vip_only: true })).toEqual([]);
    expect(checkParams(members, { count: '1000', vip_only: 'true', email_type: 7 })).toEqual([]);
    expect(checkParams(pages, { sort: { direction: 'ascending', timestamp: 'last_edited_time' } })).toEqual(
      [],
    );
  });

  it.each([
    [members, { statu: 'x' }, 'statu: no such parameter; did you mean "status"?'],
    [
      members,
      { status: 'subscribd' },
      'status: expected one of subscribed, unsubscribed, cleaned, pending, transactional, archived, got "subscribd"; did you mean "subscribed"?',
    ],
    [members, { count: 1001 }, 'count: expected at most 1000, got 1001'],
    [members, { count: 0 }, 'count: expected at least 1, got 0'],
    [members, { count: 'many' }, 'count: expected type integer, got "many"'],
    [members, { count: 1.5 }, 'count: expected type integer, got 1.5'],
    [members, { vip_only: 'yes' }, 'vip_only: expected type boolean, got "yes"'],
    [members, { email_type: {} }, 'email_type: expected type string, got an object'],
    [members, { email_type: null }, 'email_type: expected type string, got null'],
    [pages, { sort: 'ascending' }, 'sort: expected type object, got "ascending"'],
    [pages, { sort: { direction: 'ascending' } }, 'sort.timestamp: is missing'],
    [
      pages,
      { sort: { direction: 'up', timestamp: 'last_edited_time' } },
      'sort.direction: expected one of ascending, descending, got "up"',
    ],
    [
      pages,
      { sort: { directon: 'up', timestamp: 'last_edited_time' } },
      'sort.directon: no such parameter; did you mean "direction"?',
    ],
    [pages, { filter: { property: 'object' } }, 'filter.value: is missing'],
  ])('names what is wrong', (action, params, expected) => {
    expect(checkParams(action, params)).toEqual([expected]);
  });

  it('is not fooled by names that every object has', () => {
    expect(checkParams(members, JSON.parse('{"__proto__": 1, "toString": 1}'))).toHaveLength(2);
    expect(missingParams(members, {})).toEqual(['list_id']);
    expect(missingParams(members, { list_id: 'a' })).toEqual([]);
  });

  it('converts them to what is sent', () => {
    expect(convertParams(members, { count: '10', vip_only: 'false', email_type: 7 })).toEqual({
      count: 10,
      vip_only: false,
      email_type: '7',
    });
  });
});

describe('converting a value', () => {
  it("sends a segment's integer id as a text and stores it as an integer again", () => {
    expect(convertValue('string', 49_377)).toBe('49377');
    expect(convertValue('integer', '49377')).toBe(49_377);
  });

  it('loses no digit of an integer that a number cannot hold', () => {
    expect(convertValue('string', 9_007_199_254_740_993n)).toBe('9007199254740993');
    expect(convertValue('integer', '9007199254740993')).toBe(9_007_199_254_740_993n);
  });

  it.each([
    ['string', 1.5],
    ['string', true],
    ['string', null],
    ['string', {}],
    ['integer', '1e3'],
    ['integer', ' 1'],
    ['integer', '01'],
    ['integer', ''],
    ['integer', 1.5],
    ['boolean', 1],
    ['object', []],
    ['array', {}],
  ] as const)('has no %s for %j', (type, value) => {
    expect(convertValue(type, value)).toBeNull();
  });
});

function listOf(definition: string, entity: string): Action {
  for (const [name, { actions }] of definitions.get(definition)?.entities ?? []) {
    const list = actions.get('list');
    if (name === entity && list !== undefined) return list;
  }
  throw new Error(`no list of ${entity} in ${definition}`);
}

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

describe('a pattern of a definition', () => {
  it('is matched in linear time', () => {
    for (const pattern of ['(a+)+b', '(a*)*b', '(a|a)*b', '(a|aa)+b', '(?:a?){99}b']) {
      const slow = linearPattern(pattern);
      expect(slow.testExact('a'.repeat(4_000)), pattern).toBe(false);
      expect(slow.testExact('aaab'), pattern).toBe(true);
    }
  });

  it.each(['a(?=b)', '(?<=a)b', '(a)\\1', '(?<n>a)\\k<n>', 'a(', '[b-a]', 'a**', '(a{500}){500}'])(
    'is refused: %s',
    (pattern) => expect(() => linearPattern(pattern)).toThrow(SyntaxError),
  );
});
