import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { Entity } from '../../definitions/definition.ts';
import { invalidBody } from './classify-failure.ts';
import { executeCall, plainForm, recordsOf, type ExecuteRequest } from './execute-call.ts';

/**
 * `context_store_search`, whose result has had three shapes without a new version: the array itself, `{data, meta}`,
 * and `{hits: [{data}], next_cursor, took_ms}`.
 */
export function searchCall({
  entity,
  ...asked
}: Pick<ExecuteRequest, 'connector' | 'definition' | 'params'> & { readonly entity: Entity }) {
  const request = {
    ...asked,
    entity: entity.name,
    action: 'context_store_search',
    isRoot: false,
  } as const;
  return executeCall(request, ({ result }, facts) => {
    const records = recordsOf(result) ?? (plainForm(result) === 'null' ? [] : null);
    if (records === null) throw invalidBody(facts, 'expected records as result, got another kind');
    const { meta, ...rest } = isJsonObject(result) ? result : { meta: null };
    const about = isJsonObject(meta) ? meta : rest;
    const cursor = textOf(about['cursor'] ?? about['next_cursor']);
    const tookMs = about['took_ms'];
    return {
      records,
      // Where only a cursor is given, it says that there is more.
      hasMore: cursor !== null && about['has_more'] !== false,
      /** For the next page; null: there is none, or the service does not say. */
      cursor,
      /** Milliseconds; null where the service does not say. */
      tookMs: typeof tookMs === 'number' ? tookMs : null,
    };
  });
}

function textOf(value: JsonValue | undefined): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}
