import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from './support/it.ts';
import { quoteProblem } from './support/declared-tests.ts';

let file: string;
it.beforeAll(({ fileFolder }) => {
  file = join(fileFolder, 'some.test.ts');
  writeFileSync(
    file,
    `
  const words = ['one', 'two'];
  describe('a suite', () => {
    // it('stands in a comment')
    it('adds two numbers', () => expect('is only a text').toBeTruthy());
    it.skipIf(process.platform === 'win32')('runs nearly everywhere', () => {});
    it.each<[string, number]>([['a negative number', -1], ['half', 0.5]] as const)('refuses %s (%d)', () => {});
    it.each(words)('takes %s', () => {});
    it.for([['a row', 1]])('is given %s', () => {});
    it.each(words.map(String))('computes %s', () => {});
    it(\`repeats \${count} times\`, () => {});
    it.skip('is skipped', () => {});
    it.todo('is to be written');
    it('says it twice', () => {});
  });
  describe('another suite', () => {
    it('says it twice', () => {});
  });
  describe.skip('a skipped suite', () => {
    it('is never run', () => {});
  });
  `,
  );
});

describe('a line of a document', () => {
  it.each([
    'adds two numbers',
    'a suite > adds two numbers',
    'runs nearly everywhere',
    'refuses %s (%d)',
    'refuses a negative number (-1)',
    'a suite > refuses half (0.5)',
    'takes %s',
    'takes two',
    'is given a row',
    'computes %s',
    'repeats ${count} times',
    'another suite > says it twice',
  ])('names a test: %s', (title) => {
    expect(quoteProblem(file, title)).toBeNull();
  });

  it.each([
    'adds two',
    'two numbers',
    'suite > adds two numbers',
    'another suite > adds two numbers',
    'a suite',
    'stands in a comment',
    'is only a text',
    'a negative number',
    'refuses half (1)',
    'takes three',
    'computes one',
    'repeats 2 times',
    'is skipped',
    'is to be written',
    'is never run',
    '',
  ])('names none: "%s"', (title) => {
    expect(quoteProblem(file, title)).toContain('no test with the whole title');
  });

  it('must say which one where two tests have the same title', () => {
    expect(quoteProblem(file, 'says it twice')).toContain('2 tests');
  });
});
