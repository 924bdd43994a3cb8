import { expect, it } from 'vitest';
import { definitionTable } from '../../../src/cli/commands/definitions.ts';

const id = '6e00b415-b02e-4160-bf02-58176a0ae687';

it('shows the level of support where there is room, and each type on one line in 80 columns', () => {
  const rows = [['Document library', 'document-library', id, 'certified']];
  expect(definitionTable(rows, 120)).toEqual([
    'name              definition        id                                    support',
    `Document library  document-library  ${id}  certified`,
  ]);
  expect(definitionTable(rows, 80)).toEqual([
    'name              definition        id',
    `Document library  document-library  ${id}`,
  ]);
});
