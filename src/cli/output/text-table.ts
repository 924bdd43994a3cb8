import { printable } from '../../telemetry/printable.ts';
import { displayWidth } from './display-width.ts';

export interface TableColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/** Blanks between two columns. */
export const columnGap = 2;

/** Aligned text without rules, two spaces between columns; cells are made inert. A column without any content is left out. */
export function textTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const cells = rows.map((row) => columns.map((_, index) => printable(row[index] ?? '')));
  const used = columns.flatMap((column, index) =>
    rows.length === 0 || cells.some((row) => row[index] !== '') ? [{ column, index }] : [],
  );
  const widths = used.map(({ column, index }) =>
    Math.max(displayWidth(column.title), ...cells.map((row) => displayWidth(row[index] ?? ''))),
  );
  const line = (texts: readonly string[]): string =>
    used
      .map(({ column }, at) => aligned(texts[at] ?? '', widths[at] ?? 0, column.align))
      .join(' '.repeat(columnGap))
      .trimEnd();
  return [
    line(used.map(({ column }) => column.title)),
    ...cells.map((row) => line(used.map(({ index }) => row[index] ?? ''))),
  ];
}

function aligned(text: string, width: number, align: TableColumn['align']): string {
  const padding = ' '.repeat(Math.max(0, width - displayWidth(text)));
  return align === 'left' ? text + padding : padding + text;
}
