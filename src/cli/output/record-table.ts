import { isJsonObject, type JsonValue } from '../../core/json.ts';
import { printable } from '../../telemetry/format.ts';
import { jsonText } from './json-text.ts';
import { columnGap, cutToWidth, displayWidth, filled, textTable } from './text-table.ts';

const widestCell = 40;
/** Characters of a value that are measured: a cell shows no more of a longer one. */
const longestCell = 1_000;

/**
 * Found records as a table within `width` (null: every column): long values are cut, and columns without room left out.
 * First come the fields of `first`, in that order, then plain values, then objects and arrays, cut to `widestOther`.
 */
export function answerTable(
  records: readonly JsonValue[],
  width: number | null,
  first: readonly string[],
  widestOther = widestCell,
) {
  const columns = namesOf(records, first).flatMap((name) => {
    const widest = Math.min(first.includes(name) ? widestCell : widestOther, width ?? widestCell);
    const cells = records.map((record) =>
      cutToWidth(printable(cellText(record, name).slice(0, longestCell)), widest),
    );
    const title = cutToWidth(printable(name), widest);
    const isEmpty = cells.every((cell) => cell === '');
    return isEmpty ? [] : [{ name, title, cells, width: Math.max(...[title, ...cells].map(displayWidth)) }];
  });
  let room = width ?? Infinity;
  const shown = columns.filter((column, index) => {
    const needed = column.width + (index === 0 ? 0 : columnGap);
    if (needed > room) return false;
    room -= needed;
    return true;
  });
  const titles = shown.map(({ title }) => ({ title, align: 'left' }) as const);
  const rows = records.map((_, at) => shown.map(({ cells }) => cells[at] ?? ''));
  return {
    lines: textTable(titles, rows),
    /** Names of fields that have values but do not fit. */
    omitted: columns.filter((column) => !shown.includes(column)).map(({ name }) => name),
  };
}

function namesOf(records: readonly JsonValue[], first: readonly string[]): readonly string[] {
  const names = [...new Set(records.flatMap((record) => (isJsonObject(record) ? Object.keys(record) : [])))];
  const others = names.filter((name) => !first.includes(name));
  const isPlain = (name: string): boolean =>
    records.every((record) => typeof (valueOf(record, name) ?? '') !== 'object');
  return [
    ...new Set(first.filter((name) => names.includes(name))),
    ...others.filter(isPlain),
    ...others.filter((name) => !isPlain(name)),
  ];
}

function cellText(record: JsonValue, name: string): string {
  const value = valueOf(record, name);
  if (value === null) return '';
  return typeof value === 'string' ? value : jsonText(value);
}

function valueOf(record: JsonValue, name: string): JsonValue {
  return isJsonObject(record) && Object.hasOwn(record, name) ? (record[name] ?? null) : null;
}

const labelWidth = 10;

/** Writes `  pages     by token (cursor)`: text that does not fit into `width` (null: any does) continues below. */
export function fact(label: string, text: string, width: number | null): readonly string[] {
  return wordsWithin(text, `  ${label.padEnd(labelWidth)}`, width);
}

/** Writes the text after `first`, broken between words. */
export function wordsWithin(text: string, first: string, width: number | null): readonly string[] {
  if (width === null) return [`${first}${text}`];
  return filled(text.split(' '), first, ' '.repeat(first === '' ? 4 : first.length), width);
}
