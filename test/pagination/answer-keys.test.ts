import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import { readFlag, readToken } from '../../src/pagination/answer-keys.ts';
import { readTotal } from '../../src/definitions/pagination-file.ts';

const tokenAt = (tokenKeys: Parameters<typeof readToken>[0]['tokenKeys'], metadata: JsonValue) =>
  readToken({ flagKeys: ['more'], tokenKeys }, { metadata, result: [] });
const address = { key: 'links.next', param: 'page[cursor]' };

describe('a key of an answer', () => {
  it.each<[string, Parameters<typeof tokenAt>[0], JsonValue, string | null]>([
    ['names joined by dots', ['page.next'], { page: { next: 'n' } }, 'n'],
    ['either spelling of each', ['next_page.end_cursor'], { nextPage: { endCursor: 'n' } }, 'n'],
    [
      'a name that has the dots itself',
      ['@odata.next'],
      { '@odata.next': 'n', '@odata': { next: 'm' } },
      'n',
    ],
    ['an object that is null', ['page.next'], { page: null }, null],
    ['an object without the last name', ['page.next'], { page: { size: 5 } }, null],
    ['the first that is there', ['a.b', 'c'], { c: 'n' }, 'n'],
    [
      'a parameter of an address',
      [address],
      { links: { next: 'https://x.example/y?page%5Bcursor%5D=a%26b' } },
      'a&b',
    ],
    ['a parameter of a relative address', [address], { links: { next: '?page[cursor]=n' } }, 'n'],
    ['no address', [address], { links: { next: null } }, null],
    ['a number', ['page'], { page: 5 }, '5'],
    ['a number with all its digits', ['page'], { page: 12345678901234567890n }, '12345678901234567890'],
    ['0, which is the place of no later page', ['page'], { page: 0 }, null],
  ])('leads to the token by %s', (_what, keys, metadata, token) => {
    expect(tokenAt(keys, metadata)).toEqual({ hasMore: null, token });
  });

  it.each<[string, Parameters<typeof tokenAt>[0], JsonValue, string]>([
    [
      'an object',
      ['page'],
      { page: { offset: 'n' } },
      'got an object: name its member that is the token, such as page.offset',
    ],
    [
      'a fraction',
      ['page'],
      { page: 5.5 },
      'expected a text, a whole number or null as page token page, got a number',
    ],
    [
      'an address without the parameter',
      [address],
      { links: { next: '/x?page=2' } },
      'the parameter page[cursor] at links.next',
    ],
    [
      'what is no address',
      [address],
      { links: { next: 'https://' } },
      'the parameter page[cursor] at links.next',
    ],
    ['nothing', ['page.next'], { total: 5 }, 'expected one of more, page.next'],
    ['a text in place of the object', ['page.next'], { page: 'n' }, 'expected one of more, page.next'],
  ])('that leads to %s is an error', (_what, keys, metadata, fault) => {
    expect(tokenAt(keys, metadata)).toMatchObject({ fault: expect.stringContaining(fault) as string });
  });

  it.each<[JsonValue, boolean | null]>([
    [{ next: true }, true],
    [{ next: false }, false],
    [{ next: null }, false],
    [{ next: '' }, false],
    [{ next: 3 }, true],
    [{ next: '/x?page=3' }, true],
    [{ next: 'false' }, false],
    [{ next: 'True' }, true],
    [{ next: 0 }, false],
    [{ next: '0' }, false],
    [{ next: 1 }, true],
    [{}, null],
  ])('says by the next page in %j whether it exists', (metadata, hasMore) => {
    expect(readFlag(['next'], { metadata, result: [] })).toEqual({ hasMore, token: null });
  });

  it.each<[JsonValue, boolean | null]>([
    [true, true],
    ['true', true],
    [1, true],
    ['1', true],
    [false, false],
    ['False', false],
    [0, false],
    ['0', false],
    [null, null],
    ['', null],
  ])('says by a flag of %j beside a token whether more follows', (more, hasMore) => {
    expect(tokenAt(['next'], { more, next: 'n' })).toEqual({ hasMore, token: 'n' });
  });

  it('that leads to another flag beside a token is an error, which names the line to change', () => {
    const fault =
      'expected true or false at more, got a string; if it is no flag, take it out of the flagKeys';
    expect(tokenAt(['next'], { more: 'maybe', next: 'n' })).toEqual({
      fault: expect.stringContaining(fault) as string,
    });
  });

  it('that leads to an object is no flag', () => {
    expect(readFlag(['next'], { metadata: { next: {} }, result: [] })).toHaveProperty('fault');
  });

  it('leads to a total', () => {
    expect(readTotal(['meta.count'], { meta: { count: 8 } })).toBe(8);
    expect(readTotal(['meta.count'], { meta: null })).toBe(null);
  });
});
