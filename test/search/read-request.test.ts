import { readFileSync } from 'node:fs';
import { describe, expect, it, afterAll } from 'vitest';
import * as z from 'zod';
import { SyncError } from '../../src/core/errors.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { readSearchRequest } from '../../src/search/read-request.ts';
import { searchLimits } from '../../src/search/search-request.ts';
import { searchTarget } from '../../src/search/search-target.ts';
import { openSearchWorld, thingsEntity } from '../support/search/search-world.ts';
import { entityName } from '../support/source/test-definition.ts';

const entity = thingsEntity();
const target = searchTarget(entity, 'shop' as ConnectorName, () => entity.table);

describe('reading a search', () => {
  // Proves specification 4.6.8, 8.5
  it('takes what is absent or null for what it is by default', () => {
    const expected = { filter: null, sort: [], limit: 1000, cursor: null, fields: null };
    expect(readSearchRequest({ query: {} }, target)).toEqual(expected);
    const nulls = { query: { filter: null, sort: null }, limit: null, cursor: null, fields: null };
    expect(readSearchRequest(nulls, target)).toEqual(expected);
  });

  it('ignores other parameters, which clients may send', () => {
    expect(readSearchRequest({ query: {}, health: 1 }, target).limit).toBe(1000);
  });

  it('takes the array notation of a path for the path', () => {
    const query = {
      filter: { contains: { 'tags[]': 'a' }, any: { 'tags[]': { any: { 'inner[]': { eq: { id: 1 } } } } } },
      sort: [{ 'tags[]': 'asc' }],
    };
    const read = (params: unknown) => readSearchRequest(params, target);
    const plain = JSON.parse(JSON.stringify(query).replaceAll('[]"', '"')) as unknown;
    const asked = { query, fields: ['tags[]', 'body.list[]'] };
    expect(read(asked)).toEqual(read({ query: plain, fields: ['tags', 'body.list'] }));
    expect(() => read({ query: {}, fields: ['tags[].id'] })).toThrow(
      'fields[0]: expected a path that ends at the array; of its elements ask {"any": {"tags": condition}}',
    );
  });

  it('takes fields as texts and as arrays of names, and a sort field once', () => {
    const sort = [{ 'body.a': 'asc' }, { id: 'desc' }, { 'body.a': 'desc' }];
    expect(readSearchRequest({ query: { sort }, fields: ['body.a', ['body', 'a.b']] }, target)).toMatchObject(
      {
        sort: [
          { path: ['body', 'a'], direction: 'asc' },
          { path: ['id'], direction: 'desc' },
        ],
        fields: [
          ['body', 'a'],
          ['body', 'a.b'],
        ],
      },
    );
  });

  it.each<[path: string, params: unknown, message: string]>([
    ['params', null, 'expected an object, got null'],
    ['params', [], 'expected an object, got an array'],
    ['query', {}, 'expected an object, got nothing'],
    ['query', { query: 'x' }, 'expected an object, got a text'],
    ['query', { query: { filters: {} } }, 'expected filter and sort, got "filters" too'],
    ['query.filter', { query: { filter: [] } }, 'expected a condition'],
    ['query.filter.equals', filter({ equals: { id: 'a' } }), 'expected one of the operators eq, neq,'],
    ['query.filter.constructor', filter({ constructor: { id: 'a' } }), 'got "constructor"'],
    ['query.filter.eq', filter({ eq: 'id' }), 'expected an object such as {"field": value}, got a text'],
    ['query.filter.eq.titl', filter({ eq: { titl: 'a' } }), 'got "titl"; did you mean "title"?'],
    [
      'query.filter.eq.__proto__',
      filter(JSON.parse('{"eq":{"__proto__":1}}')),
      'expected a searchable field',
    ],
    ['query.filter.eq["\\u001b[2J"]', filter({ eq: { '\u001b[2J': 1 } }), 'expected a searchable field'],
    [
      'query.filter.eq.title.x',
      filter({ eq: { 'title.x': 'a' } }),
      'expected title without anything behind it',
    ],
    ['query.filter.eq.title', filter({ eq: { title: 5 } }), 'expected a text or null, got the number 5'],
    ['query.filter.eq.title', filter({ eq: { title: ['a'] } }), 'expected a text or null, got an array'],
    ['query.filter.neq.amount', filter({ neq: { amount: '5' } }), 'expected a number or null, got a text'],
    ['query.filter.eq.amount', filter({ eq: { amount: NaN } }), 'got no finite number'],
    ['query.filter.eq.is_open', filter({ eq: { is_open: 1 } }), 'expected true, false or null'],
    [
      'query.filter.eq.body',
      filter({ eq: { body: { a: 1 } } }),
      'expected a text, a number, true, false or null',
    ],
    ['query.filter.gt.amount', filter({ gt: { amount: null } }), 'got null'],
    ['query.filter.in.title', filter({ in: { title: 'a' } }), 'expected an array of values, got a text'],
    ['query.filter.in.title[1]', filter({ in: { title: ['a', 1] } }), 'expected a text or null'],
    ['query.filter.like.amount', filter({ like: { amount: '1%' } }), 'like searches texts'],
    ['query.filter.like.title', filter({ like: { title: null } }), 'expected a text, got null'],
    ['query.filter.contains.is_open', filter({ contains: { is_open: true } }), 'contains searches texts'],
    ['query.filter.contains.title', filter({ contains: { title: null } }), 'expected a text, got null'],
    ['query.filter.keyword.title', filter({ keyword: { title: '?!' } }), 'at least one letter or digit'],
    [
      'query.filter.any.title',
      filter({ any: { title: {} } }),
      'expected an array, but "title" is of type string',
    ],
    [
      'query.filter.any.tags.eqq',
      filter({ any: { tags: { eqq: { a: 1 } } } }),
      'expected one of the operators',
    ],
    ['query.filter.and', filter({ and: {} }), 'expected an array of conditions, got an object'],
    ['query.filter.and[2].eq.title', filter({ and: [{}, {}, { eq: { title: 1 } }] }), 'expected a text'],
    ['query.filter.or[0].not.eq.title', filter({ or: [{ not: { eq: { title: 1 } } }] }), 'expected a text'],
    ['query.sort', { query: { sort: 'id' } }, 'expected an array, got a text'],
    ['query.sort[0]', { query: { sort: ['id'] } }, 'expected an object, got a text'],
    ['query.sort[0]', { query: { sort: [{}] } }, 'expected one field and its direction'],
    ['query.sort[0]', { query: { sort: [{ id: 'asc', title: 'asc' }] } }, 'expected one field'],
    ['query.sort[0].id', { query: { sort: [{ id: 'up' }] } }, 'expected "asc" or "desc", got a text'],
    [
      'query.sort[1].nope',
      { query: { sort: [{ id: 'asc' }, { nope: 'asc' }] } },
      'expected a searchable field',
    ],
    ['limit', { query: {}, limit: 0 }, 'expected an integer from 1 to 1000, got the number 0'],
    ['limit', { query: {}, limit: 1001 }, 'got the number 1001'],
    ['limit', { query: {}, limit: 1.5 }, 'got the number 1.5'],
    ['limit', { query: {}, limit: '5' }, 'got a text'],
    ['cursor', { query: {}, cursor: 5 }, 'expected the text of meta.cursor'],
    ['fields', { query: {}, fields: 'id' }, 'expected an array, got a text'],
    ['fields', { query: {}, fields: [] }, 'expected at least one field'],
    ['fields[0]', { query: {}, fields: [5] }, 'expected a path as a text or as an array of names'],
    ['fields[0]', { query: {}, fields: [[]] }, 'expected a searchable field'],
    ['fields[0][1]', { query: {}, fields: [['body', 5]] }, 'expected a name, got the number 5'],
  ])('names the place and what is wrong there: %s', (path, params, message) => {
    const error = problemOf(params);
    expect(error.message).toContain(`${path}: `);
    expect(error.message).toContain(message);
    expect(error).toMatchObject({ code: 'SEARCH_INVALID', recovery: 'stop', context: { path } });
  });

  it.each<[what: string, most: unknown, over: unknown]>([
    ['depth', nested(8), nested(9)],
    ['depth of any', nestedAny(8), nestedAny(9)],
    [
      'conditions',
      filter({ or: many(63, { eq: { id: 'a' } }) }),
      filter({ or: many(64, { eq: { id: 'a' } }) }),
    ],
    ['values of in', filter({ in: { id: many(500, 'a') } }), filter({ in: { id: many(501, 'a') } })],
    ['characters', filter({ like: { id: '😀'.repeat(256) } }), filter({ like: { id: 'a'.repeat(257) } })],
    ['words', filter({ fuzzy: { id: 'ab '.repeat(32) } }), filter({ fuzzy: { id: 'ab '.repeat(33) } })],
    ['sort fields', { query: { sort: sorts(8) } }, { query: { sort: sorts(9) } }],
    ['fields', { query: {}, fields: many(64, 'id') }, { query: {}, fields: many(65, 'id') }],
    ['names in a path', filter({ eq: { [path(8)]: 1 } }), filter({ eq: { [path(9)]: 1 } })],
    ['names in an element', filter(inTags(path(8))), filter(inTags(path(9)))],
    ['cursor', { query: {}, cursor: 'a'.repeat(8192) }, { query: {}, cursor: 'a'.repeat(8193) }],
    ['size', sized(65_000), sized(65_536)],
    ['size in small pieces', filter({ and: many(60, {}) }), filter({ and: many(70_000, {}) })],
  ])('has a limit: %s', (_, most, over) => {
    expect(() => readSearchRequest(most, target)).not.toThrow();
    expect(problemOf(over).message).toContain('at most');
  });

  it('refuses a query that is nested too deeply, without recursion', () => {
    const deep = JSON.parse(`${'{"not":'.repeat(5000)}{}${'}'.repeat(5000)}`) as unknown;
    expect(problemOf(filter(deep)).code).toBe('SEARCH_INVALID');
    const arrays = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as unknown;
    expect(problemOf(filter({ eq: { id: arrays } })).context).toEqual({ path: 'query' });
  });

  it('never repeats a value that it was given', () => {
    const secret = 'jane@example.com';
    for (const params of [
      filter({ eq: { amount: secret } }),
      filter({ in: { is_open: [secret] } }),
      { query: {}, limit: secret },
      { query: { sort: [{ id: secret }] } },
    ]) {
      expect(problemOf(params).message).not.toContain(secret);
    }
  });
});

