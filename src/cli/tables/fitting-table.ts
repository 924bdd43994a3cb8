import { printable } from '../../telemetry/printable.ts';
import { columnGap, lengthOf, textTable, type TableColumn } from './text-table.ts';

/**
 * The table, made narrower where it would wrap at `width` (null: as wide as it gets): first without number columns that
 * hold nothing but zeros, then with each row's last column (notes) on a line of its own below it, and there too what is too
 * long for the column before (proof).
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
  return fits(withoutZeros, width) ? withoutZeros : withTextsBelow(shownColumns, shownRows, width);
}

function withTextsBelow(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  const last = columns.length - 1;
  const room = width - widthOf(textTable(columns.slice(0, last - 1), rows)) - columnGap;
  const split = rows.map((row) => {
    const [proof = '', notes = ''] = row.slice(last - 1);
    const isShort = lengthOf(printable(proof)) <= room;
    return {
      cells: [...row.slice(0, last - 1), isShort ? proof : ''],
      below: isShort ? [notes] : [proof, notes],
    };
  });
  const [heading = '', ...lines] = textTable(
    columns.slice(0, last),
    split.map(({ cells }) => cells),
  );
  return [
    heading,
    ...lines.flatMap((line, at) => {
      const texts = (split[at]?.below ?? []).filter((text) => text !== '');
      return texts.length === 0 ? [line] : [line, `    ${texts.map(printable).join('; ')}`];
    }),
  ];
}

function widthOf(lines: readonly string[]): number {
  return Math.max(0, ...lines.map(lengthOf));
}

function fits(lines: readonly string[], width: number): boolean {
  return widthOf(lines) <= width;
}

function isNothing(cell: string | undefined): boolean {
  return cell === undefined || cell === '' || cell === '0';
}
