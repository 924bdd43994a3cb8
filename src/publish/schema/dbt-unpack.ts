import { derivedKinds, type DerivedKind } from '../../core/described-table.ts';
import { convertText, scalarIn } from '../../sinks/postgres/records/convert-text.ts';
import type { UnpackedColumn } from './catalogue.ts';
import { column, jinjaText } from './dbt-tests.ts';
import { isPlainName } from './quote-name.ts';

export const unpackMacroPath = 'macros/connector_sync/unpack.sql';

type Kind = Exclude<DerivedKind, 'texts'>;
const kinds = derivedKinds.filter((kind) => kind !== 'texts');

/** A column of a model: it and its name. */
export function unpackedColumn({ name, source, path, as }: UnpackedColumn): string {
  const from = isPlainName(source) ? jinjaText(source) : `adapter.quote(${jinjaText(source)})`;
  const steps = path === null ? 'none' : `[${path.map(jinjaText).join(', ')}]`;
  return `{{ connector_sync_unpack(${from}, ${steps}, ${jinjaText(as)}) }} as ${column(name)}`;
}

/** What one kind of warehouse is asked. */
interface Unpacking {
  /** The text at a path of a column of JSON, with `step` for each name; null for an object or an array. */
  readonly textIn: string;
  readonly textOf: string;
  /** `t` as a value of the type, null where it is none. */
  readonly convert: (as: Kind) => string;
}

const isTime = String.raw`([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?([Zz]|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?`;
const isNumber = String.raw`-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?`;
const isInteger = '-?(0|[1-9][0-9]{0,18})';

/** Casts that give null for what they cannot take: `cast` makes one, `matches` asks whether a text is of a form. */
function safely(
  matches: (form: string) => string,
  cast: (text: string, type: 'integer' | 'number' | 'timestamp') => string,
  seconds: (value: string) => string,
): (as: Kind) => string {
  const float = cast('t', 'number');
  const number = `case when ${matches(isNumber)} and abs(${float}) <= 1e308 then ${float} end`;
  const range = (value: string): string => `(${value}) between -62135596800 and 253402300799`;
  const time = (value: string): string => `case when ${range(value)} then ${seconds(value)} end`;
  return (as) => {
    switch (as) {
      case 'string':
        return 't';
      case 'integer':
        return `case when ${matches(isInteger)} then ${cast('t', 'integer')} end`;
      case 'number':
        return number;
      case 'boolean':
        return "case when t in ('true', '1') then true when t in ('false', '0') then false end";
      case 'timestamp': {
        const zone = '([Zz]|[+-].....)';
        const whole = `case when length(t) = 10 then t || ' 00:00:00+00:00' when length(t) = 16 then t || ':00+00:00'
          when ${matches(`.{16}${zone}`)} then substr(t, 1, 16) || ':00' || substr(t, 17)
          when ${matches(`.{19}.*${zone}`)} then t else t || '+00:00' end`;
        return `case when ${matches(isTime)} then ${cast(`(${whole})`, 'timestamp')} end`;
      }
      case 'unix':
        return time(number);
      case 'unixMs':
        return time(`(${number}) / 1000`);
    }
  };
}

const eachStep = (text: string): string => `{% for step in path %}${text}{% endfor %}`;
const inQuotes = `{{ step | replace("'", "''") }}`;
/** A key of JSON in a path like `$."a"`. */
const inPath = eachStep(`."{{ step | replace("'", "''") }}"`);

const postgres: Unpacking = {
  textIn: scalarIn('{{ column }}', eachStep(` -> '${inQuotes}'`)),
  textOf: 'select {{ column }}::text as t',
  convert: (as) => convertText('t', as),
};

/** PostgreSQL and DuckDB are run by tests; the others by none. */
const unpackings: Readonly<Record<string, Unpacking>> = {
  duckdb: {
    textIn: `select case when json_type(v) not in ('OBJECT', 'ARRAY') then v ->> '$' end as t from (select {{ column }}${eachStep(` -> '/{{ step | replace('~', '~0') | replace('/', '~1') | replace("'", "''") }}'`)} as v)`,
    textOf: 'select cast({{ column }} as varchar) as t',
    convert: safely(
      (form) => `regexp_full_match(t, '${form}')`,
      (text, type) =>
        `try_cast(${text} as ${type === 'integer' ? 'bigint' : type === 'number' ? 'double' : 'timestamptz'})`,
      (value) => `to_timestamp(${value})`,
    ),
  },
  snowflake: {
    textIn: `select iff(typeof(v) in ('OBJECT', 'ARRAY'), null, v::varchar) as t from (select try_parse_json({{ column }})${eachStep(`['${inQuotes}']`)} as v)`,
    textOf: 'select {{ column }}::varchar as t',
    convert: safely(
      (form) => `regexp_like(t, '${form}')`,
      (text, type) =>
        type === 'timestamp'
          ? `try_to_timestamp_tz(${text})`
          : `${type === 'integer' ? 'try_to_number' : 'try_to_double'}(${text})`,
      (value) => `to_timestamp_tz((${value})::number(20, 3)::varchar)`,
    ),
  },
  bigquery: {
    textIn: `select json_value({{ column }}, '$${inPath}') as t`,
    textOf: 'select cast({{ column }} as string) as t',
    convert: safely(
      (form) => `regexp_contains(t, r'^(${form})$')`,
      (text, type) =>
        `safe_cast(${text} as ${type === 'integer' ? 'int64' : type === 'number' ? 'float64' : 'timestamp'})`,
      (value) => `timestamp_millis(cast((${value}) * 1000 as int64))`,
    ),
  },
};

const branches = Object.entries(unpackings).map(
  ([target, unpacking], index) =>
    `{%- ${index === 0 ? 'if' : 'elif'} target.type == '${target}' -%}\n${unpackingText(unpacking)}`,
);

/** A macro of the project, because dbt has none for JSON. */
export const unpackMacro = `{# One value of a column, as a type; null where there is none, and in other warehouses. path: names in a column of JSON; none: the column. #}
{% macro connector_sync_unpack(column, path, type) %}
${branches.join('\n')}
{%- elif target.type == 'postgres' -%}
${unpackingText(postgres)}
{%- else -%}
null
{%- endif -%}
{% endmacro %}
`;

function unpackingText({ textIn, textOf, convert }: Unpacking): string {
  const cases = kinds.map(
    (as, index) => `{% ${index === 0 ? 'if' : 'elif'} type == '${as}' %}${convert(as)}`,
  );
  return `(select ${cases.join('')}{% endif %} from ({% if path is none %}${textOf}{% else %}${textIn}{% endif %}) as scalar)`;
}
