import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { defects } from './defects.ts';
import { plantDefect, readSources } from './planting.ts';

const sources = readSources('.');

it.each(defects)('can still plant $id, and has the test that finds it', ({ foundBy, ...defect }) => {
  const { before, text } = plantDefect(sources, defect);
  expect(text).not.toBe(before);
  expect(existsSync(foundBy)).toBe(true);
});

it('names each defect once', () => {
  const ids = defects.map(({ id }) => id);
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
});
