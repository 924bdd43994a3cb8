import { createHash } from 'node:crypto';
import type { DerivedColumn, DerivedKind, FieldType } from '../../../core/records.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { timeForm } from '../../../core/times.ts';
import { sourceOf, type FoundView, type ShownView, type Views } from '../../records/current-views.ts';
import { isJsonColumn } from '../../decisions/stored-table.ts';
import { binaryType } from '../column-types.ts';
import { quotedTable } from './names.ts';

const made = 'Made by connector-sync: ';

/**
 * A view keeps its columns in their order, because PostgreSQL replaces no other one, and drops none that others are
 * made of.
 */
export function putView(schema: string): Views['putView'] {
  return (tx, view, found) => put(tx, schema, view, found);
}

function put(
  tx: Tx,
  schema: string,
  { name, connector, entity, columns, derived }: ShownView,
  found: FoundView | undefined,
): void {
  const types = new Map(columns.map((column) => [column.name, column.type]));
  const shown = [
    ...columns.map((column) => ({
      name: column.name,
      type: binaryType[column.type],
      sql: quoted(column.name),
    })),
    ...derived.map((column) => ({
      name: column.name,
      type: derivedTypes[column.as],
      sql: derivedSql(column, types),
    })),
  ];
  const byName = new Map(shown.map((column) => [column.name, column]));
  const isReplaced = found?.columns?.every((column) => byName.get(column.name)?.type === column.type) ?? true;
  if (!isReplaced && found?.isUsed === true) return;
  const before = new Set(isReplaced ? found?.columns?.map((column) => column.name) : []);
  const ordered = [
    ...[...before].flatMap((column) => byName.get(column) ?? []),
    ...shown.filter((column) => !before.has(column.name)),
  ];
  const list = ordered.map((column) => `${column.sql} AS ${quoted(column.name)}`).join(', ');
  const table = `${quoted(schema)}.${quotedTable(connector, entity)}`;
  const select = `SELECT ${list} FROM ${table} WHERE _deleted_at IS NULL`;
  const hash = createHash('sha256').update(select).digest('hex').slice(0, 10);
  const wanted = `${made}rows of ${connector}/${entity} that are not deleted (${hash})`;
  if (found?.text === wanted) return;
  const view = quoted(name);
  if (!isReplaced) tx.put(`DROP VIEW ${view}`);
  tx.put(`CREATE OR REPLACE VIEW ${view} AS ${select}`);
  tx.put(`COMMENT ON VIEW ${view} IS '${wanted}'`);
}

/** `types`: of the columns that it is made of. */
function derivedSql(column: DerivedColumn, types: ReadonlyMap<string, FieldType>): string {
  const {
    from: [first = ''],
    path,
    as,
  } = column;
  const source = sourceOf(column);
  if (as === 'texts') return joinedTexts(takeableJson(source), path);
  if (!isJsonColumn(types.get(first) ?? 'string')) return convertText(`${source}::text`, as);
  const steps = path.map((step) => ` -> '${step.replaceAll("'", "''")}'`).join('');
  return `(SELECT ${convertText('t', as)} FROM (${scalarIn(source, steps)}) AS scalar)`;
}

/** Texts in the order of the document. */
function joinedTexts(json: string, path: readonly string[]): string {
  let value = json;
  const loops: string[] = [];
  for (const step of path) {
    if (step !== '*') {
      value = `(${value} -> '${step.replaceAll("'", "''")}')`;
      continue;
    }
    const each = `e${loops.length}`;
    loops.push(`LATERAL (SELECT ${value} AS v) AS ${each}v CROSS JOIN LATERAL (
      SELECT value, n FROM json_each(CASE json_typeof(${each}v.v) WHEN 'object' THEN ${each}v.v ELSE '{}'::json END) WITH ORDINALITY AS o(key, value, n)
      UNION ALL
      SELECT value, n FROM json_array_elements(CASE json_typeof(${each}v.v) WHEN 'array' THEN ${each}v.v ELSE '[]'::json END) WITH ORDINALITY AS a(value, n)
    ) AS ${each}`);
    value = `${each}.value`;
  }
  const order = loops.map((_, depth) => `e${depth}.n`);
  loops.push(`LATERAL (SELECT ${value} AS v) AS found`);
  const by = order.length === 0 ? '' : ` ORDER BY ${order.join(', ')}`;
  return `(SELECT string_agg(found.v #>> '{}', ''${by}) FROM ${loops.join(' CROSS JOIN ')} WHERE json_typeof(found.v) = 'string') COLLATE "C"`;
}

