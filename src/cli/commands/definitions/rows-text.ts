import type { ColumnValue, EntityTable, FieldType, PreparedRecord } from '../../../core/records.ts';
import { counted, printable } from '../../../telemetry/format.ts';
import { fact } from '../../output/facts.ts';
import { columnGap, cutToWidth, displayWidth, indentedTable, leftColumns } from '../../output/text-table.ts';

const widestCell = 24;
/** Of a key: it is what other commands ask for. */
const widestKey = 36;
/** More of a value is not read to make a cell. */
const longestCell = 200;

interface Room {
  /** Records at most. */
  readonly rows: number;
  readonly width: number;
}

/**
 * Records as the rows that they would be: keys first, then as many columns as there is room for, JSON last, each cell
 * cut. The other columns are named below.
 */
export function rowsText(
  { columns, key }: EntityTable,
  records: readonly PreparedRecord[],
  { rows, width }: Room,
): readonly string[] {
  const shown = records.slice(0, rows);
  if (shown.length === 0) return [];
  const all = columns.map(({ name, type }, index) => ({
    name,
    isKey: key.includes(name),
    isJson: type === 'object' || type === 'array' || type === 'any',
    cells: shown.map(({ values }) =>
      cutToWidth(cellText(type, values[index] ?? null), key.includes(name) ? widestKey : widestCell),
    ),
  }));
  const empty = all.filter(({ cells }) => cells.every((cell) => cell === ''));
  const filled = all.filter((column) => !empty.includes(column));
  const keysFirst = [
    ...filled.filter(({ isKey }) => isKey),
    ...filled.filter(({ isKey, isJson }) => !isKey && !isJson),
    ...filled.filter(({ isKey, isJson }) => !isKey && isJson),
  ];
  let room = width - 2;
  const fitting = keysFirst.filter(({ name, isKey, cells }) => {
    const needed = Math.max(displayWidth(name), ...cells.map(displayWidth)) + columnGap;
    if (needed > room + columnGap && !isKey) return false;
    room -= needed;
    return true;
  });
  const left = keysFirst.filter((column) => !fitting.includes(column)).map(({ name }) => name);
  const more = records.length - shown.length;
  return [
    ...indentedTable(
      leftColumns(...fitting.map(({ name }) => name)),
      shown.map((_, row) => fitting.map(({ cells }) => cells[row] ?? '')),
      width,
    ),
    ...(more === 0 ? [] : fact('', `and ${counted(more, 'more record')}`, width)),
    ...(left.length === 0 ? [] : fact('besides', left.join(', '), width)),
    ...(empty.length === 0 ? [] : fact('empty', empty.map(({ name }) => name).join(', '), width)),
  ];
}

function cellText(type: FieldType, value: ColumnValue): string {
  if (value === null) return '';
  if (type === 'boolean') return value === 0 ? 'false' : 'true';
  return printable(String(value).slice(0, longestCell));
}
