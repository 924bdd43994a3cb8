import type { ModeName } from '../../../src/definitions/import/sent-values.ts';
import type { Listing } from './miniature.ts';

export const onePage = { 'x-airbyte-no-pagination': 'All of them come in a single response.' };
const nullable = { type: ['string', 'null'] };
const flag = { type: 'boolean' };
export const integer = (more: object = {}) => ({ schema: { type: 'integer', ...more } });
export const cursor = {
  params: { cursor: 'string' },
  meta: { next: '$.next_cursor' },
  answer: { next_cursor: nullable },
} as const;

/** Files in which something is not what it seems: refused or asked about, never read wrong. */
export const traps: readonly (readonly [string, Listing, ModeName, RegExp])[] = [
  [
    'starting_after without a word about an id',
    {
      params: { starting_after: { description: 'Where to begin', schema: { type: 'string' } } },
      meta: { more: '$.has_more' },
      answer: { has_more: flag },
    },
    'direct',
    /^todo: pagination/,
  ],
  [
    'has_more without a token',
    { meta: { more: '$.has_more' }, answer: { has_more: flag } },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'a token that no parameter takes',
    { meta: { c: '$.next_cursor' }, answer: { next_cursor: nullable } },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'one page for a reason by which the service pages',
    { more: { 'x-airbyte-no-pagination': 'All in one; paging is on other parameters, not modelled here.' } },
    'direct',
    /^todo: pagination .*the file says that the listing has one page/,
  ],
  [
    'a cursor parameter and no token',
    { params: { cursor: 'string' } },
    'direct',
    /^todo: pagination .*nothing says how it pages, and cursor is declared/,
  ],
  [
    'a token that is in no metadata, by an API',
    { ...cursor, meta: {} },
    'hosted',
    /^refused: page 1 only: the token in next_cursor is in no key/,
  ],
  [
    'a size and nothing else',
    { params: { limit: integer({ maximum: 10 }) } },
    'direct',
    /^todo: pagination .*limit is declared/,
  ],
  [
    'a next address whose parameters are unknown, by an API',
    { meta: { n: '$.next_url' }, answer: { next_url: nullable } },
    'hosted',
    /^refused: page 1 only/,
  ],
  [
    'one page beside a maximum',
    { params: { limit: integer({ maximum: 100 }) }, more: onePage },
    'direct',
    /^todo: pagination .*the file says that the listing has one page/,
  ],
  [
    'startYear, a number',
    { params: { startYear: integer(), limit: integer() } },
    'direct',
    /^todo: pagination/,
  ],
  [
    'ending_before alone',
    { params: { ending_before: 'string' }, meta: { more: '$.has_more' }, answer: { has_more: flag } },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'two tokens for two parameters',
    {
      params: { cursor: 'string', page_cursor: 'string' },
      meta: { a: '$.next_cursor' },
      answer: { next_cursor: nullable },
    },
    'direct',
    /^todo: pagination .*more than one parameter/,
  ],
  [
    'a bookmark for an offset',
    { params: { offset: 'string' }, meta: { b: '$.bookmark' }, answer: { bookmark: nullable } },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'a template in the path',
    { path: '/{{ workspace }}/things', more: onePage },
    'direct',
    /^refused: its path holds a template/,
  ],
  [
    'a computed default',
    { params: { since: { schema: { type: 'string', default: "{{ config['since'] }}" } } }, more: onePage },
    'hosted',
    /^todo: value .*a template computes its default/,
  ],
  [
    'a filter of records',
    { more: { ...onePage, 'x-airbyte-record-filter': '{{ not record.private }}' } },
    'direct',
    /^refused: its records are filtered by a template/,
  ],
  [
    'a transform of records',
    { more: { ...onePage, 'x-airbyte-record-transform': { a: '{{ record.b }}' } } },
    'direct',
    /^refused: its records are made by a template/,
  ],
  [
    'an id that is an object',
    { record: { id: { type: 'object' }, name: { type: 'string' } }, more: onePage },
    'direct',
    /^todo: key .*no field/,
  ],
  [
    'an id of something else',
    { record: { id: { type: 'string', description: 'The id of the user who bought it' } }, more: onePage },
    'direct',
    /^todo: key .*its field id seems to be the id of something else/,
  ],
  [
    'an id that is not unique',
    { record: { id: { type: 'string', description: 'Not unique over time' } }, more: onePage },
    'direct',
    /^todo: key/,
  ],
  [
    'no field that could be a key',
    { record: { date: { type: 'string' }, clicks: { type: 'integer' } }, more: onePage },
    'direct',
    /^todo: key .*no field/,
  ],
  [
    'a foreign address of one listing',
    { more: { ...onePage, servers: [{ url: 'https://elsewhere.example' }] } },
    'direct',
    /^refused: it has an address apart/,
  ],
  ['a PUT', { more: onePage, method: 'put' as 'get' }, 'direct', /^refused: it is a PUT/],
  [
    'records at a place of no known form',
    { extractor: '$..items[?(@.live)]', more: onePage },
    'hosted',
    /^refused: the place of its records is of a form/,
  ],
  [
    'two arrays and no place',
    { extractor: null, answer: { others: { type: 'array', items: { type: 'object' } } }, more: onePage },
    'direct',
    /^todo: records .*has the records: items, others/,
  ],
  [
    'a required parameter that nothing fills',
    { params: { account: { required: true, schema: { type: 'string' } } }, more: onePage },
    'direct',
    /^todo: value/,
  ],
  [
    'a default that only fills a place',
    { params: { account: { required: true, schema: { type: 'string', default: '' } } }, more: onePage },
    'hosted',
    /^todo: value/,
  ],
  [
    'a body of another kind than JSON',
    {
      method: 'post',
      more: { ...onePage, requestBody: { content: { 'text/xml': {} } } },
    },
    'direct',
    /^refused: its body is text\/xml, not JSON/,
  ],
  [
    'defaults within elements of the body',
    {
      method: 'post',
      more: {
        ...onePage,
        requestBody: {
          content: {
            'application/json': {
              schema: {
                properties: { rules: { type: 'array', items: { properties: { op: { default: 'is' } } } } },
              },
            },
          },
        },
      },
    },
    'direct',
    /^refused: its body has defaults within the elements of rules/,
  ],
  [
    'a header that this program sets',
    {
      params: {
        'Content-Type': { in: 'header', schema: { type: 'string', default: 'application/vnd.shop+json' } },
      },
      more: onePage,
    },
    'direct',
    /^refused: its header Content-Type/,
  ],
  [
    'a GraphQL query',
    {
      method: 'post',
      more: {
        ...onePage,
        requestBody: { 'x-airbyte-body-type': { type: 'graphql', query: 'query { things { id } }' } },
      },
    },
    'direct',
    /^refused: its body is of the type graphql, not JSON/,
  ],
  [
    'a cursor that is one of several kinds',
    { ...cursor, params: { cursor: { schema: { type: 'string', enum: ['hand', 'arrow'] } } } },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'after that is a time, beside a token',
    {
      ...cursor,
      params: { after: { description: 'Only later ones (ISO 8601)', schema: { type: 'string' } } },
    },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'token that signs in',
    {
      params: { token: { description: 'Your API token', schema: { type: 'string' } } },
      answer: { next_token: nullable },
    },
    'direct',
    /^refused: page 1 only/,
  ],
  [
    'page that is an object of a web site',
    { params: { page: { schema: { type: 'object' } }, limit: integer() } },
    'direct',
    /^todo: pagination/,
  ],
  [
    'page that is the number of a web page',
    { params: { page: { ...integer(), description: 'The id of the web page' }, limit: integer() } },
    'direct',
    /^todo: pagination/,
  ],
  ['page with nothing that goes with it', { params: { page: integer() } }, 'direct', /^todo: pagination/],
  [
    'offset that is one of time zones',
    { params: { offset: { ...integer(), description: 'Minutes from UTC' }, limit: integer() } },
    'direct',
    /^todo: pagination .*limit is declared/,
  ],
  ['next that is a flag, and no way there', { answer: { next: flag } }, 'direct', /^refused: page 1 only/],
  [
    'next that is a flag of numbered pages',
    { params: { page: integer() }, answer: { next: flag } },
    'direct',
    /^converted/,
  ],
  ['a total and no pages', { answer: { total: { type: 'integer' } } }, 'direct', /^todo: pagination/],
  [
    'an id that is unique within its order',
    { record: { id: { type: 'string', description: 'Unique within the order' } }, more: onePage },
    'direct',
    /^todo: key .*its field id seems to be the id of something else/,
  ],
  [
    'a required parameter that is one of several',
    { params: { kind: { required: true, schema: { type: 'string', enum: ['a', 'b'] } } }, more: onePage },
    'direct',
    /^todo: value/,
  ],
  [
    'a required cookie',
    { params: { session: { in: 'cookie', required: true, schema: { type: 'string' } } }, more: onePage },
    'direct',
    /^refused: it needs a cookie/,
  ],
  [
    'a parameter that reaches a prototype',
    { params: { constructor: 'string', prototype: 'string' }, more: onePage },
    'direct',
    /^converted/,
  ],
  [
    'a listing that is a sample of what there is',
    { more: { ...onePage, description: 'Returns a sample of things. Use the export for all of them.' } },
    'direct',
    /^refused: it lists a sample only/,
  ],
  ['a deprecated listing', { more: { ...onePage, deprecated: true } }, 'direct', /^converted/],
];
