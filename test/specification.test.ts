import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const document = readFileSync('docs/internals/specification.md', 'utf8');

/** Without the line breaks inside it. `test/guarantees.test.ts` looks for the tests of each. */
const statements = [...document.matchAll(/^- \*\*[\d.]+\*\* ([^]*?)\n(?=\n|- )/gm)].map(([, text = '']) =>
  text.replaceAll(/\s+/g, ' '),
);

it('says of every section where its statements are implemented, in files that exist', () => {
  const sections = document.split(/^## /m).slice(1);
  const paths = sections.map((section) =>
    [...(/^Code: ([^]*?)\n\n/m.exec(section)?.[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => path),
  );
  expect(sections).toHaveLength(24);
  expect(sections.filter((_, index) => paths[index]?.length === 0)).toEqual([]);
  expect(paths.flat().filter((path) => !existsSync(path))).toEqual([]);
});

it('marks what the specification leaves open, and names decisions that exist', () => {
  expect(statements.filter((statement) => statement.includes('**Choice:** ')).length).toBeGreaterThan(60);
  const decisions = [...document.matchAll(/\]\((decisions\/[^)]*)\)/g)];
  expect(decisions.length).toBeGreaterThan(5);
  expect(decisions.filter(([, path = '']) => !existsSync(`docs/internals/${path}`))).toEqual([]);
});
