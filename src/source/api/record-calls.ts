import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { GetRequest, ListRequest, SourcePage } from '../source.ts';
import type { ApiCall } from './api-caller.ts';
import { checkDeclared } from './check-declared.ts';
import { invalidBody } from './classify-failure.ts';
import { executeCall, readPage } from './execute-call.ts';

/** The calls that read a connector's records, however they travel. Throw USAGE for what the definition does not declare. */
export function recordCalls(
  definition: Definition,
  connector: ConnectorId,
): {
  readonly list: (request: ListRequest) => ApiCall<SourcePage>;
  readonly get: (request: GetRequest) => ApiCall<JsonValue>;
} {
  return {
    list: ({ entity, params, isRoot }) => {
      const { pagination } = checkDeclared(definition, entity, 'list', params);
      return executeCall({ connector, definition, entity, action: 'list', params, isRoot }, (answer, facts) =>
        readPage(answer, pagination, facts),
      );
    },
    get: ({ entity, params }) => {
      checkDeclared(definition, entity, 'get', params);
      const request = { connector, definition, entity, action: 'get', params, isRoot: false } as const;
      return executeCall(request, ({ envelope }, facts): JsonValue => {
        if (isJsonObject(envelope.result)) return envelope.result;
        throw invalidBody(facts, 'expected an object as result, got another kind');
      });
    },
  };
}
