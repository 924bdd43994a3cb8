import type { JsonObject } from '../../core/json.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import { copiedFields } from '../../engine/prepare/column-value.ts';
import { notFound } from '../api-error.ts';
import type { Provider, ProviderFile } from '../provider.ts';
import type { ContextStores } from '../store/context-stores.ts';
import { checkParams } from './check-params.ts';
import type { ExecuteBody } from './execute-body.ts';
import { findAction } from './find-action.ts';
import { fieldsOf, shapeResult, type ResultShape } from './shape-result.ts';

interface ExecuteCall {
  readonly connectorId: string;
  readonly definition: Definition;
  readonly provider: Provider;
  readonly stores: Pick<ContextStores, 'search'>;
  readonly body: ExecuteBody;
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal;
}

/** `file`: the body is its bytes and nothing else. */
export type ExecuteAnswer =
  | {
      readonly kind: 'envelope';
      readonly result: JsonObject | readonly JsonObject[];
      readonly connectorMetadata: JsonObject | null;
    }
  | { readonly kind: 'file'; readonly file: ProviderFile };

/**
 * Runs one action of one entity: `list`, `get` and `download` at the third party, searches in the indexed store. Throws
 * `ApiError`: 400 for what the definition does not offer or a value it does not take, 404 for a record that is not there,
 * and what the provider or the store throws.
 */
export async function executeAction(call: ExecuteCall): Promise<ExecuteAnswer> {
  const { body, provider, signal } = call;
  const { entity, action, actionName } = findAction(call.definition, body.entity, body.action);
  const params = checkParams(entity, actionName, action, body.params ?? {});
  const shape = shapeOf(body, actionName !== 'get');
  switch (actionName) {
    case 'list': {
      const { records, metadata } = await provider.list({ entity, params, signal });
      const whole = records.map((record) => withCopies(record, entity));
      return envelope(shapeAll(whole, shape), metadata);
    }
    case 'get': {
      const record = await provider.get({ entity, params, signal });
      if (record === null) throw notFound(`There is no such record in '${entity.name}'.`);
      return envelope(shapeResult(withCopies(record, entity), shape));
    }
    case 'context_store_search': {
      const { data, meta } = await call.stores.search(call.connectorId, entity.name, params, signal);
      return envelope({ data: shapeAll(data, shape), meta: { ...meta } });
    }
    case 'download':
      return { kind: 'file', file: (await provider.download({ entity, params, signal })) ?? noFile };
  }
}

/** With the fields that the definition fills from what the third party sends, which stays beside them. */
function withCopies(record: JsonObject, { filledFrom }: Entity): JsonObject {
  return filledFrom.size === 0
    ? record
    : { ...record, ...Object.fromEntries(copiedFields(record, filledFrom)) };
}

function envelope(
  result: JsonObject | readonly JsonObject[],
  connectorMetadata: JsonObject | null = null,
): ExecuteAnswer {
  return { kind: 'envelope', result, connectorMetadata };
}

/** `get` is the way to a whole value, so it is never cut. */
function shapeOf(body: ExecuteBody, isCuttable: boolean): ResultShape {
  return {
    select: fieldsOf(body.select_fields ?? []),
    exclude: fieldsOf(body.exclude_fields ?? []),
    isTruncated: isCuttable && body.skip_truncation === false,
  };
}

function shapeAll(records: readonly JsonObject[], shape: ResultShape): readonly JsonObject[] {
  return records.map((record) => shapeResult(record, shape));
}

/** The hosted service answers an unknown file's id with success and no bytes: clients are told to look at the size. */
const noFile: ProviderFile = {
  name: 'download',
  contentType: 'application/octet-stream',
  size: 0,
  async *read() {
    // Nothing to give.
  },
};
