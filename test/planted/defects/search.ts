import type { Defect } from '../planting.ts';

const values = 'test/search/matches.test.ts';
const paging = 'test/search/paging.test.ts';

/** Of searches: what a query finds, in which order, and what it may not. */
export const searchDefects: readonly Defect[] = [
  {
    id: 'bound-left-out',
    name: 'holds',
    beside: 'conditionMatcher',
    find: 'gte: (difference) => difference >= 0,',
    replace: 'gte: (difference) => difference > 0,',
    because: 'A search from a value on leaves out that value.',
    foundBy: values,
  },
  {
    id: 'trailing-run-needs-text',
    name: 'isLike',
    find: "return signs.slice(sign).every(({ kind }) => kind === 'run');",
    replace: 'return sign === signs.length;',
    because: 'A pattern that ends with % does not find texts that end there.',
    foundBy: values,
  },
  {
    id: 'same-instant-differs',
    name: 'instantOf',
    find: "const digits = time.fraction.replace(/0+$/, '');",
    replace: 'const digits = time.fraction;',
    because: 'The same time written with more digits is not found.',
    foundBy: 'test/search/matches.test.ts',
  },
  {
    id: 'cursor-of-another-order',
    name: 'cursorSeal',
    find: 'writeJson([scope, filter, sort])',
    replace: 'writeJson([scope, filter, sort.length])',
    because: 'A cursor of one order is taken for another one: pages miss records and repeat others.',
    foundBy: paging,
  },
  {
    id: 'last-nulls-lost',
    name: 'bound',
    beside: 'searchPage',
    find: "conditions: [compares, { kind: 'in', path, values: [null] }]",
    replace: 'conditions: [compares]',
    because: 'Pages in descending order end before the records without the value.',
    foundBy: paging,
  },
  {
    id: 'next-page-not-seen',
    name: 'firstArrived',
    find: 'const most = search.request.limit + 1;',
    replace: 'const most = search.request.limit;',
    because: 'A search ends after its first page although more follows.',
    foundBy: paging,
  },
  {
    id: 'page-of-a-guess',
    name: 'firstSorted',
    find: 'near.length > search.request.limit && compareKeys(worst, last) * sign <= 0',
    replace: 'near.length > 0',
    because: 'A sorted page leaves out records when fewer than expected meet the filter.',
    foundBy: paging,
  },
  {
    id: 'updated-text-not-indexed',
    name: 'indexSql',
    find: '`${remove} ${insert}`',
    replace: 'remove',
    because: 'A word search misses records that have changed since the index was made.',
    foundBy: 'test/search/indexes.test.ts',
  },
  {
    id: 'depth-not-counted',
    name: 'inner',
    beside: 'readFilter',
    find: 'depth: place.depth + 1',
    replace: 'depth: place.depth',
    because: 'A hostile query of any depth is taken.',
    foundBy: 'test/search/read-request.test.ts',
  },
  {
    id: 'swapped-letters-cost-two',
    name: 'slipsBetween',
    find: 'isSwapped ? (before[column - 1] ?? 0) + 1 : replaced',
    replace: 'isSwapped ? (before[column - 1] ?? 0) + 2 : replaced',
    because: 'A word with two letters swapped is not found.',
    foundBy: 'test/search/matches.test.ts',
  },
];
