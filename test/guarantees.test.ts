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
});

it('lists them as docs/reference/proofs.md does: npm run reference writes it again', async () => {
  await expect(listOfProofs(proofs)).toMatchFileSnapshot('../docs/reference/proofs.md');
});
