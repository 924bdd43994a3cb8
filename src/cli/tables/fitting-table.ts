import { textTable, type TableColumn } from './text-table.ts';

/**
 * The table, made narrower where it would wrap at `width` (null: as wide as it gets): first without number columns that
 * hold nothing but zeros, then with each row's last column (notes) on a line of its own below it.
 */
export function fittingTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number | null,
): readonly string[] {
  const whole = textTable(columns, rows);
  if (width === null || fits(whole, width)) return whole;
  const shown = columns.flatMap((column, index) =>
    column.align === 'right' && rows.every((row) => isNothing(row[index])) ? [] : [index],
  );
  const shownColumns = shown.flatMap((index) => columns[index] ?? []);
  const shownRows = rows.map((row) => shown.map((index) => row[index] ?? ''));
  const withoutZeros = textTable(shownColumns, shownRows);
  return fits(withoutZeros, width) ? withoutZeros : withNotesBelow(shownColumns, shownRows);
}

function withNotesBelow(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const last = columns.length - 1;
  const [heading = '', ...lines] = textTable(
    columns.slice(0, last),
    rows.map((row) => row.slice(0, last)),
  );
  return [
    heading,
    ...lines.flatMap((line, at) => {
      // Through a table too, which makes cells inert.
      const [, note = ''] = textTable(columns.slice(last), [[rows[at]?.[last] ?? '']]);
      return note === '' ? [line] : [line, `    ${note}`];
    }),
  ];
}

function fits(lines: readonly string[], width: number): boolean {
  return lines.every((line) => Array.from(line).length <= width);
}

function isNothing(cell: string | undefined): boolean {
  return cell === undefined || cell === '' || cell === '0';
}
