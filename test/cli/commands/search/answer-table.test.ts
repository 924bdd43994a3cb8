import { expect, it } from 'vitest';
import { answerTable } from '../../../../src/cli/commands/search.ts';

const record = {
  id: 'a1',
  title: 'A title of some length',
  note: null,
  tags: ['x', 'y'],
  big: 12345678901234567890n,
};

it('shows every column that has a value where there is room', () => {
  expect(answerTable([record], null, ['id'])).toEqual({
    lines: [
      'id  title                   big                   tags',
      'a1  A title of some length  12345678901234567890  ["x","y"]',
    ],
    omitted: [],
  });
});

it('leaves out what has no room, and names it', () => {
  const { lines, omitted } = answerTable([record], 20, ['id']);
  expect(lines).toEqual(['id  tags', 'a1  ["x","y"]']);
  expect(omitted).toEqual(['title', 'big']);
});

it('cuts long values, and makes hostile names and values inert', () => {
  const { lines } = answerTable([{ '\u001b[2J': `\u202e${'long '.repeat(20)}` }], 60, []);
  expect(lines[0]).toBe('\ufffd[2J');
  expect(lines[1]).toMatch(/^\ufffdlong (long ?)*.*…$/);
  expect(Array.from(lines[1] ?? '').length).toBeLessThanOrEqual(40);
});

it('shows what is no record as nothing', () => {
  expect(answerTable(['text', 5, { id: 'a' }], 80, []).lines).toEqual(['id', '', '', 'a']);
});

it('begins with the columns that matter, and lets objects come last', () => {
  const { lines } = answerTable([{ about: { x: 1 }, a: 1, key: 'k' }], null, ['gone', 'key', 'key']);
  expect(lines).toEqual(['key  a  about', 'k    1  {"x":1}']);
});

it('fits a terminal that gives some signs two columns, and marks none', () => {
  const rows = [
    { id: '第三四半期の売上', n: 1 },
    { id: 'e\u0301te\u0301 🎉', n: 2 },
  ];
  expect(answerTable(rows, 19, ['id']).lines).toEqual([
    'id                n',
    '第三四半期の売上  1',
    'e\u0301te\u0301 🎉            2',
  ]);
  expect(answerTable(rows, 11, ['id'])).toEqual({
    lines: ['id', '第三四半期…', 'e\u0301te\u0301 🎉'],
    omitted: ['n'],
  });
});