export const findViews: Views['findViews'] = async (tx, names) => {
  if (names.length === 0) return new Map();
  const rows = await tx.rows<Omit<FoundView, 'columns'> & { readonly columns: string }>(
    `SELECT c.relname::text AS name, coalesce(m.text, '') AS text, coalesce(starts_with(m.text, '${made}'), false) AS is_own,
       (SELECT coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, NULL)) ORDER BY a.attnum), '[]')::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
       EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = c.oid AND r.ev_class <> c.oid) AS is_used
     FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (SELECT CASE WHEN c.relkind = 'v' THEN obj_description(c.oid, 'pg_class') END) AS m(text)
     WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname IN {names text}`,
    { names },
  );
  return new Map(
    rows.map((row) => [row.name, { ...row, columns: JSON.parse(row.columns) as FoundView['columns'] }]),
  );
};

/** What a derived column is in PostgreSQL. */
const derivedTypes: Readonly<Record<DerivedKind, string>> = {
  texts: 'text',
  string: 'text',
  integer: 'bigint',
  number: 'double precision',
  boolean: 'boolean',
  timestamp: 'timestamp with time zone',
  unix: 'timestamp with time zone',
  unixMs: 'timestamp with time zone',
};

/** A number as JSON writes it, of a size that a cast can take. */
const isNumber = String.raw`'^\s*-?(0|[1-9][0-9]{0,250})(\.[0-9]{1,250})?([eE][+-]?[0-9]{1,3})?\s*$'`;
const isInteger = String.raw`'^\s*-?(0|[1-9][0-9]{0,18})\s*$'`;
const isTime = `'^(${timeForm})$'`;

/**
 * `text` as a value of a type; null where it is none. A cast that fails would fail the whole statement: each is made
 * only of what is known to fit, and inside of a CASE, whose branches are not tried before.
 */
function convertText(text: string, as: Exclude<DerivedKind, 'texts'>): string {
  const numeric = `(CASE WHEN ${text} ~ ${isNumber} THEN ${text}::numeric END)`;
  switch (as) {
    case 'string':
      return `${text} COLLATE "C"`;
    case 'integer':
      return `CASE WHEN ${text} ~ ${isInteger} THEN CASE WHEN ${text}::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN ${text}::bigint END END`;
    case 'number':
      return `CASE WHEN ${numeric} = 0 OR abs(${numeric}) BETWEEN 1e-300 AND 1e308 THEN ${numeric}::double precision END`;
    case 'boolean':
      return `CASE WHEN ${text} IN ('true', '1') THEN true WHEN ${text} IN ('false', '0') THEN false END`;
    case 'timestamp':
      return `CASE WHEN ${text} ~ ${isTime} THEN CASE
        WHEN substr(${text}, 9, 2)::integer <= extract(day FROM (substr(${text}, 1, 7) || '-01')::date + interval '1 month -1 day')
        THEN (replace(${text}, ',', '.') || CASE WHEN ${text} ~ '.{16}.*([ZzCT]|[+-].{2,5})$' THEN '' ELSE ' UTC' END)::timestamptz END END`;
    case 'unix':
      return fromSeconds(numeric);
    case 'unixMs':
      return fromSeconds(`${numeric} / 1000`);
  }
}

/** Years 1 to 9999. */
function fromSeconds(seconds: string): string {
  return `CASE WHEN ${seconds} BETWEEN -62135596800 AND 253402300799 THEN to_timestamp((${seconds})::double precision) END`;
}

/**
 * What the server cannot take as text, in the escapes of JSON: U+0000, and halves of pairs. Whole pairs are never
 * stored as escapes.
 */
const untakeable = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})`;

/** `json`: a column of type json, as a value whose texts can be taken out. */
function takeableJson(json: string): string {
  return `(CASE WHEN strpos(${json}::text, '\\u') = 0 THEN ${json} ELSE regexp_replace(${json}::text, '${untakeable}', '\\1\\\\ufffd', 'g')::json END)`;
}

/** A question for `t`: the text at a path that is no object and no array. `steps`: such as ` -> 'a' -> 'b'`. */
function scalarIn(json: string, steps: string): string {
  return `SELECT CASE WHEN json_typeof(v) NOT IN ('object', 'array') THEN v #>> '{}' END AS t FROM (SELECT ${takeableJson(json)}${steps} AS v) AS found`;
}