function filter(condition: unknown): unknown {
  return { query: { filter: condition } };
}

function many(count: number, value: unknown): unknown[] {
  return Array.from({ length: count }, () => value);
}

function nested(depth: number): unknown {
  let condition: unknown = { eq: { id: 'a' } };
  for (let level = 1; level < depth; level += 1) condition = { not: condition };
  return filter(condition);
}

function nestedAny(depth: number): unknown {
  let condition: unknown = { eq: { a: 'a' } };
  for (let level = 1; level < depth; level += 1) condition = { any: { tags: condition } };
  return filter(condition);
}

function sorts(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({ [`body.m${index}`]: 'asc' }));
}

function path(names: number): string {
  return ['body', ...Array.from({ length: names - 1 }, () => 'a')].join('.');
}

function inTags(name: string): unknown {
  return { any: { tags: { eq: { [name]: 1 } } } };
}

function sized(bytes: number): unknown {
  return filter({ eq: { body: 'é'.repeat(bytes / 2) } });
}

function problemOf(params: unknown): SyncError {
  try {
    readSearchRequest(params, target);
  } catch (error) {
    if (error instanceof SyncError) return error;
    throw error;
  }
  throw new Error('expected to be refused');
}

const document = readFileSync('docs/search.md', 'utf8');

describe('docs/search.md', () => {
  const campaigns = loadDefinitions([builtInDefinitionsFolder])
    .get('email-marketing')
    ?.entities.get(entityName('campaigns'));
  if (campaigns === undefined) throw new Error('no campaigns');
  const world = openSearchWorld(campaigns);
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });
  const [, records = ''] = /```json records=campaigns\n(.*?)\n```/s.exec(document) ?? [];
  for (const record of z.array(z.record(z.string(), z.json())).parse(JSON.parse(records))) {
    world.store(record);
  }

  const examples = [
    ...document.matchAll(/```json filter=campaigns(?: sort=(\S+))?\n(.*?)\n```\n\nFinds ([^\n]+)\./gs),
  ].map(([, sort = '[]', filter = '', found = '']) => ({
    filter,
    query: { filter: JSON.parse(filter) as unknown, sort: JSON.parse(sort) as unknown },
    ids: [...found.matchAll(/`(\w+)`/g)].map(([, id]) => id),
  }));

  it('has an example for every operator that is not plain from another', () => {
    expect(examples.length).toBe(document.split('```json filter=').length - 1);
    expect(examples.length).toBeGreaterThan(10);
  });

  // Proves specification 4.6.5
  it.each(examples)('finds what it says: $filter', async ({ query, ids }) => {
    expect(await world.ids({ query })).toEqual(ids);
  });

  it('shows what it says', async () => {
    const query = { filter: { in: { id: ['c1', 'c4'] } } };
    const shown = (await world.search({ query, fields: ['id', 'settings.title'] })).data;
    expect(shown).toEqual(
      [...document.matchAll(/`(\{"id": "c\d".*?\})`/g)].map(([, text = '']) => JSON.parse(text) as unknown),
    );
    expect(shown).toHaveLength(2);
  });

  it('refuses what it says in the words it says', async () => {
    const [, message = ''] = /`(query\.filter\.and\[2\][^`]+)`/.exec(document) ?? [];
    const and = [{ eq: { id: 'c1' } }, { eq: { id: 'c1' } }, { eq: { status: 5 } }];
    await expect(world.search({ query: { filter: { and } } })).rejects.toThrow(message);
  });

  it('states the limits that hold', () => {
    const table = /## Limits\n(.*?)\n\n[^|]/s.exec(document)?.[1] ?? '';
    const values = [...table.matchAll(/\| ([\d]+)( KiB)? *\|$/gm)].map(
      ([, number, unit]) => Number(number) * (unit === undefined ? 1 : 1024),
    );
    expect(values).toEqual([
      searchLimits.depth,
      searchLimits.nodes,
      searchLimits.inValues,
      searchLimits.patternChars,
      searchLimits.words,
      searchLimits.sortFields,
      searchLimits.fields,
      searchLimits.pathParts,
      searchLimits.limit,
      searchLimits.queryBytes,
      searchLimits.cursorBytes,
    ]);
  });
});
