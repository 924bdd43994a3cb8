import type { JsonValue } from '../../core/json.ts';
import type { ConnectorId, EntityName } from '../../core/names.ts';
import type { Params } from '../../core/records.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { ApiCall } from './api-caller.ts';
import type { CallFacts } from './call-failure.ts';
import { readEnvelope, type Envelope } from './read-envelope.ts';
import { stringifyParams } from './stringify-params.ts';

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
