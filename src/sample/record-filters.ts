import type { JsonObject, JsonValue } from '../core/json.ts';
import { isJsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { badParameter } from '../service/api-error.ts';

/** Parameter name -> test of a record against the parameter's value. */
export type RecordFilters = Readonly<Record<string, (value: JsonValue, name: string) => RecordTest>>;
type RecordTest = (record: JsonObject) => boolean;

/** Keeps the records that pass the filters of all given parameters. */
export function filterRecords(
  records: readonly JsonObject[],
  filters: RecordFilters,
  params: Params,
): readonly JsonObject[] {
  const tests = Object.entries(filters).flatMap(([name, makeTest]) => {
    const value = params[name];
    return value === undefined ? [] : [makeTest(value, name)];
  });
  return records.filter((record) => tests.every((test) => test(record)));
}

/** The field at a dotted path has this value. */
export function equalTo(path: string): RecordFilters[string] {
  return (value) => (record) => fieldAt(record, path) === value;
}

/** The time at a dotted path is this or later; a record without one is left out. */
export function since(path: string): RecordFilters[string] {
  return (value, name) => {
    const bound = timeParameter(name, value);
    return (record) => (timeAt(record, path) ?? Number.NEGATIVE_INFINITY) >= bound;
  };
}

/** The time at a dotted path is this or earlier; a record without one is left out. */
export function before(path: string): RecordFilters[string] {
  return (value, name) => {
    const bound = timeParameter(name, value);
    return (record) => (timeAt(record, path) ?? Number.POSITIVE_INFINITY) <= bound;
  };
}

/** By `sort_field` and `sort_dir` when both or the first are given, else as they are. Equal values keep their order. */
export function sortRecords(records: readonly JsonObject[], params: Params): readonly JsonObject[] {
  const path = params['sort_field'];
  if (typeof path !== 'string') return records;
  const sign = params['sort_dir'] === 'DESC' ? -1 : 1;
  const timeOf = (record: JsonObject): number => timeAt(record, path) ?? 0;
  return records.toSorted((left, right) => sign * (timeOf(left) - timeOf(right)));
}

/** Milliseconds since the epoch of an ISO 8601 parameter; throws 400 for anything else. */
export function timeParameter(name: string, value: JsonValue): number {
  const time = typeof value === 'string' && isoTime.test(value) ? Date.parse(withZone(value)) : Number.NaN;
  if (Number.isNaN(time)) {
    throw badParameter(
      name,
      `Invalid value for parameter '${name}'; expected an ISO 8601 time such as 2015-10-21T15:41:36+00:00`,
    );
  }
  return time;
}

const isoTime = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?$/;

/** A time without a zone is UTC, not the zone of this machine. */
function withZone(text: string): string {
  return text.length > 10 && !/(Z|[+-]\d\d:?\d\d)$/.test(text) ? `${text}Z` : text;
}

function timeAt(record: JsonObject, path: string): number | null {
  const value = fieldAt(record, path);
  return typeof value === 'string' && value !== '' ? Date.parse(value) : null;
}

function fieldAt(record: JsonObject, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = record;
  for (const name of path.split('.')) value = isJsonObject(value) ? value[name] : undefined;
  return value;
}
