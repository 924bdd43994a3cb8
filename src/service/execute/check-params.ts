import { firstCharacters, hasAtMostCharacters } from '../../core/characters.ts';
import type { JsonValue } from '../../core/json.ts';
import type { Params } from '../../core/records.ts';
import type { Action, ActionName, Entity, Param } from '../../definitions/definition.ts';
import { type ApiError, badParameter } from '../api-error.ts';

/**
 * Checks an execute call's `params` against the definition and fills in defaults: what comes out holds only declared
 * parameters, of the declared types, within their limits.
 *
 * An undeclared `cursor` is refused (the specification's rule: the connector's own paging keys must be used); other
 * undeclared keys are ignored, as the hosted executor does and public clients rely on. A value of null counts as
 * absent. Throws 400.
 */
export function checkParams(
  entity: Entity,
  actionName: ActionName,
  action: Action,
  given: Readonly<Record<string, unknown>>,
): Params {
  if (given['cursor'] !== undefined && given['cursor'] !== null && !action.params.has('cursor')) {
    throw badParameter(
      'cursor',
      `Parameter 'cursor' is not supported for entity '${entity.name}'. ` +
        `Supported parameters: ${pythonList([...action.params.keys()])}`,
    );
  }
  const params: Record<string, JsonValue> = {};
  for (const [name, param] of action.params) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    const checked = checkValue(name, param, value, () => missing(name, entity, actionName, given));
    if (checked !== undefined) params[name] = checked;
  }
  return params;
}

function checkValue(
  name: string,
  param: Param,
  value: unknown,
  missing: () => ApiError,
): JsonValue | undefined {
  if (value === undefined) {
    if (param.required) throw missing();
    return param.default ?? undefined;
  }
  if (param.required && (value === null || value === '')) {
    throw badParameter(name, `Path parameter '${name}' cannot be None or empty string`);
  }
  if (value === null) return param.default ?? undefined;
  const typed = toType(name, param, value);
  if (param.enum !== null && (typeof typed !== 'string' || !param.enum.includes(typed))) {
    throw badParameter(
      name,
      `Invalid value '${shorten(typed)}' for parameter '${name}'; expected one of: ${pythonList(param.enum)}`,
    );
  }
  return typeof typed === 'number' ? withinLimits(name, param, typed) : typed;
}

function toType(name: string, param: Param, value: unknown): JsonValue {
  switch (param.type) {
    case 'string':
      if (typeof value === 'string') return value;
      // Ids travel in the third party's path, where a number and its digits are the same thing.
      if (Number.isSafeInteger(value)) return String(value);
      break;
    case 'integer':
      if (typeof value === 'number' && Number.isSafeInteger(value)) return value;
      // The same, the other way round: a path's digits name the number.
      if (param.required && typeof value === 'string' && /^\d{1,15}$/.test(value)) return Number(value);
      break;
    case 'boolean':
      if (typeof value === 'boolean') return value;
      break;
    case 'object':
      if (isPlainObject(value)) return checkMembers(name, param, value);
      break;
    case 'array':
      if (Array.isArray(value)) return asJson(value);
      break;
  }
  throw badParameter(
    name,
    `Invalid value '${shorten(value)}' for parameter '${name}'; expected type: ${param.type}`,
  );
}

/** Members that the definition knows are checked like parameters (without their defaults); others pass as they are. */
function checkMembers(name: string, param: Param, value: Record<string, unknown>): JsonValue {
  for (const [member, declared] of param.members ?? []) {
    const path = `${name}.${member}`;
    const given = Object.hasOwn(value, member) ? value[member] : undefined;
    checkValue(path, declared, given, () =>
      badParameter(path, `Missing required member '${member}' of parameter '${name}'`),
    );
  }
  return asJson(value);
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Values of a parsed JSON body are JSON. */
function asJson(value: object): JsonValue {
  return value as JsonValue;
}

function withinLimits(name: string, param: Param, value: number): number {
  if (param.min !== null && value < param.min) {
    throw badParameter(
      name,
      `Invalid value '${value}' for parameter '${name}'; expected at least ${param.min}`,
    );
  }
  if (param.max === null || value <= param.max) return value;
  if (param.aboveMax === 'cap') return param.max;
  throw badParameter(name, `Invalid value '${value}' for parameter '${name}'; expected at most ${param.max}`);
}

function missing(
  name: string,
  entity: Entity,
  actionName: ActionName,
  given: Readonly<Record<string, unknown>>,
): ApiError {
  return badParameter(
    name,
    `Missing required path parameter '${name}' for path '${entity.name}/${actionName}'. ` +
      `Provided parameters: ${pythonList(Object.keys(given).slice(0, 20).map(shorten))}`,
  );
}

/**
 * Enough of a wrong value to recognise it; of an array or object its kind, for it may be nested deeper than can be
 * written.
 */
function shorten(value: unknown): string {
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? '[…]' : '{…}';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return hasAtMostCharacters(text, 60) ? text : `${firstCharacters(text, 60)}…`;
}

/** The hosted executor prints its lists so: `['a', 'b']`. */
export function pythonList(texts: readonly string[]): string {
  return `[${texts.map((text) => `'${text}'`).join(', ')}]`;
}
