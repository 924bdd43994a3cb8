import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { it } from './support/it.ts';
import { declaredTests } from './support/declared-tests.ts';
import { readMark } from './support/proofs.ts';

/** Not written out below: these are no marks of this file. */
const mark = '// Proves';
const source = `
  describe('a suite', () => {
    // it('stands in a comment')
    ${mark} promise 1
    it('adds two numbers', () => expect('is only a text').toBeTruthy());
    ${mark} promise 2, 4.1
    it.skipIf(process.platform === 'win32')('runs nearly everywhere', () => {});
    ${mark} promise 3; specification 4.7.1-3
    it.each<[string, number]>([['half', 0.5]] as const)('refuses %s (%d)', () => {});
    it.for([['a row', 1]])('is given %s', () => {});
    ${mark} specification 1.2

    it(\`repeats \${count} times\`, () => {});
    ${mark} promise 5
    it.skip('is skipped', () => {});
    it.todo('is to be written');
  });
  ${mark} promise 6
  describe.skip('a skipped suite', () => {
    ${mark} promise 7
    it('is never run', () => {});
  });
`;

it('finds the tests of a file, and the marks directly above them', ({ folder }) => {
  const file = join(folder, 'some.test.ts');
  writeFileSync(file, source);
  expect(declaredTests(file)).toEqual([
    { title: 'adds two numbers', proves: 'promise 1' },
    { title: 'runs nearly everywhere', proves: 'promise 2, 4.1' },
    { title: 'refuses %s (%d)', proves: 'promise 3; specification 4.7.1-3' },
    { title: 'is given %s', proves: null },
    { title: 'repeats ${count} times', proves: null },
  ]);
});

it.each([
  ['promise 1', ['promise 1']],
  ['promise 2, 4.1', ['promise 2', 'promise 4.1']],
  [
    'promise 3; specification 4.7.9-11',
    ['promise 3', 'specification 4.7.9', 'specification 4.7.10', 'specification 4.7.11'],
  ],
  ['specification 2.1.3', ['specification 2.1.3']],
  ['nothing 1', []],
  ['promise one', []],
])('reads the mark %s', (mark, expected) => {
  expect(readMark(mark).map(({ kind, id }) => `${kind} ${id}`)).toEqual(expected);
});
