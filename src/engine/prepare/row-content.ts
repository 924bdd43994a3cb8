import { canonicalJson, canonicalJsonWithout } from '../../core/canonical-json.ts';
import { isJsonObject, readFields, writeJson, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ColumnValue, CompareContent, EntityTable, FieldType, RowContent } from '../../core/records.ts';

/** Decides which values of a row count as its content. */
export interface ContentShape {
  readonly table: EntityTable;
  /** Paths whose values change nothing by themselves. */
  readonly volatile: readonly (readonly string[])[];
  /** Fields that take the value of another one; absent: there are none. */
  readonly filledFrom?: ReadonlyMap<string, string>;
}

const nothingSkipped: ReadonlySet<string> = new Set();

/**
 * Compares a record with a row by their values. Another order of names, another spelling of a number or of a text, and
 * a column added since make no difference.
 */
export function compileCompare(shape: ContentShape): CompareContent {
  const { table, volatile, filledFrom } = shape;
  const textOf = compileText(shape);

  return (record, row) => {
    const own = { ...record, columns: table.columns };
    // Fields that depend on each other are read together.
    const equal = filledFrom === undefined || filledFrom.size === 0 ? equalFields(own, row) : nothingSkipped;
    const isSame = (paths: ContentShape['volatile']): boolean =>
      textOf(own, paths, equal) === textOf(row, paths, equal);
    if (!isSame(volatile)) return 'content';
    return volatile.length === 0 || isSame([]) ? 'same' : 'volatile';
  };
}

/** Names of the columns with one value in both. */
function equalFields(own: RowContent, row: RowContent): ReadonlySet<string> {
  const stored = new Map(row.columns.map(({ name }, index) => [name, row.values[index] ?? null]));
  const equal = own.columns.filter(({ name }, index) => (own.values[index] ?? null) === stored.get(name));
  return new Set(equal.map(({ name }) => name));
}

/**
 * Compiles a text that is equal for two rows with the same values, in any sink and any columns. Volatile paths and
 * copies of other fields do not count.
 */
export function compileContentText(shape: ContentShape): (row: RowContent) => string {
  const textOf = compileText(shape);
  return (row) => textOf(row, shape.volatile, nothingSkipped);
}

function compileText({ table, filledFrom = new Map<string, string>() }: ContentShape) {
  const declared = table.columns.filter(({ isEvolved }) => isEvolved !== true).map(({ name }) => name);
  const isDeclared = new Set(declared);
  const names = declared.toSorted();

  return (
    { columns, values, extra }: RowContent,
    ignored: ContentShape['volatile'],
    skipped: ReadonlySet<string>,
  ): string => {
    const fields = new Map<string, JsonValue>();
    const undeclared = Object.create(null) as Record<string, JsonValue>;
    for (const [name, value] of Object.entries(extraFields(extra))) {
      if (value !== null) undeclared[name] = value;
    }
    for (const [index, { name, type }] of columns.entries()) {
      const cell = values[index] ?? null;
      if (cell === null || skipped.has(name)) continue;
      const value = readable(() => jsonOf(type, cell), cell);
      if (isDeclared.has(name)) fields.set(name, value);
      else if (value !== null) undeclared[name] = value;
    }
    for (const [name, source] of filledFrom) {
      const of = fields.get(source) ?? undeclared[source] ?? null;
      const own = fields.get(name) ?? null;
      if (of !== null && own !== null && canonicalJson(own) === canonicalJson(of)) fields.delete(name);
    }
    const parts = names.flatMap((name) => {
      const value = fields.get(name) ?? null;
      const paths = value === null ? [] : pathsIn(ignored, name);
      if (value === null || paths.some((path) => path.length === 0)) return [];
      return [name, withoutSigns(canonicalJsonWithout(value, paths))];
    });
    return JSON.stringify([...parts, withoutSigns(canonicalJsonWithout(undeclared, ignored))]);
  };
}

/** The rest of each of the paths that lead through the field. An empty one: all of the field. */
function pathsIn(paths: ContentShape['volatile'], field: string): ContentShape['volatile'] {
  return paths.filter(([first]) => first === field || first === '*').map((path) => path.slice(1));
}

function extraFields(extra: string | null): JsonObject {
  const fields = extra === null ? {} : readable(() => readFields(extra), extra);
  return isJsonObject(fields) ? fields : { '': fields };
}

/** -0 and 0 are one value: the lines of JSONL and the columns of SQLite keep no sign of it. */
function withoutSigns(json: string): string {
  return json.includes('-0.0') ? writeJson(readFields(json)) : json;
}

/** A text that was edited by hand may no longer be JSON. */
function readable(read: () => JsonValue, stored: unknown): JsonValue {
  try {
    return read();
  } catch {
    return `not readable: ${String(stored)}`;
  }
}

/** The JSON value that a cell stands for. */
export function jsonOf(type: FieldType, value: Exclude<ColumnValue, null>): JsonValue {
  switch (type) {
    case 'boolean':
      return Number(value) !== 0;
    case 'object':
    case 'array':
    case 'any':
      return readFields(String(value));
    case 'number':
      return Number(value);
    case 'integer':
    case 'string':
      return value;
  }
}
