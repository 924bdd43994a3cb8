import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { allProofs, listOfProofs, promises, readMark, statements } from './support/proofs.ts';

const proofs = allProofs();

it('numbers each promise and each statement of the specification once', () => {
  expect(promises.length).toBeGreaterThan(50);
  expect(statements.length).toBeGreaterThan(130);
  expect(promises).toEqual([...new Set(promises)]);
  expect(statements).toEqual([...new Set(statements)]);
});

it('has a test for each of them', () => {
  const proven = new Set(proofs.map(({ kind, id }) => `${kind} ${id}`));
  const all = [...promises.map((id) => `promise ${id}`), ...statements.map((id) => `specification ${id}`)];
  expect(all.filter((one) => !proven.has(one))).toEqual([]);
  expect([...proven].filter((one) => !all.includes(one))).toEqual([]);
});

it('finds every mark directly above a test that runs', () => {
  const files = readdirSync('test', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const marked = files.flatMap((name) =>
    [...readFileSync(`test/${name}`, 'utf8').matchAll(/^ *\/\/ Proves (.*)$/gm)].flatMap(([, mark = '']) =>
      readMark(mark),
    ),
  );
  expect(proofs).toHaveLength(marked.length);
  expect(proofs.length).toBeGreaterThan(450);
  const suites = files.filter((name) =>
    /^ *describe\.(?:skip|todo)\(/m.test(readFileSync(`test/${name}`, 'utf8')),
  );
  expect(suites).toEqual([]);
});

it('lists them as docs/internals/proofs.md does: npm run reference writes it again', async () => {
  await expect(listOfProofs(proofs)).toMatchFileSnapshot('../docs/internals/proofs.md');
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
