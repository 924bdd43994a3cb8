import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import { importListing, outcomeOf, writtenIn, type Listing } from '../../support/import/miniature.ts';

const size = { schema: { type: 'integer', maximum: 50 } };
const nullable = { type: ['string', 'null'] };

/** Every shape in which public files page: what the service itself is asked, and what an API can be; null: nothing. */
const shapes: readonly (readonly [string, Listing, object, object | null])[] = [
  [
    'a token that a parameter takes',
    {
      params: { cursor: 'string', limit: size },
      meta: { next: '$.paging.next_cursor', has_more: '$.has_more' },
      answer: { paging: { properties: { next_cursor: nullable } }, has_more: { type: 'boolean' } },
    },
    {
      pagination: { kind: 'pageToken', tokenParam: 'cursor', sizeParam: 'limit', maxSize: 50 },
      paging: { kind: 'cursor', token: 'paging.next_cursor', more: 'has_more' },
    },
    { kind: 'pageToken', tokenParam: 'cursor', tokenKeys: ['next'], flagKeys: ['has_more'], maxSize: 50 },
  ],
  [
    'a token with no parameter for the size',
    {
      params: { page_token: 'string' },
      meta: { t: '$.next_page_token' },
      answer: { next_page_token: nullable },
    },
    { pagination: { kind: 'pageToken', tokenParam: 'page_token' }, paging: { kind: 'cursor' } },
    { kind: 'pageToken', tokenParam: 'page_token', tokenKeys: ['t'] },
  ],
  [
    'a token in the body of a POST',
    {
      method: 'post',
      meta: { cursor: '$.nextCursor' },
      answer: { nextCursor: nullable },
      more: { requestBody: json({ cursor: { type: 'string' }, limit: { type: 'integer' } }) },
    },
    { pagination: { kind: 'pageToken', tokenParam: 'cursor' }, method: 'POST', safe: true },
    { kind: 'pageToken', tokenParam: 'cursor', tokenKeys: ['cursor'] },
  ],
  [
    'a token in the next address',
    {
      params: { 'page[cursor]': 'string', 'page[size]': size },
      meta: { next: '$.links.next' },
      answer: { links: { properties: { next: nullable } } },
    },
    {
      pagination: { kind: 'pageToken', tokenParam: 'page[cursor]', sizeParam: 'page[size]' },
      paging: { kind: 'nextUrl', path: 'links.next', keep: ['page[cursor]'] },
    },
    { kind: 'pageToken', tokenParam: 'page[cursor]', tokenKeys: [{ key: 'next', param: 'page[cursor]' }] },
  ],
  [
    'a token in the Link header',
    { extractor: '$', params: { cursor: 'string' }, meta: { next: '@link.next' } },
    { pagination: { kind: 'pageToken' }, paging: { kind: 'linkHeader', keep: ['cursor'] } },
    { kind: 'pageToken', tokenParam: 'cursor', tokenKeys: [{ key: 'next', param: 'cursor' }] },
  ],
  [
    'a next address of which no parameter is declared',
    {
      params: { limit: size },
      meta: { next: '$.links.next' },
      answer: { links: { properties: { next: nullable } } },
    },
    {
      pagination: { kind: 'pageToken', tokenParam: 'next_page', sizeParam: 'limit', maxSize: 50 },
      paging: { kind: 'nextUrl', path: 'links.next', keep: 'any' },
    },
    null,
  ],
  [
    'a Link header of which no parameter is declared',
    { extractor: '$', meta: { next: '@link.next' } },
    {
      pagination: { kind: 'pageToken', tokenParam: 'next_page' },
      paging: { kind: 'linkHeader', keep: 'any' },
    },
    null,
  ],
  [
    'offsets',
    {
      params: { offset: { schema: { type: 'integer', default: 0 } }, count: size },
      answer: { total_items: { type: 'integer' } },
    },
    {
      pagination: { kind: 'offset', offsetParam: 'offset', sizeParam: 'count', totalKeys: ['total'] },
      metadata: { total: 'total_items' },
    },
    { kind: 'offset', offsetParam: 'offset', sizeParam: 'count', maxSize: 50 },
  ],
  [
    'numbered pages, with the next address',
    {
      extractor: '$',
      params: { page: { schema: { type: 'integer', default: 0 } }, per_page: size },
      meta: { next: '@link.next' },
    },
    { pagination: { kind: 'page', pageParam: 'page', first: 0, sizeParam: 'per_page', maxSize: 50 } },
    { kind: 'page', pageParam: 'page', first: 0, maxSize: 50, flagKeys: ['next'] },
  ],
  [
    'numbered pages of a size that the file does not say, with a flag',
    {
      params: { page: { schema: { type: 'integer' } } },
      meta: { more: '$.info.has_more', total: '$.info.total' },
      answer: { info: { properties: { has_more: { type: 'boolean' }, total: { type: 'integer' } } } },
    },
    {
      pagination: { kind: 'page', first: 1, maxSize: 100, flagKeys: ['has_more'], totalKeys: ['total'] },
      metadata: { has_more: 'info.has_more', total: 'info.total' },
    },
    { kind: 'page', first: 1, maxSize: 100, flagKeys: ['more'], totalKeys: ['total'] },
  ],
  [
    'what follows the last record',
    {
      params: { starting_after: { description: 'An object id', schema: { type: 'string' } } },
      meta: { has_more: '$.has_more' },
      answer: { has_more: { type: 'boolean' } },
    },
    {
      pagination: { kind: 'lastRecord', tokenParam: 'starting_after', field: 'id', flagKeys: ['has_more'] },
      metadata: { has_more: 'has_more' },
    },
    { kind: 'lastRecord', tokenParam: 'starting_after', field: 'id', flagKeys: ['has_more'] },
  ],
  [
    'a token within an object that is copied whole',
    {
      params: { offset: 'string', limit: size },
      meta: { next_page: '$.next_page' },
      answer: { next_page: { type: ['object', 'null'], properties: { offset: { type: 'string' } } } },
    },
    {
      pagination: { kind: 'pageToken', tokenParam: 'offset' },
      paging: { kind: 'cursor', token: 'next_page.offset' },
    },
    { kind: 'pageToken', tokenParam: 'offset', tokenKeys: ['next_page.offset'] },
  ],
  [
    'one page, for a reason',
    { more: { 'x-airbyte-no-pagination': 'All of them come in a single response.' } },
    { pagination: { kind: 'single' } },
    { kind: 'single' },
  ],
];

