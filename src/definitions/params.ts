import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params, FieldType } from '../core/records.ts';
import { timeFormat } from '../core/time-format.ts';
import type { Action, Param, Entity, CredentialShape, Definition } from './definition.ts';
import { suggestName } from './suggest-name.ts';

/**
 * Checks parameters that a person chose and returns problems as sentences; empty: there are none. Each must be
 * declared, fit its type, be one of the allowed values and lie between `min` and `max` (a `cap` is a limit here too: a
 * request for more than the service returns is a mistake). `missingParams` finds missing ones.
 */
export function checkParams(action: Pick<Action, 'params'>, params: Params): readonly string[] {
  return checkMembers('', action.params, params);
}

/** The parameters that the action requires and `params` lacks. */
export function missingParams(action: Pick<Action, 'params'>, params: Params): readonly string[] {
  return [...action.params].flatMap(([name, param]) =>
    param.required && !Object.hasOwn(params, name) ? [name] : [],
  );
}

/**
 * Converts parameters to the form in which they are sent: a text such as `49377` or `true` becomes a value of the
 * declared type, so that equal parameters are equal values. Only for parameters that passed `checkParams`.
 */
export function convertParams(action: Pick<Action, 'params'>, params: Params): Params {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const param = action.params.get(name);
      return [name, param === undefined ? value : convertValue(param.type, value)];
    }),
  );
}

/** Checks the value of one parameter and returns the problems; `name` is only used in their text. */
export function checkParam(name: string, param: Param, given: JsonValue): readonly string[] {
  const value = convertValue(param.type, given);
  if (value === null) return [`${name}: expected type ${param.type}, got ${describe(given)}`];
  if (param.enum !== null && !(typeof value === 'string' && param.enum.includes(value))) {
    const suggestion = typeof value === 'string' ? suggestName(value, param.enum) : '';
    return [`${name}: expected one of ${param.enum.join(', ')}, got ${describe(given)}${suggestion}`];
  }
  if ((typeof value === 'number' || typeof value === 'bigint') && param.min !== null && value < param.min) {
    return [`${name}: expected at least ${param.min}, got ${value}`];
  }
  if ((typeof value === 'number' || typeof value === 'bigint') && param.max !== null && value > param.max) {
    return [`${name}: expected at most ${param.max}, got ${value}`];
  }
  if (param.members !== undefined && isJsonObject(value)) {
    const missing = missingParams({ params: param.members }, value).map(
      (member) => `${name}.${member}: is missing`,
    );
    return [...checkMembers(`${name}.`, param.members, value), ...missing];
  }
  return [];
}

function checkMembers(prefix: string, declared: ReadonlyMap<string, Param>, given: JsonObject) {
  return Object.entries(given).flatMap(([name, value]) => {
    const param = declared.get(name);
    if (param === undefined) {
      const suggestion = suggestName(name, declared.keys());
      const known = suggestion === '' ? `; expected one of ${[...declared.keys()].join(', ')}` : suggestion;
      return [`${prefix}${name}: no such parameter${known}`];
    }
    return checkParam(`${prefix}${name}`, param, value);
  });
}

