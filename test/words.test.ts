import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const glossary = readFileSync('docs/internals/glossary.md', 'utf8');
const [, listed = ''] = /\n## Words that are not used\n([^]*?)(?=\n## |$)/.exec(glossary) ?? [];

/** The left column of the glossary's table, but for words that are wrong in one meaning only (", where ..."). */
const words = [...listed.matchAll(/^\| (.+?) +\|/gm)]
  .map(([, cell = '']) => cell)
  .filter((cell) => !/^(?:not|-+)$|, where /.test(cell))
  .flatMap((cell) => cell.split(', '));
const banned = new RegExp(`\\b(?:${words.join('|').replaceAll(' ', '\\s+')})\\b`, 'gi');

/** Files in which a word is right: what a person wrote about a page, for example. */
const exceptions: Readonly<Record<string, readonly string[]>> = {
  'config/definitions/workspace-notes.yaml': ['said'],
  'docs/internals/glossary.md': ['said'],
};

const files = [
  'README.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...below('docs', /\.(?:md|yaml|ts|py)$/).filter((file) => !file.includes('data-dictionary')),
  ...below('config', /\.(?:yaml|json)$/),
];
const sources = below('src', /\.(?:ts|mjs|cjs)$/);

it('reads the words from the glossary', () => {
  expect(words.length).toBeGreaterThan(10);
  expect('Nobody is told what is\nleft.'.match(banned)).toEqual(['Nobody', 'told', 'what is\nleft']);
});

it.each(files)('%s uses none of the words that the glossary rules out', (file) => {
  const text = readFileSync(file, 'utf8').replace(listed, '');
  const found = [...text.matchAll(banned)].map(([word]) => word.toLowerCase());
  expect(found.filter((word) => exceptions[file]?.includes(word) !== true)).toEqual([]);
});

it('uses none of them in a comment of src or test', () => {
  const found = [...sources, ...below('test', /\.(?:ts|mjs)$/)].flatMap((file) => {
    const comments = readFileSync(file, 'utf8').match(/\/\*[^]*?\*\/|(?<=^|\s)\/\/.*/gm) ?? [];
    const text = comments.join('\n').replaceAll(/`[^`]*`/g, '');
    return [...text.matchAll(banned)].map(([word]) => `${file}: ${word}`);
  });
  expect(sources.length).toBeGreaterThan(300);
  expect(found).toEqual([]);
});

it('uses none of them in the title of a test', () => {
  // A text before a function.
  const titled = /(['"`])((?:\\.|(?!\1)[^\\])*)\1,\s*(?:\{[^}]*\},\s*)?(?:async )?\(/g;
  const titles = below('test', /\.ts$/).flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(titled)].map(
      ([, , title = '']) => `${file}: ${title.replaceAll(/\$\{[^}]*\}/g, '')}`,
    ),
  );
  expect(titles.length).toBeGreaterThan(3000);
  expect(titles.filter((title) => title.match(banned) !== null)).toEqual([]);
});

function below(folder: string, pattern: RegExp): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name}`)
    .filter((name) => pattern.test(name))
    .toSorted();
}
