import { timeForm } from '../../../core/times.ts';
import type { DerivedKind } from '../../../core/described-table.ts';

/** What a derived column is in PostgreSQL. */
export const derivedTypes: Readonly<Record<DerivedKind, string>> = {
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
export function convertText(text: string, as: Exclude<DerivedKind, 'texts'>): string {
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
export function takeableJson(json: string): string {
  return `(CASE WHEN strpos(${json}::text, '\\u') = 0 THEN ${json} ELSE regexp_replace(${json}::text, '${untakeable}', '\\1\\\\ufffd', 'g')::json END)`;
}

/** A question for `t`: the text at a path that is no object and no array. `steps`: such as ` -> 'a' -> 'b'`. */
export function scalarIn(json: string, steps: string): string {
  return `SELECT CASE WHEN json_typeof(v) NOT IN ('object', 'array') THEN v #>> '{}' END AS t FROM (SELECT ${takeableJson(json)}${steps} AS v) AS found`;
}
