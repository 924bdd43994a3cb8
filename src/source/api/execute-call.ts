import * as z from 'zod';
import { SyncError } from '../../core/errors.ts';
import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { ConnectorId, EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { ApiCall } from './api-caller.ts';
import type { CallFacts } from './call-failure.ts';
import { invalidBody } from './classify-failure.ts';
import { JsonTextError, parseJsonText, stringifyParams } from './json-text.ts';

/** One execute: a read, so it may be sent again. */
export interface ExecuteRequest {
  readonly connector: ConnectorId;
  readonly definition: Definition;
  readonly entity: EntityName;
  readonly action: 'list' | 'get' | 'context_store_search';
  readonly params: Params;
  readonly isRoot: boolean;
}

export interface ExecuteAnswer {
  readonly envelope: Envelope;
  /** The `Date` header as it came. */
  readonly date: string | null;
  /** Of the body after decompression, in UTF-16 code units: what the page weighs in memory. */
  readonly bytes: number;
}

/** `POST connectors/{id}/execute`; `read` gets the answer of a success and throws when its result does not fit. */
export function executeCall<T>(
  request: ExecuteRequest,
  read: (answer: ExecuteAnswer, facts: CallFacts) => T,
): ApiCall<T> {
  const { connector, entity, action, params } = request;
  const facts = factsOf(request);
  return {
    request: {
      method: 'POST',
      path: `/api/v1/integrations/connectors/${connector}/execute`,
      query: {},
      // Without skip_truncation the service may cut every string of a list to 200 characters.
      body: stringifyParams({ entity, action, params, skip_truncation: true } satisfies JsonValue),
    },
    facts,
    read: (answer) =>
      read(
        {
          envelope: readEnvelope(answer.text, connector, facts),
          date: answer.date,
          bytes: answer.text.length,
        },
        facts,
      ),
  };
}

function factsOf({ definition, entity, action, params, isRoot }: ExecuteRequest): CallFacts {
  const pagination = definition.entities.get(entity)?.pagination;
  const isPaged = action === 'list' && pagination !== undefined && pagination.kind !== 'single';
  return {
    purpose: 'execute',
    label: `${action} ${entity}`,
    entity,
    isRoot,
    canShrink: isPaged && pagination.sizeParam !== null,
    hasPageToken: isPaged && pagination.kind === 'pageToken' && Object.hasOwn(params, pagination.tokenParam),
    patterns: definition.errors,
  };
}

export interface Envelope {
  readonly result: JsonValue;
  /** Null where the service sends none (`get`, and connectors that page by offset). */
  readonly metadata: JsonValue;
}

const envelopeShape = z.object({
  status: z.string(),
  // Records stay unread here: `unknown` hands them on as they are, however deep.
  result: z.unknown().optional(),
  connector_metadata: z.unknown().optional(),
  execution_metadata: z.looseObject({ connector_instance_id: z.string().nullish() }).nullish(),
});

const markers = ['[truncated — use', String.raw`[truncated \u2014 use`];

/**
 * The execute envelope. Throws `CallFailure` BODY_INVALID for a body that is not the envelope of a success of this
 * connector, and `SyncError` TRUNCATED_VALUE when a value was shortened by the service.
 */
function readEnvelope(text: string, connector: ConnectorId, facts: CallFacts): Envelope {
  const json = parseOrFail(text, facts);
  const parsed = envelopeShape.safeParse(json);
  if (!parsed.success) {
    const path = parsed.error.issues[0]?.path.join('.') ?? '';
    throw invalidBody(facts, `expected the execute envelope${path === '' ? '' : `, got another ${path}`}`);
  }
  if (parsed.data.status !== 'success') {
    throw invalidBody(facts, 'expected status "success", got another one with HTTP 200');
  }
  const instance = parsed.data.execution_metadata?.connector_instance_id ?? null;
  if (instance !== null && instance !== connector && !instance.endsWith(`:${connector}`)) {
    throw invalidBody(
      facts,
      'expected an answer of the connector that was asked, got one of another connector',
    );
  }
  // `as`: both came out of the JSON reader; absent is null.
  const result = (parsed.data.result ?? null) as JsonValue;
  const metadata = (parsed.data.connector_metadata ?? null) as JsonValue;
  if (markers.some((marker) => text.includes(marker)) && holdsMarker(result)) throw truncated(facts);
  return { result, metadata };
}

function parseOrFail(text: string, facts: CallFacts): JsonValue {
  try {
    return parseJsonText(text);
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    // Two records may only be too much together: the smaller page separates them.
    const recovery = error.isTooDeep ? (facts.canShrink ? 'smaller-page' : 'skip-partition') : 'retry';
    throw invalidBody(facts, `expected a JSON envelope, got ${error.message}`, recovery);
  }
}

/** Not recursive: a hostile value is deeper than the stack. */
function holdsMarker(root: JsonValue): boolean {
  const open: JsonValue[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value === 'string') {
      if (value.includes(markers[0] ?? '')) return true;
    } else if (Array.isArray(value)) {
      for (const element of value as readonly JsonValue[]) open.push(element);
    } else if (isJsonObject(value)) {
      for (const member of Object.values(value)) open.push(member);
    }
  }
  return false;
}

function truncated(facts: CallFacts): SyncError {
  return new SyncError(
    `${facts.label}: expected whole values, got one the service had shortened; nothing of the page is stored`,
    { code: 'TRUNCATED_VALUE', recovery: facts.isRoot ? 'skip-entity' : 'skip-partition' },
  );
}
