import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect } from 'vitest';
import { formatProblem } from '../../src/core/problems.ts';
import { findDefinitions } from '../../src/definitions/load-definitions.ts';
import { it } from '../support/it.ts';

const byPage = 'kind: page, pageParam: page, first: 1, sizeParam: size, maxSize: 50';
const byLast = 'kind: lastRecord, tokenParam: after, field: id, sizeParam: size, maxSize: 50';
const byToken = 'kind: pageToken, tokenParam: after';

const definition = (pagination: string, more: string): string => `
name: pages
title: Pages
id: 5b1f2f0a-6a44-4b37-9d0e-5f4b6f0c2a12
rateLimit: { requestsPerSecond: 5, concurrency: 2 }
entities:
  items:
    fields: { id: string, at: string, page: object, tags: array }
    key: [id]
    actions: { list: { params: { page: integer, size: integer, after: string, since: string } } }
    pagination: { ${pagination} }
${more}`;

let folder: string;
it.beforeEach(({ folder: made }) => {
  folder = made;
});

function problemsOf(pagination: string, more = ''): string {
  writeFileSync(path.join(folder, 'pages.yaml'), definition(pagination, more));
  return findDefinitions([folder])
    .problems.map((problem) => formatProblem(problem))
    .join('\n');
}

describe('a pagination', () => {
  it.each([
    ['by pages', byPage],
    ['by pages of a fixed size', 'kind: page, pageParam: page, first: 0, maxSize: 50, end: repeats'],
    [
      'by pages with keys and an end',
      `${byPage}, flagKeys: [a.more], totalKeys: [b.total], honoursSize: true, end: { status: 404 }`,
    ],
    ['by the last record', byLast],
    ['by a path in the last record', byLast.replace('field: id', 'field: page.cursor')],
    ['by a token in an object', `${byToken}, tokenKeys: [next.offset]`],
    ['by a token in an address', `${byToken}, tokenKeys: [{ key: next, param: 'page[after]' }]`],
  ])('is taken: %s', (_what, pagination) => {
    expect(problemsOf(pagination)).toBe('');
  });

  const keyset = 'incremental: { kind: keyset, field: at, sinceParam: since, lookbackMs: 1000 }';
  const since = 'incremental: { kind: since, field: at, sinceParam: since, lookbackMs: 1000 }';
  it.each([
    ['kind: pages', '', 'pagination.kind: expected kind: offset, page, pageToken, lastRecord or single'],
    [byPage.replace('first: 1', 'first: 2'), '', 'pagination.first: expected at most 1, got 2'],
    [
      byPage.replace('pageParam: page', 'pageParam: after'),
      '',
      'pagination.pageParam: expected a list parameter of type integer; after is of type string',
    ],
    [
      byPage.replace('sizeParam: size', 'sizeParam: page'),
      '',
      'pagination.sizeParam: expected another parameter than pageParam, which is page too',
    ],
    [
      'kind: page, pageParam: page, first: 1, maxSize: 50, honoursSize: true',
      '',
      'pagination.honoursSize: expected sizeParam beside it',
    ],
    [`${byPage}, end: 404`, '', 'pagination.end: expected repeats, or { status: 404 }'],
    [`${byPage}, tokenKeys: [next]`, '', 'pagination.tokenKeys: unknown key'],
    [`${byPage}, totalKeys: [a..b]`, '', 'pagination.totalKeys.0: expected a name, or names joined by dots'],
    [`${byPage}, totalKeys: [a], flagKeys: [a]`, '', 'pagination.flagKeys.0: a is also among totalKeys'],
    [
      byLast.replace('tokenParam: after', 'tokenParam: afterwards'),
      '',
      'pagination.tokenParam: expected a list parameter of type string or integer; afterwards is not declared',
    ],
    [
      byLast.replace('field: id', 'field: idd'),
      '',
      'pagination.field: no such field: "idd"; did you mean "id"?',
    ],
    [
      byLast.replace('field: id', 'field: tags'),
      '',
      'pagination.field: expected a field of type string or integer or any, tags is of type array',
    ],
    [byLast.replace('field: id', "field: 'page.'"), '', 'pagination.field: expected names joined by dots'],
    [
      byLast.replace(', maxSize: 50', ''),
      '',
      'pagination.maxSize: expected maxSize and sizeParam together, or neither',
    ],
    [
      `${byToken}, tokenKeys: [{ key: next }]`,
      '',
      "pagination.tokenKeys.0: expected a key, or { key: links.next, param: 'page[cursor]' }",
    ],
    [
      `${byToken}, tokenKeys: [{ key: next, param: 'a b' }]`,
      '',
      'pagination.tokenKeys.0.param: expected a letter',
    ],
    [byLast, keyset, 'incremental.kind: keyset expects pagination by offset or page, got lastRecord'],
    [byPage, since, 'incremental: expected an order, or growsOnly: pages by page prove nothing without one'],
    [
      byLast.replace('field: id', 'field: at'),
      since,
      'incremental: expected the field of the pagination to be the key',
    ],
  ])('is refused: %s %s', (pagination, more, expected) => {
    const problems = problemsOf(pagination, more === '' ? '' : `    ${more}\n`);
    expect(problems).toContain(expected);
  });
});

describe('how a listing is cut', () => {
  const order = '    order: { field: at, params: { since: asc } }\n';
  const cut = (text: string): string => `    cut: { ${text} }`;
  const reversed = 'maxResults: 100, reversed: { since: desc }';

  it('is taken by a sign, by a number, and with the other order', () => {
    for (const text of [
      'sign: { key: status.type }',
      'maxResults: 100',
      `sign: { key: cut, is: 1 }, ${reversed}`,
    ]) {
      expect(problemsOf(byLast, order + cut(text))).toBe('');
    }
  });

  it.each([
    ['reversed: { since: desc }', order, 'cut: expected sign, maxResults or both'],
    ['maxResults: 0', '', 'cut.maxResults: expected at least 1, got 0'],
    ['sign: { key: a..b }', '', 'cut.sign.key: expected names joined by dots, got "a..b"'],
    [reversed, '', 'cut.reversed: expected an order, whose opposite it is'],
    [reversed, order.replace('field: at', 'field: tags'), 'order.field: expected a field of type string'],
    [`maxResults: 9, reversed: {}`, order, 'cut.reversed: expected the parameters that sort newest first'],
    [
      reversed,
      `${order}    incremental: { kind: newestFirst, field: page.at, params: { since: desc }, lookbackMs: 1000 }\n`,
      'cut.reversed: expected the order to sort by the field of incremental, page.at, got at',
    ],
  ])('is refused where it cannot be: %s', (text, more, expected) => {
    expect(problemsOf(byLast, more + cut(text))).toContain(expected);
  });
});
