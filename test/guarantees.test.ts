import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { quoteProblem } from './support/declared-tests.ts';

const lines = readFileSync('docs/guarantees.md', 'utf8').split('\n');
const quoted = lines.flatMap((line) => {
  const match = /^- `(?<file>test\/[^`]+)`: (?<title>.+)$/.exec(line);
  return match?.groups === undefined ? [] : [[match.groups['file'] ?? '', match.groups['title'] ?? '']];
});

it('quotes tests', () => {
  expect(quoted.length).toBeGreaterThan(20);
});

it.each(quoted)('%s has a test that %s', (file, title) => {
  expect(quoteProblem(file, title)).toBeNull();
});
