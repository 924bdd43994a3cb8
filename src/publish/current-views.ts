import { createHash } from 'node:crypto';
import { timeForm } from '../core/clock.ts';
import type { DerivedColumn, DerivedKind } from '../core/records.ts';
import { derivedSql } from '../sinks/postgres/postgres-tables.ts';
import { sourceOf } from '../sinks/records/record-tables.ts';
import { quoted } from '../sql/database.ts';
import { databaseType, type PublishedColumn } from './manifest.ts';
import type { PlannedEntity } from './target.ts';
import { decimalDigits } from './typed-columns.ts';

export type ViewDialect = 'postgres' | 'duckdb';

/** A column of a view, and its expression over the table. */
export interface ViewColumn {
  readonly name: string;
  readonly sql: string;
}

/**
 * The columns of an entity's view of current rows: those of the record, and those that the definition makes of them. A
 * field that a derived column is made of may have another name in the target.
 */
export function viewColumns(
  { columns, described, kinds }: Pick<PlannedEntity, 'columns' | 'described' | 'kinds'>,
  dialect: ViewDialect,
): readonly ViewColumn[] {
  const byField = new Map(columns.map((column) => [column.field, column]));
  const taken = new Set(columns.map(({ name }) => name));
  const derived = (described?.derived ?? []).flatMap((column): ViewColumn[] => {
    const sources = column.from.flatMap((field) => byField.get(field) ?? []);
    const [first] = sources;
    if (first === undefined || sources.length < column.from.length || taken.has(column.name)) return [];
    const isTyped = column.path.length === 0 && kinds.get(first.field) === column.as;
    const made = { ...column, from: sources.map(({ name }) => name) };
    // PostgreSQL has other functions for `jsonb`.
    const source = first.as === 'json' ? `(${sourceOf(made)})::json` : sourceOf(made);
    const sql = isTyped
      ? quoted(first.name)
      : dialect === 'postgres'
        ? derivedSql(made, new Map([[first.name, first.type]]), source)
        : duckdbSql(made, first);
    return [{ name: column.name, sql }];
  });
  return [...columns.map(({ name }) => ({ name, sql: quoted(name) })), ...derived];
}

function duckdbSql(column: DerivedColumn, first: PublishedColumn): string {
  const { path, as } = column;
  const source = sourceOf(column);
  if (as === 'texts') return joinedTexts(source, path);
  if (!['json', 'jsonb'].includes(databaseType(first))) return converted[as](`CAST(${source} AS VARCHAR)`);
  const value = `json_extract(${source}, '${path.map(pointer).join('')}')`;
  return converted[as](
    `(CASE WHEN json_type(${value}) NOT IN ('OBJECT', 'ARRAY') THEN ${value} ->> '$' END)`,
  );
}

function pointer(step: string): string {
  return `/${step.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll("'", "''")}`;
}

/** In the order of the document. */
function joinedTexts(source: string, path: readonly string[]): string {
  let found = `[${source}]`;
  for (const step of path) {
    found =
      step === '*'
        ? `flatten(list_transform(${found}, lambda v: list_concat(json_extract(v, '$.*'), json_extract(v, '$[*]'))))`
        : `list_transform(${found}, lambda v: json_extract(v, '${pointer(step)}'))`;
  }
  const texts = `list_filter(${found}, lambda v: json_type(v) = 'VARCHAR')`;
  return `(SELECT CASE WHEN len(t) > 0 THEN array_to_string(list_transform(t, lambda v: v ->> '$'), '') END FROM (SELECT ${texts} AS t))`;
}

const number = String.raw`'\s*-?(0|[1-9][0-9]{0,250})(\.[0-9]{1,250})?([eE][+-]?[0-9]{1,3})?\s*'`;
const cast = (text: string, form: string, type: string): string =>
  `CASE WHEN regexp_full_match(${text}, ${form}) THEN TRY_CAST(${text} AS ${type}) END`;
const numeric = (text: string): string => cast(text, number, 'DOUBLE');

/** Years 1 to 9999. */
const fromSeconds = (seconds: string): string =>
  `CASE WHEN ${seconds} BETWEEN -62135596800 AND 253402300799 THEN make_timestamptz(CAST(${seconds} * 1000000 AS BIGINT)) END`;

/** Spelled with seconds and a zone, as DuckDB needs it. */
function time(text: string): string {
  const steps: readonly (readonly [form: string, to: string])[] = [
    [',', '.'],
    [' ?(Z|z|UTC|GMT)$', '+00:00'],
    ['^(.{10})$', String.raw`\1 00:00:00+00:00`],
    [String.raw`^(.{11}\d\d:\d\d)($| ?[+-])`, String.raw`\1:00\2`],
    [String.raw` ?([+-]\d\d):?(\d\d)$`, String.raw`\1:\2`],
    [String.raw`^(.{11}[\d:.]+)$`, String.raw`\1+00:00`],
  ];
  const spelled = steps.reduce((sql, [form, to]) => `regexp_replace(${sql}, '${form}', '${to}')`, text);
  return `CASE WHEN regexp_full_match(${text}, '${timeForm}') THEN TRY_CAST(${spelled} AS TIMESTAMPTZ) END`;
}

/** Converts a text; null where it is no value of the type. */
const converted: Readonly<Record<Exclude<DerivedKind, 'texts'>, (text: string) => string>> = {
  string: (text) => text,
  integer: (text) => cast(text, String.raw`'\s*-?(0|[1-9][0-9]{0,18})\s*'`, 'BIGINT'),
  number: numeric,
  boolean: (text) =>
    `CASE WHEN ${text} IN ('true', '1') THEN true WHEN ${text} IN ('false', '0') THEN false END`,
  timestamp: time,
  unix: (text) => fromSeconds(`(${numeric(text)})`),
  unixMs: (text) => fromSeconds(`((${numeric(text)}) / 1000)`),
  date: (text) =>
    `CASE WHEN length(${text}) = 10 AND regexp_full_match(${text}, '${timeForm}') THEN TRY_CAST(${text} AS DATE) END`,
  decimal: (text) => cast(text, number, `DECIMAL(${decimalDigits.precision},${decimalDigits.scale})`),
};

const made = 'Made by connector-sync: ';

/** The comment on a view, with a hash of all that its entity shows: where it is there, nothing has changed. */
export function viewComment(entity: PlannedEntity, text: string): string {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 10);
  return `${made}rows of ${entity.connector}/${entity.entity} that are not deleted (${hash})`;
}

/** `comment`: as `TableChange.viewComment` gives it. */
export function isOwnView(comment: { readonly text: string | null } | undefined): boolean {
  return comment?.text?.startsWith(made) === true;
}
