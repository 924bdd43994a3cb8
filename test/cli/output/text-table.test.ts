import { expect, it } from 'vitest';
import { wrapped } from '../../../src/cli/output/text-table.ts';

it('breaks an enumeration behind commas and keeps each part whole', () => {
  const text = '  left: lists (1 partition), list_members (12 partitions), tags (3 partitions)';
  expect(wrapped(text, 40)).toEqual([
    '  left: lists (1 partition),',
    '      list_members (12 partitions),',
    '      tags (3 partitions)',
  ]);
  expect(wrapped(text, 10)).toHaveLength(3);
});

it('leaves text that fits unchanged, and all text where the output is not a terminal', () => {
  expect(wrapped('  a, b', 6)).toEqual(['  a, b']);
  expect(wrapped('  a, b', null)).toEqual(['  a, b']);
});
