import * as z from 'zod';
import { firstCharacters, hasAtMostCharacters } from '../../core/characters.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { Definition, Entity } from '../../definitions/definition.ts';
import { copiedFields } from '../../engine/prepare/column-value.ts';
import { ApiError, notFound } from '../api-error.ts';
import { askProvider, type ProviderFile, type ProviderRequest } from '../provider.ts';
import { textUpTo } from '../routes/endpoint.ts';
import type { ContextStores, KeptConnector } from '../store/context-stores.ts';
import { checkParams, pythonList } from './check-params.ts';
import { fieldsOf, type ResultShape, shapeResult } from './shape-result.ts';

/**
 * More than any record has fields; without it a body full of invalid paths gets an error for each, one by one, before
 * it is refused.
 */
const fieldPaths = z.array(z.string()).max(100_000).nullish();

/** The body of an execute call. What `params` may hold is the definition's business: see `checkParams`. */
export const executeBody = z.object({
  entity: z.string(),
  action: z
    .string()
    .describe('list, get, context_store_search (or search), download: as the entity offers them.'),
  params: z
    .record(z.string(), z.unknown())
    .nullish()
    .describe("The action's parameters; null or absent where there are none."),
  select_fields: fieldPaths.describe('Dot paths of what is kept of a record; wins over exclude_fields.'),
  exclude_fields: fieldPaths.describe('Dot paths of what is left out of a record.'),
  skip_truncation: z
    .boolean()
    .nullish()
    .describe('false: texts of a list or a search that are longer than 200 characters are cut.'),
  intent: textUpTo(512).nullish().describe('Accepted and not used.'),
});

export type ExecuteBody = z.output<typeof executeBody>;

interface ExecuteCall extends KeptConnector {
  readonly stores: Pick<ContextStores, 'search'>;
  readonly body: ExecuteBody;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

/** `file`: the body is its bytes and nothing else. */
export type ExecuteAnswer =
  | {
      readonly kind: 'envelope';
      readonly result: JsonObject | readonly JsonValue[];
      readonly connectorMetadata: JsonObject | null;
    }
  | { readonly kind: 'file'; readonly file: ProviderFile };

/**
 * Runs one action of one entity: `list`, `get` and `download` at the third party, searches in the indexed store. Throws
 * `ApiError`: 400 for what the definition does not offer or a value it does not take, 404 for a record that is not
 * there, 504 where the third party takes too long, and what the provider or the store throws.
 */
export async function executeAction(call: ExecuteCall): Promise<ExecuteAnswer> {
  const { body, provider, signal } = call;
  const { entity, action, actionName } = findAction(call.definition, body.entity, body.action);
  const params = checkParams(entity, actionName, action, body.params ?? {});
  const shape = shapeOf(body, actionName !== 'get');
  const ask = <Answer>(call: (request: ProviderRequest) => Promise<Answer>): Promise<Answer> =>
    askProvider(signal, (own) => call({ entity, params, signal: own }));
  switch (actionName) {
    case 'list': {
      const { records, metadata } = await ask((request) => provider.list(request));
      // What is no object is handed on as it came: it has no fields to select.
      const shaped = records.map((record) =>
        isJsonObject(record) ? shapeResult(withCopies(record, entity), shape) : record,
      );
      return envelope(shaped, metadata);
    }
    case 'get': {
      const record = await ask((request) => provider.get(request));
      if (record === null) throw notFound(`There is no such record in '${entity.name}'.`);
      return envelope(shapeResult(withCopies(record, entity), shape));
    }
    case 'context_store_search': {
      const { data, meta } = await call.stores.search(call.connectorId, entity.name, params, signal);
      return envelope({ data: data.map((record) => shapeResult(record, shape)), meta: { ...meta } });
    }
    case 'download':
      return { kind: 'file', file: (await ask((request) => provider.download(request))) ?? noFile };
  }
}

/** With the fields that the definition fills from what the third party sends, which stays beside them. */
function withCopies(record: JsonObject, { filledFrom }: Entity): JsonObject {
  return filledFrom.size === 0
    ? record
    : { ...record, ...Object.fromEntries(copiedFields(record, filledFrom)) };
}

function envelope(
  result: JsonObject | readonly JsonValue[],
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

/**
 * The hosted service answers an unknown file's id with success and no bytes: its documentation tells clients to check
 * the size.
 */
const noFile: ProviderFile = {
  name: 'download',
  contentType: 'application/octet-stream',
  size: 0,
  async *read() {
    // Nothing to give.
  },
};

/** Looks up what an execute call names; 400 in the hosted executor's words when the definition does not have it. */
function findAction(definition: Definition, entityName: string, wantedAction: string) {
  const entity = [...definition.entities.values()].find(({ name }) => name === entityName);
  if (entity === undefined) {
    throw new ApiError(
      400,
      `Entity '${shortened(entityName)}' not found in connector. Available entities: ${pythonList([...definition.entities.keys()])}`,
      { field: 'body.entity', errorCode: 'unknown_entity' },
    );
  }
  // The documentation's prose still says `search`.
  const name = wantedAction === 'search' ? 'context_store_search' : wantedAction;
  for (const [actionName, action] of entity.actions) {
    if (actionName === name) return { entity, action, actionName };
  }
  throw new ApiError(
    400,
    `Action '${shortened(wantedAction)}' not supported for entity '${entity.name}'. ` +
      `Supported actions: ${pythonList([...entity.actions.keys()])}`,
    { field: 'body.action', errorCode: 'unsupported_action' },
  );
}

/** Enough to recognise it: a name may be as long as a body. */
function shortened(name: string): string {
  return hasAtMostCharacters(name, 60) ? name : `${firstCharacters(name, 60)}…`;
}
