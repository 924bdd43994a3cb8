import {
  isJsonObject,
  memberInAnySpelling,
  memberOf,
  valueAtKey,
  type JsonObject,
  type JsonValue,
} from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';
import {
  keyOfToken,
  numberedKey,
  flagOf,
  signOfMore,
  tokenOf,
  type TokenKey,
} from '../definitions/pagination-file.ts';
import type { NextPage, PageAnswer, UnreadableNext } from './pagination.ts';

type Cut = NonNullable<Entity['cut']>;

/**
 * In `connector_metadata`, in the `meta` of the result or beside its records: shapes this API has had without a new
 * version.
 */
function placesOf({ metadata, result }: PageAnswer): readonly JsonObject[] {
  const places = isJsonObject(result) ? [metadata, memberOf(result, 'meta'), result] : [metadata];
  return places.filter((place) => isJsonObject(place));
}

/** What an answer says of more pages by its keys alone; `hasMore` null: nothing. */
export function readFlag(flagKeys: readonly string[], answer: PageAnswer): NextPage | UnreadableNext {
  for (const place of placesOf(answer)) {
    const flag = firstOf(place, flagKeys);
    if (flag === undefined) continue;
    // The number or address of the next page says the same.
    if (flag === null || flag === '') return { hasMore: false, token: null };
    const said = flagOf(flag);
    if (said !== null || typeof flag !== 'object') return { hasMore: said ?? true, token: null };
    return {
      fault: `expected true, false or the next page at ${flagKeys.join(', ')}, got ${kindOf(flag)}`,
    };
  }
  return { hasMore: null, token: null };
}

/** Whether an answer says that its listing is cut; `is` absent: by any value that says something. */
export function saysCut({ key, is }: NonNullable<Cut['sign']>, answer: PageAnswer): boolean {
  const values = placesOf(answer).map((place) => valueAtKey(place, key, memberInAnySpelling) ?? null);
  const nothing: readonly JsonValue[] = [null, false, 0, ''];
  return values.some((value) => (is === undefined ? !nothing.includes(value) : value === is));
}

/** The key by which an answer says that more follows, against a definition by which it has everything; null: none. */
export function readSignOfMore(answer: PageAnswer): string | null {
  const [found = null] = placesOf(answer).flatMap((place) => signOfMore(place) ?? []);
  return found;
}

/** The next page's token, and the answer's own flag. */
export function readToken(
  { flagKeys, tokenKeys }: { readonly flagKeys: readonly string[]; readonly tokenKeys: readonly TokenKey[] },
  answer: PageAnswer,
): NextPage | UnreadableNext {
  const meta = isJsonObject(answer.result) ? memberOf(answer.result, 'meta') : undefined;
  for (const place of placesOf(answer)) {
    const keys = place === meta ? [...tokenKeys, 'cursor'] : tokenKeys;
    const flag = firstOf(place, flagKeys);
    const token = tokenIn(place, keys);
    if (flag === undefined && token === undefined) continue;
    const hasMore = flagOf(flag);
    if (hasMore === null && flag !== undefined && flag !== null && flag !== '') {
      const advice = 'if it is no flag, take it out of the flagKeys of the pagination';
      return { fault: `expected true or false at ${flagKeys.join(', ')}, got ${kindOf(flag)}; ${advice}` };
    }
    if (typeof token === 'object' && token !== null) return token;
    const numbered = memberOf(place, numberedKey) === true ? { isNumbered: true } : {};
    return { hasMore, token: token ?? null, ...numbered };
  }
  // Without it the walk would take the page for the last one: a silent gap.
  const keys = [...flagKeys, ...tokenKeys.map(keyOfToken)];
  return { fault: `expected one of ${keys.join(', ')} in connector_metadata`, isSilent: true };
}

function firstOf(place: JsonObject, keys: readonly string[]): JsonValue | undefined {
  return keys.map((key) => valueAtKey(place, key, memberInAnySpelling)).find((value) => value !== undefined);
}

function tokenIn(place: JsonObject, keys: readonly TokenKey[]): string | null | undefined | UnreadableNext {
  for (const key of keys) {
    const value = valueAtKey(place, keyOfToken(key), memberInAnySpelling);
    if (value === undefined) continue;
    const token = tokenOf(value);
    if (token === undefined) return { fault: notText(keyOfToken(key), value) };
    return token === null || typeof key === 'string' ? token : paramOf(token, key);
  }
  // The object that would hold it is there: nothing follows.
  return keys.some((key) => isObjectThere(place, keyOfToken(key))) ? null : undefined;
}

function notText(key: string, value: JsonValue): string {
  const advice = isJsonObject(value) ? `: name its member that is the token, such as ${key}.offset` : '';
  return `expected a text, a whole number or null as page token ${key}, got ${kindOf(value)}${advice}`;
}

function isObjectThere(place: JsonObject, key: string): boolean {
  const [first = '', ...rest] = key.split('.');
  return rest.length > 0 && isJsonObject(memberInAnySpelling(place, first));
}

/** The parameter of an address's query; its host and path are not used. */
function paramOf(address: string, { key, param }: Exclude<TokenKey, string>): string | UnreadableNext {
  const base = 'https://localhost';
  const token = URL.canParse(address, base) ? new URL(address, base).searchParams.get(param) : null;
  return token === null || token === ''
    ? { fault: `expected an address with the parameter ${param} at ${key}, got none` }
    : token;
}

function kindOf(value: JsonValue): string {
  if (Array.isArray(value)) return 'an array';
  return isJsonObject(value) ? 'an object' : `a ${typeof value}`;
}
