import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import type { ApiCall } from './api-caller.ts';
import { invalidBody } from './classify-failure.ts';
import { executeCall, readRecords } from './execute-call.ts';

interface StoreSearch {
  readonly connector: ConnectorId;
  readonly definition: Definition;
  readonly entity: Entity;
  /** query, limit, cursor, fields. */
  readonly params: JsonObject;
}

/** One page of what the API's indexed store found. */
interface StoreAnswer {
  readonly records: readonly JsonValue[];
  readonly hasMore: boolean;
  /** For the next page; null: there is none, or the service does not say. */
  readonly cursor: string | null;
  /** Milliseconds; null where the service does not say. */
  readonly tookMs: number | null;
}

/**
 * `context_store_search`, whose result has had three shapes without a new version: the array itself, `{data, meta}`,
 * and `{hits: [{data}], next_cursor, took_ms}`.
 */
export function searchCall({ connector, definition, entity, params }: StoreSearch): ApiCall<StoreAnswer> {
  const request = {
    connector,
    definition,
    entity: entity.name,
    action: 'context_store_search',
    params,
    isRoot: false,
  } as const;
  return executeCall(request, ({ envelope: { result } }, facts) => {
    const records = readRecords(result);
    if (records === null) throw invalidBody(facts, 'expected records as result, got another kind');
    const { meta, ...rest } = isJsonObject(result) ? result : { meta: null };
    const about = isJsonObject(meta) ? meta : rest;
    const cursor = textOf(about['cursor'] ?? about['next_cursor']);
    const tookMs = about['took_ms'];
    return {
      records,
      // Where only a cursor is given, it says that there is more.
      hasMore: cursor !== null && about['has_more'] !== false,
      cursor,
      tookMs: typeof tookMs === 'number' ? tookMs : null,
    };
  });
}

function textOf(value: JsonValue | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
