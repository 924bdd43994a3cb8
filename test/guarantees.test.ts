import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { documents } from './support/document-commands.ts';
import { quoteProblem } from './support/declared-tests.ts';

/** `- `file`: title` in a list, or `| … | `file`: title |` at the end of a table's row. */
const quote = /^(?:- |\|.*\| )`(?<file>test\/[^`]+)`: (?<title>.+?)(?: *\|)?$/;

it('each test that a document names exists, by its whole title', () => {
  const quotes = documents.flatMap((document) =>
    readFileSync(document, 'utf8')
      .replaceAll(/\n  (?=\S)/g, ' ')
      .split('\n')
      .flatMap((line, index) => {
        const { file, title } = quote.exec(line)?.groups ?? {};
        if (file === undefined || title === undefined) return [];
        const problem = quoteProblem(file, title.replaceAll('\\|', '|'));
        return [problem === null ? null : `${document}, paragraph ${index + 1}: ${problem}`];
      }),
  );
  expect(quotes.length).toBeGreaterThan(450);
  expect(quotes.filter((problem) => problem !== null)).toEqual([]);
});
