import type { DerivedColumn, DerivedKind, FieldType } from '../../../core/records.ts';
import { quoted } from '../../../sql/quoted.ts';
import { tableName, isJsonColumn } from '../../decisions/stored-table.ts';
import { sourceOf, type ShownView, type Views } from '../../records/current-views.ts';

export const sqliteViews: Views = {
  tableName,
  findViews: async (tx, names) => {
    const found = await tx.rows<{ readonly name: string; readonly text: string }>(
      `SELECT name, coalesce(sql, '') AS text FROM sqlite_schema WHERE lower(name) IN {names text}`,
      { names: names.map(lowered) },
    );
    const byLowered = new Map(found.map((one) => [lowered(one.name), one]));
    return new Map(
      names.flatMap((name) => {
        const one = byLowered.get(lowered(name));
        if (one === undefined) return [];
        return [[name, { ...one, isOwn: one.text.startsWith('CREATE VIEW ') && one.text.includes(made) }]];
      }),
    );
  },
  putView: (tx, view, found) => {
    const sql = createViewSql(view);
    if (found?.text === sql) return;
    if (found !== undefined) tx.put(`DROP VIEW ${quoted(found.name)}`);
    tx.put(sql);
  },
};

/** As SQLite compares names. */
function lowered(name: string): string {
  return name.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Begins each view of this program in the files of users: it cannot change. */
const made = '/* Made by connector-sync, and made anew when its table changes. */';

/** Rows that are not deleted, without the sink's own columns. */
function createViewSql({ name, connector, entity, columns, derived }: ShownView): string {
  const types = new Map(columns.map(({ name: column, type }) => [column, type]));
  const shown = [
    ...columns.map((column) => quoted(column.name)),
    ...derived.map((column) => `${derivedSql(column, types)} AS ${quoted(column.name)}`),
  ];
  const table = quoted(tableName(connector, entity));
  return `CREATE VIEW ${quoted(name)} AS ${made} SELECT ${shown.join(', ')} FROM ${table} WHERE _deleted_at IS NULL`;
}

/** A column of a view as an expression. `types`: of the columns that it is made of. */
function derivedSql(column: DerivedColumn, types: ReadonlyMap<string, FieldType>): string {
  const { from, path, as } = column;
  const [first = ''] = from;
  const source = sourceOf(column);
  if (as === 'texts') {
    const { found, type, rows } = stepsInto(source, path);
    return `(SELECT group_concat(found, '') FROM (SELECT ${found} AS found ${rows} AND ${type} = 'text'))`;
  }
  return `(SELECT ${converted[as]} FROM (SELECT ${scalar(source, path, types.get(first) ?? 'string')}))`;
}

/** In the order of the document. Only objects and arrays are looked into: another value would be taken for JSON. */
function stepsInto(source: string, path: readonly string[]) {
  let [found, type] = [source, `json_type(${source})`];
  const loops: string[] = [];
  const wanted: string[] = ['true'];
  for (const [depth, step] of path.entries()) {
    loops.push(`json_each(CASE WHEN ${type} IN ('object', 'array') THEN ${found} END) AS e${depth}`);
    if (step !== '*') wanted.push(`e${depth}.key = '${step.replaceAll("'", "''")}'`);
    [found, type] = [`e${depth}.value`, `e${depth}.type`];
  }
  const rows = `${loops.length === 0 ? '' : `FROM ${loops.join(' CROSS JOIN ')} `}WHERE ${wanted.join(' AND ')}`;
  return { found, type, rows };
}

/** `v`: the value at a path that is no object and no array; a boolean is the text that JSON has for it. */
function scalar(source: string, path: readonly string[], type: FieldType): string {
  if (type === 'boolean') return `CASE ${source} WHEN 1 THEN 'true' WHEN 0 THEN 'false' END AS v`;
  if (!isJsonColumn(type)) return `${source} AS v`;
  const { found, type: found_type, rows } = stepsInto(source, path);
  const value = path.length === 0 ? `json_extract(${source}, '$')` : found;
  return `CASE ${found_type} WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' WHEN 'object' THEN NULL WHEN 'array' THEN NULL ELSE ${value} END AS v ${rows} LIMIT 1`;
}

/** A text counts as the number that JSON would read in it. */
const number = `CASE WHEN typeof(v) <> 'text' THEN v WHEN json_valid(v) THEN CASE WHEN json_type(v) IN ('integer', 'real') THEN json_extract(v, '$') END END`;
const time = "'%Y-%m-%d %H:%M:%f'";
/** Years 1 to 9999. */
const seconds = (value: string): string =>
  `(SELECT CASE WHEN n BETWEEN -62135596800 AND 253402300799 THEN strftime(${time}, n, 'unixepoch') END FROM (SELECT ${value} AS n))`;

/** A time as strftime takes it: an offset with minutes behind a colon, and no word for a zone. */
const spelled = `(SELECT CASE WHEN z GLOB '????????????????*[+-][0-9][0-9]' THEN z || ':00'
      WHEN z GLOB '????????????????*[+-][0-9][0-9][0-9][0-9]' THEN substr(z, 1, length(z) - 2) || ':' || substr(z, -2) ELSE z END
    FROM (SELECT replace(replace(replace(v, ',', '.'), 'UTC', 'Z'), 'GMT', 'Z') AS z))`;

/** Times in UTC as texts with milliseconds, which SQLite's own functions take and compare. */
const converted: Readonly<Record<Exclude<DerivedKind, 'texts'>, string>> = {
  string: 'CAST(v AS TEXT)',
  integer: `(SELECT CASE WHEN typeof(n) = 'integer' THEN n END FROM (SELECT ${number} AS n))`,
  number: `(SELECT CASE WHEN abs(n) <= 1e308 THEN CAST(n AS REAL) END FROM (SELECT ${number} AS n))`,
  boolean: "CASE WHEN v IN ('true', 1, '1') THEN 1 WHEN v IN ('false', 0, '0') THEN 0 END",
  // strftime takes more than ISO 8601, and of a day that its month does not have it makes another one.
  timestamp: `CASE WHEN v GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' AND v NOT GLOB '0000*' AND v NOT GLOB '* '
    AND (length(v) = 10 OR v GLOB '??????????[T ][0-2][0-9]:*' AND substr(v, 12, 2) < '24')
    AND strftime('%Y-%m-%d', substr(v, 1, 10)) = substr(v, 1, 10) THEN strftime(${time}, ${spelled}) END`,
  unix: seconds(number),
  unixMs: seconds(`(${number}) / 1000.0`),
};
