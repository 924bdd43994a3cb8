import { canonicalJson, canonicalJsonWithout } from '../../core/canonical-json.ts';
import { isJsonObject, readFields, writeJson, type JsonObject, type JsonValue } from '../../core/json.ts';
import type {
  Column,
  ColumnValue,
  CompareContent,
  EntityTable,
  FieldType,
  PreparedRecord,
  RowContent,
} from '../../core/records.ts';

/** Decides which values of a row count as its content. */
export interface ContentShape {
  readonly table: EntityTable;
  /** Paths whose values change nothing by themselves. */
  readonly volatile: readonly (readonly string[])[];
  /** Fields that take the value of another one; absent: there are none. */
  readonly filledFrom?: ReadonlyMap<string, string>;
}

type Row = Pick<PreparedRecord, 'values' | 'extra'>;

/**
 * Compares a record with a row by their values: another order of names, another spelling of a number or of a text, and a
 * column added since are no difference.
 */
export function compileCompare(shape: ContentShape): CompareContent {
  const { columns } = shape.table;
  const textOf = compileText(shape);
  const hasCopies = (shape.filledFrom?.size ?? 0) > 0;
  let layout: Layout = { columns, places: columns.map((_, index) => index), others: [] };

  return (record, row) => {
    if (row.columns !== layout.columns) layout = layoutOf(columns, row.columns);
    const [own, stored] = hasCopies
      ? wholeRows(columns, record, row)
      : differingCells(columns, layout, record, row);
    if (own.columns.length === 0 && stored.columns.length === 0 && own.extra === stored.extra) return 'same';
    if (textOf(own, shape.volatile) !== textOf(stored, shape.volatile)) return 'content';
    if (shape.volatile.length === 0 || textOf(own, []) === textOf(stored, [])) return 'same';
    return 'volatile';
  };
}

/** Where a stored row has the columns of the records. */
interface Layout {
  readonly columns: readonly Column[];
  /** For each column of the records, the place of the stored one; -1: it is not stored. */
  readonly places: readonly number[];
  /** Places of stored columns that the records do not have. */
  readonly others: readonly number[];
}

function layoutOf(own: readonly Column[], stored: readonly Column[]): Layout {
  const names = new Set(own.map(({ name }) => name));
  return {
    columns: stored,
    places: own.map(({ name }) => stored.findIndex((column) => column.name === name)),
    others: stored.flatMap(({ name }, index) => (names.has(name) ? [] : [index])),
  };
}

function wholeRows(columns: readonly Column[], { values, extra }: Row, row: RowContent) {
  return [{ columns, values, extra }, row] as const;
}

/** Most rows differ in a few cells: only those are worth reading. */
function differingCells(
  columns: readonly Column[],
  { places, others }: Layout,
  { values, extra }: Row,
  row: RowContent,
): readonly [RowContent, RowContent] {
  const differing: Column[] = [];
  const [own, stored]: [ColumnValue[], ColumnValue[]] = [[], []];
  let isExtraRead = extra !== row.extra;
  for (const [index, column] of columns.entries()) {
    const [left, right] = [values[index] ?? null, row.values[places[index] ?? -1] ?? null];
    if (left === right) continue;
    differing.push(column);
    own.push(left);
    stored.push(right);
    // Undeclared fields are one content, wherever they lie.
    isExtraRead ||= column.isEvolved === true;
  }
  for (const index of others) {
    const [column, value] = [row.columns[index], row.values[index] ?? null];
    if (column === undefined || value === null) continue;
    differing.push(column);
    own.push(null);
    stored.push(value);
    isExtraRead = true;
  }
  return [
    { columns: differing, values: own, extra: isExtraRead ? extra : null },
    { columns: differing, values: stored, extra: isExtraRead ? row.extra : null },
  ];
}

/**
 * Compiles a text that is equal for two rows with the same values, in any sink and any columns. Volatile paths and
 * copies of other fields do not count.
 */
export function compileContentText(shape: ContentShape): (row: RowContent) => string {
  const textOf = compileText(shape);
  return (row) => textOf(row, shape.volatile);
}

function compileText({ table, filledFrom = new Map<string, string>() }: ContentShape) {
  const declared = table.columns.filter(({ isEvolved }) => isEvolved !== true).map(({ name }) => name);
  const isDeclared = new Set(declared);
  const names = declared.toSorted();

  return ({ columns, values, extra }: RowContent, ignored: ContentShape['volatile']): string => {
    const fields = new Map<string, JsonValue>();
    const undeclared = Object.create(null) as Record<string, JsonValue>;
    for (const [name, value] of Object.entries(extraFields(extra))) {
      if (value !== null) undeclared[name] = value;
    }
    for (const [index, { name, type }] of columns.entries()) {
      const cell = values[index] ?? null;
      if (cell === null) continue;
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
