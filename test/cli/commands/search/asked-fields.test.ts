import { expect, it } from 'vitest';
import { askedFields } from '../../../../src/cli/commands/search.ts';

it('names what a query sorts by, then what it chooses by, at any depth', () => {
  const filter = {
    and: [{ eq: { status: 'sent' } }, { not: { or: [{ gt: { a: 1, 'b.c': 2 } }] } }],
    any: { tags: { eq: { name: 'x' } } },
  };
  expect(askedFields({ sort: [{ send_time: 'desc' }], filter })).toEqual(
    ['send_time', 'status', 'a', 'b.c', 'tags'].flatMap((path) => [path, path.split('.')[0]]),
  );
});

it.each([null, {}, { sort: 'x', filter: 5 }, { sort: [5], filter: { eq: 1, and: { a: 1 } } }])(
  'finds nothing to name in %j, or what it can',
  (query) => {
    expect(askedFields(query).every((name) => name === 'a')).toBe(true);
  },
);
