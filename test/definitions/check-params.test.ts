import { describe, expect, it } from 'vitest';
import { checkParams, convertParams, missingParams, convertValue } from '../../src/definitions/params.ts';
import type { Action } from '../../src/definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';

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
