import { count, printable } from '../../telemetry/format.ts';

interface TableColumn {
  readonly title: string;
  readonly align: 'left' | 'right';
}

/** Rows of a table, with a cell for each column. */
type Rows = readonly (readonly string[])[];

type Columns = readonly TableColumn[];

/** Columns of texts, aligned left. */
export function leftColumns(...titles: readonly string[]): Columns {
  return titles.map((title) => ({ title, align: 'left' }));
}

/** Columns of numbers, aligned right. */
export function rightColumns(...titles: readonly string[]): Columns {
  return titles.map((title) => ({ title, align: 'right' }));
}

/** Blanks between two columns. */
export const columnGap = 2;

/**
 * Aligned text without rules, two spaces between columns; cells are made inert. A column without any content is left
 * out.
 */
export function textTable(columns: Columns, rows: Rows): readonly string[] {
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

/** Characters that terminals show in two columns: East Asian ones, and emoji. */
const wide =
  /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff01-\uff60\uffe0-\uffe6]/gu;
/** Characters that are combined with the one before, or are invisible. */
const none = /[\p{Mn}\p{Me}\p{Cf}]/gu;

/** The number of terminal columns that a text takes; for text that `printable` has made inert. */
export function displayWidth(text: string): number {
  return Array.from(text.replace(none, '').replace(wide, '  ')).length;
}

/** The text, or as much of its beginning as leaves room for an ellipsis. */
export function cutToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  for (const character of text) {
    if (displayWidth(kept + character) >= width) break;
    kept += character;
  }
  return width <= 0 ? '' : `${kept}…`;
}

/**
 * Wraps an enumeration into lines of at most `width` characters (null: one line), broken after commas; a longer part
 * stays whole. Lines after the first are indented four more. Not for text that people copy: a broken command does not
 * work.
 */
export function wrapped(text: string, width: number | null): readonly string[] {
  if (width === null || displayWidth(text) <= width) return [text];
  const indent = /^ */.exec(text)?.[0] ?? '';
  return filled(text.trim().split(/(?<=,) /), indent, `${indent}    `, width);
}

/** Wraps the parts into lines of at most `width` columns, with blanks between them; a longer part stays whole. */
export function filled(parts: readonly string[], first: string, hanging: string, width: number) {
  const lines: string[] = [];
  let line = first;
  for (const [index, part] of parts.entries()) {
    const longer = index === 0 ? `${line}${part}` : `${line} ${part}`;
    if (index > 0 && displayWidth(longer) > width) {
      lines.push(line);
      line = `${hanging}${part}`;
    } else line = longer;
  }
  return [...lines, line];
}

/** An indented row for each entity, with a column for each of these numbers, which is its title; null: none. */
export function countTable<Title extends string>(
  entities: readonly (Readonly<Record<Title, number | null>> & { readonly entity: string })[],
  ...titles: readonly Title[]
): readonly string[] {
  const cell = (number: number | null): string => (number === null ? '' : count(number));
  const rows = entities.map((one) => [one.entity, ...titles.map((title) => cell(one[title]))]);
  return indentedTable([...leftColumns('entity'), ...rightColumns(...titles)], rows);
}

/**
 * A table that is narrowed if it would wrap at `width` (null: full width): first without number columns that contain
 * only zeros, then with each row's last column (notes) on a separate line below it. If the other columns do not fit
 * either, each row is written as a sentence.
 */
export function fittingTable(columns: Columns, rows: Rows, width: number | null): readonly string[] {
  const whole = textTable(columns, rows);
  if (width === null || fits(whole, width)) return whole;
  const shown = columns.flatMap((column, index) =>
    column.align === 'right' && rows.every((row) => isNothing(row[index])) ? [] : [index],
  );
  const shownColumns = shown.flatMap((index) => columns[index] ?? []);
  const shownRows = rows.map((row) => shown.map((index) => row[index] ?? ''));
  const withoutZeros = textTable(shownColumns, shownRows);
  if (fits(withoutZeros, width)) return withoutZeros;
  const [heading = '', ...lines] = textTable(shownColumns.slice(0, -1), shownRows);
  if (!fits([heading, ...lines], width)) return rowSentences(shownColumns, shownRows, width);
  return [
    heading,
    ...lines.flatMap((line, at) => {
      const notes = shownRows[at]?.at(-1) ?? '';
      return notes === '' ? [line] : [line, `    ${printable(notes)}`];
    }),
  ];
}

/** The same table below a heading: two blanks before each line. */
export function indentedTable(columns: Columns, rows: Rows, width: number | null = null): readonly string[] {
  return fittingTable(columns, rows, width === null ? null : width - 2).map((line) => `  ${line}`);
}

/** Writes `lists: read 61, inserted 14, single`: zeros are left out, and text that does not fit continues below. */
function rowSentences(columns: Columns, rows: Rows, width: number): readonly string[] {
  return rows.flatMap(([name = '', ...cells]) => {
    const facts = cells.flatMap((cell, index) => {
      const { title, align } = columns[index + 1] ?? { title: '', align: 'left' };
      if (isNothing(cell)) return [];
      return [align === 'right' ? `${title} ${printable(cell)}` : printable(cell)];
    });
    return wrapped(`${printable(name)}: ${facts.join(', ')}`, width);
  });
}

function fits(lines: readonly string[], width: number): boolean {
  return lines.every((line) => displayWidth(line) <= width);
}

function isNothing(cell: string | undefined): boolean {
  return cell === undefined || cell === '' || cell === '0';
}

/** Marks for lines that show the result of a check. */
export const marks = { ok: '✓', warning: '!', failed: '✗', skipped: '-' } as const;
