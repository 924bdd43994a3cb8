import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { convertValue } from './convert-value.ts';
import type { Action, Param } from './definition.ts';
import { suggestName } from './suggest-name.ts';

/**
 * What is wrong with parameters that a person chose, as sentences; empty when nothing is. Checks that each is
 * declared, fits its type, is one of the allowed values and lies between `min` and `max` (a `cap` is a limit here
 * too: asking for more than comes back is a mistake). Missing ones are `missingParams`' business.
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
 * The parameters as they are sent: a text such as `49377` or `true` becomes what the declared type asks for, so that
 * equal parameters are equal values. Only for parameters that passed `checkParams`.
 */
export function convertParams(action: Pick<Action, 'params'>, params: Params): Params {
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const param = action.params.get(name);
      return [name, param === undefined ? value : convertValue(param.type, value)];
    }),
  );
}

/** What is wrong with one parameter's value; `name` is only for the sentence. */
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

function checkMembers(
  prefix: string,
  declared: ReadonlyMap<string, Param>,
  given: JsonObject,
): readonly string[] {
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
