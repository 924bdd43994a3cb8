import { wholeJson } from '../core/canonical-json.ts';
import { readFields, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { ColumnValue, FieldType } from '../core/records.ts';
import { quoted } from '../sql/database.ts';
import type { FieldPath } from './search-request.ts';
import {
  type FieldSource,
  isJsonType,
  type SearchField,
  type SearchTarget,
  type ShownRows,
} from './search-target.ts';

/** Where a source's stored value is found: `r` is the searched row, `p` its parent. */
export function sourceSql(source: FieldSource): string {
  if (source.kind === 'extra') return 'r._extra';
  return `${source.kind === 'parent' ? 'p' : 'r'}.${quoted(source.column)}`;
}

/** The rows that are searched. Names come from the definition and from the sink's own tables. */
export function fromSql({ table, parent }: SearchTarget): string {
  const rows = `${quoted(table)} AS r`;
  if (parent === null) return rows;
  const on = parent.on.map((column) => `p.${quoted(column)} = r.${quoted(column)}`);
  return `${rows} LEFT JOIN ${quoted(parent.table)} AS p ON ${on.join(' AND ')}`;
}

/**
 * Reads a field from the values of its sources in a row, in their order (`sourceSql`; integers as bigint or number):
 * the first that has a value, in the field's shape. Null where none has, or where it is not of the field's type. An
 * integer that a double cannot hold is a bigint.
 */
export function fieldReader(field: SearchField): (stored: readonly ColumnValue[]) => JsonValue {
  const readers = field.sources.map(sourceReader);
  const shape = (value: JsonValue): JsonValue =>
    field.shape === 'pairs' && isJsonObject(value)
      ? Object.entries(value).map(([name, member]) => ({ name, value: member }))
      : value;
  return (stored) => {
    for (const [index, read] of readers.entries()) {
      const value = read(stored[index] ?? null);
      if (value !== null) return isOfType(field.type, value) ? shape(value) : null;
    }
    return null;
  };
}

function sourceReader(source: FieldSource): (stored: ColumnValue) => JsonValue {
  if (source.kind === 'extra') {
    const { name } = source;
    return readingTextOnce((text) => {
      const extra = readFields(text);
      return isJsonObject(extra) && Object.hasOwn(extra, name) ? (extra[name] ?? null) : null;
    });
  }
  if (isJsonType(source.type)) return readingTextOnce(readFields);
  if (source.type === 'boolean') return (stored) => (stored === null ? null : Number(stored) !== 0);
  if (source.kind === 'column' && source.isAbsentWhenEmpty === true) {
    return (stored) => (stored === '' ? null : stored);
  }
  return (stored) =>
    typeof stored === 'bigint' && Number.isSafeInteger(Number(stored)) ? Number(stored) : stored;
}

/** Several conditions ask for the same row's value one after the other: its text is taken apart once. */
function readingTextOnce(read: (text: string) => JsonValue): (stored: ColumnValue) => JsonValue {
  let lastText: string | null = null;
  let last: JsonValue = null;
  return (stored) => {
    if (stored === null) return null;
    const text = String(stored);
    if (text !== lastText) {
      last = read(text);
      lastText = text;
    }
    return last;
  };
}

function isOfType(type: FieldType, value: JsonValue): boolean {
  if (isJsonType(type)) return true;
  if (type === 'integer') return typeof value === 'bigint' || Number.isInteger(value);
  return typeof value === type || (type === 'number' && typeof value === 'bigint');
}

/**
 * Makes the function that follows a path into a value: null where it leads nowhere, and where something on the way is
 * no object. In every object the rest of the path is tried as one name first, since names may hold dots.
 */
export function valueAt(path: FieldPath): (value: JsonValue) => JsonValue {
  const rests = path.map((_, index) => path.slice(index).join('.'));
  return (value) => {
    let inside = value;
    for (const [index, name] of path.entries()) {
      if (!isJsonObject(inside)) return null;
      const rest = rests[index] ?? name;
      if (Object.hasOwn(inside, rest)) return inside[rest] ?? null;
      if (!Object.hasOwn(inside, name)) return null;
      inside = inside[name] ?? null;
    }
    return inside;
  };
}

/** Reads fields of a row together: `columns` is SQL for the values that `read` takes, in that order. */
export function rowReader(fields: readonly SearchField[]) {
  let width = 0;
  const readers = fields.map((field) => {
    const start = width;
    width += field.sources.length;
    return { read: fieldReader(field), start, end: width };
  });
  return {
    columns: fields.flatMap(({ sources }) => sources.map(sourceSql)),
    /** A value for each field. */
    read: (stored: readonly ColumnValue[]): readonly JsonValue[] =>
      readers.map(({ read, start, end }) => read(stored.slice(start, end))),
  };
}

/** Makes results from rows. `paths`: their fields, in this order; null for all searchable fields. */
export function projection(target: SearchTarget, paths: readonly FieldPath[] | null) {
  const names = paths === null ? target.fields.keys() : paths.map(([name = '']) => name);
  const fields = [...new Set(names)].flatMap((name) => target.fields.get(name) ?? []);
  const { columns, read } = rowReader(fields);
  const shown = paths === null ? null : wholeFirst(paths);
  return {
    columns,
    record(stored: readonly ColumnValue[]): JsonObject {
      const values = read(stored);
      const whole = Object.create(null) as Members;
      for (const [index, { name }] of fields.entries()) whole[name] = values[index] ?? null;
      if (shown === null) return whole;
      const record = Object.create(null) as Members;
      for (const path of shown) copyPath(whole, record, path);
      return record;
    },
  };
}

/**
 * A value for a page: itself, or a text of its beginning. `size`: the characters or, where it is an object or array as
 * JSON, all of them; 0 for a value that is whole.
 */
export type ShownValue = readonly [value: JsonValue, size: number];

const ownShown = ['_changed_at', '_deleted_at', '_extra'];

/** The same with the sink's own columns, each value as `ShownValue`. */
export function forPeople(all: ReturnType<typeof projection>, { mostChars }: ShownRows) {
  return {
    columns: [...ownShown.map((name) => `r.${name}`), ...all.columns],
    record: ([changedAt = null, deletedAt = null, extra = null, ...stored]: readonly ColumnValue[]) => {
      const shown = Object.create(null) as Members;
      const own = {
        _changed_at: changedAt,
        _deleted_at: deletedAt,
        _extra: extra === null ? null : readFields(String(extra)),
      };
      for (const [name, value] of [...Object.entries(all.record(stored)), ...Object.entries(own)]) {
        shown[name] = cut(value, mostChars);
      }
      return shown;
    },
  };
}

function cut(value: JsonValue, most: number): JsonValue {
  if (typeof value !== 'string' && (typeof value !== 'object' || value === null)) return [value, 0];
  const text = typeof value === 'string' ? value : wholeJson(value);
  return text.length <= most ? [value, 0] : [text.slice(0, most), text.length];
}

/** A page ends early behind so much stored text, so that no answer is larger than its reader can take. */
const maxPageChars = 16 * 1024 * 1024;

/** Results of rows, until there are `limit`, or as much as fits a page. */
export function openPage(shown: Pick<ReturnType<typeof projection>, 'record'>, limit: number) {
  const data: JsonObject[] = [];
  let chars = 0;
  return {
    data,
    isFull: (): boolean => data.length === limit || chars > maxPageChars,
    add: (stored: readonly ColumnValue[]): void => {
      for (const value of stored) chars += typeof value === 'string' ? value.length : 0;
      data.push(shown.record(stored));
    },
  };
}

type Members = Record<string, JsonValue>;

/** A path inside of another that is shown whole adds nothing, and must take nothing away. */
function wholeFirst(paths: readonly FieldPath[]): readonly FieldPath[] {
  return paths.filter(
    (path, index) =>
      !paths.some(
        (other, at) =>
          (other.length < path.length || (other.length === path.length && at < index)) &&
          other.every((name, part) => name === path[part]),
      ),
  );
}

/** Copies the value at a path; where there is none, null at the place from which the path leads no further. */
function copyPath(from: JsonObject, to: Members, path: FieldPath): void {
  let source = from;
  let copy = to;
  for (const [index, name] of path.entries()) {
    const rest = path.slice(index).join('.');
    const isLast = index === path.length - 1 || Object.hasOwn(source, rest);
    const found = isLast ? rest : name;
    const value = Object.hasOwn(source, found) ? (source[found] ?? null) : null;
    if (isLast || !isJsonObject(value)) {
      copy[found] = isLast ? value : null;
      return;
    }
    const begun = copy[found];
    // Shown whole already, by way of a name with dots.
    if (begun === value) return;
    const next = (isJsonObject(begun) ? begun : Object.create(null)) as Members;
    copy[found] = next;
    copy = next;
    source = value;
  }
}
