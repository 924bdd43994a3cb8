import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { oneLine, partIn, prefix, textIn, wordsOf } from './parts.ts';
import type { Schemas } from './schemas.ts';
import { isReservedName } from '../yaml-data.ts';

export interface Parameter {
  /** As a definition can declare it. */
  readonly name: string;
  /** As the service names it: `page[cursor]`. */
  readonly sent: string;
  readonly place: 'query' | 'path' | 'header' | 'body';
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array';
  readonly isRequired: boolean;
  readonly schema: JsonObject;
  readonly description: string;
  /** Undefined where the file gives none. An object without one has the defaults of its members. */
  readonly fallback: JsonValue | undefined;
  /** Dotted, where it is not the name. */
  readonly at: string | null;
  /** How an array is written in a query. */
  readonly list: 'comma' | 'repeat';
  /** An object spread over a query: `created[gte]=1`. */
  readonly isSpread: boolean;
  /** An API fills it from the connector's settings. */
  readonly isFilled: boolean;
  /** Only the search for the same records declares it: an API would leave it out of a listing. */
  readonly isOfSearch?: true;
  /** A person says that the service takes it; the file does not. */
}

/** Which parameter each variable of a GraphQL request stands for. */
export interface Variables {
  readonly placeOf: (param: string) => string | null;
}

export function readParameter(param: JsonObject, schemas: Schemas, variables: Variables | null): Parameter {
  const sent = textIn(param, 'name') ?? '';
  const schema = schemas.resolve(partIn(param, 'schema'));
  const stated = textIn(param, 'in');
  const at = variables?.placeOf(sent) ?? null;
  const place = at !== null ? 'body' : stated === 'path' || stated === 'header' ? stated : 'query';
  const isFilled = partIn(param, `${prefix}param-config-inject`) !== undefined;
  return {
    name: declarable(sent),
    sent,
    place,
    type: paramType(schemas, schema),
    isRequired: place === 'path' || partIn(param, 'required') === true,
    schema,
    description: oneLine(textIn(param, 'description') ?? textIn(schema, 'description') ?? '', 1000),
    fallback: isFilled ? undefined : fallbackOf(schemas, schema),
    at,
    list: partIn(param, 'explode') === false ? 'comma' : 'repeat',
    isSpread: textIn(param, 'style') === 'deepObject',
    isFilled,
  };
}

const paramName = /^[A-Za-z$][A-Za-z0-9_.$[\]-]{0,63}$/;

export function declarable(name: string): string {
  if (isReservedName(name)) return `${wordsOf(name).join('_')}_`;
  return paramName.test(name) ? name : wordsOf(name).join('_').slice(0, 64);
}

export function paramType(schemas: Schemas, schema: JsonObject): Parameter['type'] {
  const type = schemas.typeOf(schema);
  return type === 'any' ? 'string' : type;
}

/** Objects within objects of a body; defaults that lie deeper are not found. */
const mostLevels = 20;

/** What an object parameter is sent as where nothing is given: its default, or those of its members. */
export function fallbackOf(schemas: Schemas, schema: JsonObject): JsonValue | undefined {
  // Each schema once, also one that contains itself.
  const known = new Map<JsonObject, JsonValue | undefined>();
  const find = (one: JsonObject, level: number): JsonValue | undefined => {
    if (known.has(one) || level > mostLevels) return known.get(one);
    known.set(one, undefined);
    const found = ofMembers(one, level);
    known.set(one, found);
    return found;
  };
  const ofMembers = (one: JsonObject, level: number): JsonValue | undefined => {
    const own = partIn(one, 'default');
    if (own !== undefined && own !== null && !isEmptyObject(own)) return own;
    const members = [...schemas.properties(one)].flatMap(([name, member]) => {
      const value = find(member, level + 1);
      return value === undefined ? [] : [[name, value] as const];
    });
    if (members.length > 0) return Object.fromEntries(members);
    return own === null ? undefined : own;
  };
  return find(schema, 0);
}

function isEmptyObject(value: JsonValue): boolean {
  return isJsonObject(value) && Object.keys(value).length === 0;
}
