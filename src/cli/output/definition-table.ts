import { displayWidth } from './display-width.ts';
import { fittingTable } from './fitting-table.ts';
import { textTable } from './text-table.ts';

/** Connector types that the API offers: name, definition, id, level of support. The last has no room in 80 columns, and goes first. */
export function definitionTable(
  rows: readonly (readonly string[])[],
  width: number | null,
): readonly string[] {
  const whole = textTable(columns, rows);
  if (width === null || whole.every((line) => displayWidth(line) <= width)) return whole;
  return fittingTable(columns.slice(0, -1), rows, width);
}

const columns = [
  { title: 'name', align: 'left' },
  { title: 'definition', align: 'left' },
  { title: 'id', align: 'left' },
  { title: 'support', align: 'left' },
] as const;