function json(properties: object): object {
  return { content: { 'application/json': { schema: { type: 'object', properties } } } };
}

describe('an import', () => {
  it.for(shapes)('reads %s', ([, listing, direct, hosted], { folder }) => {
    const ofService = importListing(folder, listing, 'direct');
    expect(outcomeOf(ofService)).toBe('converted');
    const { pagination, paging, ...request } = direct as { pagination: object; paging?: object };
    expect(writtenIn(ofService)).toMatchObject({
      entities: { things: { pagination } },
      upstream: { entities: { things: { list: { ...request, ...(paging && { paging }) } } } },
    });
    const ofApi = importListing(folder, listing, 'hosted');
    if (hosted === null) {
      expect(outcomeOf(ofApi)).toMatch(/^refused: page 1 only/);
      return;
    }
    expect(writtenIn(ofApi)).toMatchObject({ entities: { things: { pagination: hosted } } });
  });

  it('marks what is guessed above it, and names the file', ({ folder }) => {
    const listing: Listing = {
      params: { cursor: 'string', limit: { schema: { type: 'integer', default: 20 } } },
      meta: { next: '$.next_cursor' },
      answer: { next_cursor: nullable },
    };
    const text = importListing(folder, listing, 'hosted').definition?.text ?? '';
    expect(text).toContain('    # maxSize: 20 # guessed\n    pagination:');
    expect(text).toMatch(
      /^# Corner Shop: imported for hosted connectors from corner-shop 1\.2\.3 .*SHA-256 [0-9a-f]{64}/,
    );
    expect(text).toContain('Elastic License 2.0');
  });
});
