import { printable } from '../../telemetry/format.ts';
import { wrapped, displayWidth, columnGap, textTable, type TableColumn } from './text-table.ts';

/**
 * The table, made narrower where it would wrap at `width` (null: as wide as it gets): first without number columns that
 * hold nothing but zeros, then with each row's last column (notes) on a line of its own below it, and there too what is
 * too long for the column before (complete). Where not even the numbers fit, each row is told as a sentence.
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
  if (fits(withoutZeros, width)) return withoutZeros;
  const numbers = shownColumns.findLastIndex(({ align }) => align === 'right') + 1;
  return numbers > 0 && !fits(textTable(shownColumns.slice(0, numbers), shownRows), width)
    ? rowSentences(shownColumns, shownRows, width)
    : withTextsBelow(shownColumns, shownRows, width);
}

/** `lists: read 61, inserted 14, single`: what is zero is left out, and what does not fit goes on below. */
export function rowSentences(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  return rows.flatMap(([name = '', ...cells]) => {
    const facts = cells.flatMap((cell, index) => {
      const { title, align } = columns[index + 1] ?? { title: '', align: 'left' };
      if (isNothing(cell)) return [];
      return [align === 'right' ? `${title} ${printable(cell)}` : printable(cell)];
    });
    return wrapped(`${printable(name)}: ${facts.join(', ')}`, width);
  });
}

function withTextsBelow(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  width: number,
): readonly string[] {
  const last = columns.length - 1;
  const room = width - widthOf(textTable(columns.slice(0, last - 1), rows)) - columnGap;
  const split = rows.map((row) => {
    const [complete = '', notes = ''] = row.slice(last - 1);
    const isShort = displayWidth(printable(complete)) <= room;
    return {
      cells: [...row.slice(0, last - 1), isShort ? complete : ''],
      below: isShort ? [notes] : [complete, notes],
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
  return Math.max(0, ...lines.map(displayWidth));
}

function fits(lines: readonly string[], width: number): boolean {
  return widthOf(lines) <= width;
}

function isNothing(cell: string | undefined): boolean {
  return cell === undefined || cell === '' || cell === '0';
}
