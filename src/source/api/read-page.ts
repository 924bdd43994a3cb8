import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Pagination } from '../../definitions/definition.ts';
import type { NextPage } from '../source.ts';
import type { CallFacts } from './call-failure.ts';
import { invalidBody } from './classify-failure.ts';
import type { Envelope } from './execute-call.ts';

export interface Page {
  readonly records: readonly JsonValue[];
  readonly next: NextPage | null;
}

type PageTokenPaging = Extract<Pagination, { kind: 'pageToken' }>;

/**
 * The records of a `list` and what it says about the next page. The result is the array itself, or `{data, meta}`, or
 * `{hits: [{data}], next_cursor}`: shapes this API has had without a new version. Throws `CallFailure` BODY_INVALID.
 */
export function readPage(envelope: Envelope, pagination: Pagination, facts: CallFacts): Page {
  const { result, metadata } = envelope;
  const records = readRecords(result);
  if (records === null) throw invalidBody(facts, 'expected an array as result, got another kind');
  return {
    records,
    next: pagination.kind === 'pageToken' ? readNext(metadata, result, pagination, facts) : null,
  };
}

/** The records of a result in any of its shapes; null for another kind. */
export function readRecords(result: JsonValue): readonly JsonValue[] | null {
  if (isArray(result)) return result;
  if (!isJsonObject(result)) return null;
  const data = member(result, 'data');
  if (isArray(data)) return data;
  const hits = member(result, 'hits');
  if (!isArray(hits)) return null;
  const records: JsonValue[] = [];
  for (const hit of hits) {
    const record = isJsonObject(hit) ? member(hit, 'data') : undefined;
    if (record === undefined) return null;
    records.push(record);
  }
  return records;
}

function readNext(
  metadata: JsonValue,
  result: JsonValue,
  pagination: PageTokenPaging,
  facts: CallFacts,
): NextPage {
  const { flagKeys, tokenKeys } = pagination;
  const places = [{ place: metadata, tokens: tokenKeys }];
  if (isJsonObject(result)) {
    const meta = member(result, 'meta') ?? null;
    places.push({ place: meta, tokens: [...tokenKeys, 'cursor'] }, { place: result, tokens: tokenKeys });
  }
  for (const { place, tokens } of places) {
    if (!isJsonObject(place)) continue;
    const flag = firstMember(place, flagKeys);
    const token = firstMember(place, tokens);
    if (flag === undefined && token === undefined) continue;
    if (flag !== undefined && flag !== null && typeof flag !== 'boolean') {
      throw invalidBody(facts, 'expected true or false as the flag for more pages, got another kind');
    }
    if (token !== undefined && token !== null && typeof token !== 'string') {
      throw invalidBody(facts, 'expected text or null as page token, got another kind');
    }
    return { hasMore: flag ?? null, token: token === undefined || token === '' ? null : token };
  }
  // Without it the walk would take the page for the last one: a silent gap.
  throw invalidBody(facts, `expected one of ${[...flagKeys, ...tokenKeys].join(', ')} in connector_metadata`);
}

/** The first key that is there, in either spelling (`has_more`, `hasMore`). */
function firstMember(object: JsonObject, keys: readonly string[]): JsonValue | undefined {
  for (const key of keys) {
    for (const spelling of [key, toCamelCase(key), toSnakeCase(key)]) {
      const value = member(object, spelling);
      if (value !== undefined) return value;
    }
  }
  return undefined;
}

function member(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function toCamelCase(key: string): string {
  return key.replace(/_([a-z0-9])/g, (_found, letter: string) => letter.toUpperCase());
}

function toSnakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function isArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}