function describe(value: JsonValue): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}...` : value);
  }
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'an array' : 'an object';
  return String(value);
}

const wholeNumber = /^-?(0|[1-9][0-9]{0,18})$/;

/**
 * Converts a value for a parameter or field of this type; null when that is not possible. Parent records, partitions
 * and command lines do not always carry the declared type: a segment's id is an integer in its record and a string as
 * parameter.
 */
export function convertValue(type: FieldType, value: JsonValue): JsonValue {
  switch (type) {
    case 'any':
      return value;
    case 'string':
      return toText(value);
    case 'integer':
      return toInteger(value);
    case 'number':
      return toNumber(value);
    case 'boolean':
      if (value === 'true' || value === 'false') return value === 'true';
      return typeof value === 'boolean' ? value : null;
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
    case 'array':
      return Array.isArray(value) ? value : null;
  }
}

function toText(value: JsonValue): JsonValue {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : null;
  return typeof value === 'bigint' ? String(value) : null;
}

function toInteger(value: JsonValue): JsonValue {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value;
  if (typeof value !== 'string' || !wholeNumber.test(value)) return null;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : BigInt(value);
}

function toNumber(value: JsonValue): JsonValue {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value !== 'string' || value.trim() === '') return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}

/** Formats of a time of the clock. */
const formats = {
  date: timeFormat('%Y-%m-%d'),
  compactDate: timeFormat('%Y%m%d'),
  compactHour: timeFormat('%Y%m%dT%H'),
  dateTime: timeFormat('%Y-%m-%dT%H:%M:%SZ'),
  unix: timeFormat('unix'),
  unixMs: timeFormat('unixMs'),
} as const;

/** A time in place of a fixed parameter's value: this many days after the walk began. */
interface ClockValue {
  readonly days: number;
  readonly format: keyof typeof formats;
}

const dayMs = 86_400_000;
const mostDays = 3_650;

/** Whether a fixed value stands for a time: an object where the parameter takes none. */
export function isClockValue(value: JsonValue, { type }: Pick<Param, 'type'>): value is JsonObject {
  return type !== 'object' && isJsonObject(value);
}

/** Finds the problem with a time of the clock; null: there is none. */
export function clockProblem(value: JsonObject, { type }: Pick<Param, 'type'>): string | null {
  const { days, format, ...others } = value;
  const isTime =
    Number.isInteger(days) &&
    Math.abs(Number(days)) <= mostDays &&
    typeof format === 'string' &&
    Object.hasOwn(formats, format) &&
    Object.keys(others).length === 0;
  if (!isTime) {
    const known = Object.keys(formats).join(', ');
    return `expected a time of the clock such as { days: -30, format: date }, of at most ${mostDays} days and format ${known}; or a value of type ${type}`;
  }
  if (type !== 'string' && type !== 'integer') {
    return `expected a string or integer parameter for a time, this one is of type ${type}`;
  }
  return type === 'string' || formats[format as keyof typeof formats].isNumber
    ? null
    : 'expected format unix, unixMs or compactDate: the parameter is of type integer';
}

/** The parameters that the definition sends with each list call of a walk that began at this time. */
export function fixedParamsAt(
  { fixedParams, actions }: Pick<Entity, 'fixedParams' | 'actions'>,
  ms: number,
): Params {
  return withTimes(fixedParams, actions.get('list')?.params ?? new Map<string, Param>(), ms);
}

export function withTimes(
  fixed: Params,
  declared: ReadonlyMap<string, Pick<Param, 'type'>>,
  ms: number,
): Params {
  return Object.fromEntries(
    Object.entries(fixed).map(([name, value]) => {
      const param = declared.get(name);
      if (param === undefined || !isClockValue(value, param)) return [name, value];
      // `as`: the definition was checked.
      const { days, format } = value as unknown as ClockValue;
      const text = formats[format].write(ms + days * dayMs);
      return [name, param.type === 'integer' ? Number(text) : text];
    }),
  );
}

/**
 * A problem with credentials. It repeats no value, and no name that the definition does not have, which may be a secret
 * in the wrong place.
 */
interface CredentialProblem {
  /** Null: the credentials as a whole. */
  readonly field: string | null;
  readonly code: 'missing' | 'invalid_type' | 'unknown_field';
  readonly message: string;
}

/**
 * Checks the credentials of a connector of this type (null: none are given); empty: no problem is known. They must fit
 * one of the definition's ways to sign in, where it has any. The problems concern the way that was most likely meant.
 */
export function credentialProblems(
  { credentials: shapes }: Pick<Definition, 'credentials'>,
  given: JsonValue,
): readonly CredentialProblem[] {
  const fields = isJsonObject(given) ? given : {};
  const tried = shapes.map((shape) => ({ shape, problems: problemsWith(shape, fields) }));
  if (shapes.length === 0 || tried.some(({ problems }) => problems.length === 0)) return [];
  if (!isJsonObject(given)) {
    const ways = shapes.map(shapeText).join(' or ');
    return [{ field: null, code: 'missing', message: `Expected credentials: ${ways}.` }];
  }
  // Only the way to sign in that shares the most fields with the given ones is reported; a report on all would hide the
  // mistake.
  const [meant] = tried.toSorted((a, b) => shared(b.shape, given) - shared(a.shape, given));
  return meant?.problems ?? [];
}

/** `API key (api_key, optional data_center)`. */
export function shapeText({ title, fields }: CredentialShape): string {
  const names = [...fields].map(([name, { isRequired }]) => (isRequired ? name : `optional ${name}`));
  return names.length === 0 ? title : `${title} (${names.join(', ')})`;
}

function problemsWith(shape: CredentialShape, given: JsonObject): readonly CredentialProblem[] {
  const problems: CredentialProblem[] = [];
  for (const [field, { isRequired, setting }] of shape.fields) {
    const value = Object.hasOwn(given, field) ? given[field] : undefined;
    if (value === undefined) {
      if (isRequired) problems.push({ field, code: 'missing', message: 'Expected a text, got nothing.' });
    } else if (!isSecretText(value)) {
      const message = `Expected a text of 1 to ${maxLength} characters that are not all blank.`;
      problems.push({ field, code: 'invalid_type', message });
    } else if (setting?.values?.includes(value) === false) {
      problems.push({
        field,
        code: 'invalid_type',
        message: `Expected one of ${setting.values.join(', ')}.`,
      });
    }
  }
  if (Object.keys(given).some((name) => !shape.fields.has(name))) {
    const message = `Expected no other fields than those of ${shapeText(shape)}.`;
    problems.push({ field: null, code: 'unknown_field', message });
  }
  return problems;
}

/** The longest keys and certificates that services hand out are some kilobytes. */
const maxLength = 16_384;

function isSecretText(value: JsonValue): value is string {
  return (
    typeof value === 'string' && value.trim() !== '' && value.length <= maxLength && value.isWellFormed()
  );
}

function shared({ fields }: CredentialShape, given: JsonObject): number {
  return Object.keys(given).filter((name) => fields.has(name)).length;
}
