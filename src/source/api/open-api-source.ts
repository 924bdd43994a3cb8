import { hasCode, SyncError, ThrottledError } from '../../core/errors.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { FileSource, Source, SourceOptions } from '../source.ts';
import type { ApiCall, StreamCall } from './api-caller.ts';
import { openBrokenAnswers } from './broken-answers.ts';
import { stopError } from './call-failure.ts';
import { checkDeclared } from './check-declared.ts';
import { downloadCall } from './download-call.ts';
import { recordCalls } from './execute-call.ts';
import { unknownId, type ApiClient } from './open-api-client.ts';
import { otherTypeError } from './resolve-connector.ts';

/** A `Source` over one connector of a Connector Execution API. Disposing it leaves the client open. */
export interface ApiSource extends Source, FileSource {
  /** The account at the third party, once `connect` has resolved; null where the API does not tell. */
  readonly account: () => string | null;
}

export interface ApiSourceOptions extends SourceOptions {
  readonly connectorId: ConnectorId;
  /** Rate and concurrency that other processes keep too; null: this process keeps its own alone. Not disposed here. */
  readonly budget?: SharedBudget | null;
}

/** Asks nothing. */
export function openApiSource(client: ApiClient, options: ApiSourceOptions): ApiSource {
  const { definition, connectorId, onEvent = () => undefined, onExchange, isTrial = false } = options;
  const budget = client.openBudget({ ...options, shared: () => options.budget ?? null });
  const calls = recordCalls(definition, connectorId);
  const presence = openConnectorPresence(client, connectorId, definition);
  const brokenAnswersOf = openBrokenAnswers();
  const sharing = <T>(call: ApiCall<T>): ApiCall<T> => ({
    ...call,
    brokenAnswers: brokenAnswersOf(call.facts.label),
    isTrial,
    ...(onExchange === undefined ? {} : { onExchange }),
  });

  const send = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    isRoot: boolean,
    signal: AbortSignal,
  ): Promise<T> => {
    try {
      const value = await client.call(call, budget, onEvent, signal);
      presence.answered();
      return value;
    } catch (error) {
      // Check every refusal of a root: it would skip a whole entity, and there are few roots.
      throw isRefusal(error)
        ? await presence.judge(error, isRoot || error.context['namesConnector'] === true, signal)
        : error;
    }
  };

  return {
    account: presence.account,
    connect: (signal) => presence.connect(signal),
    list: async (request, signal) => await send(sharing(calls.list(request)), request.isRoot, signal),
    async get(request, signal) {
      try {
        return await send(sharing(calls.get(request)), false, signal);
      } catch (error) {
        // Null means "deleted", which is wrong if the whole connector is deleted: that is another error by now.
        if (hasCode(error, 'NOT_FOUND')) return null;
        throw error;
      }
    },
    async download(request, receive, signal) {
      checkDeclared(definition, request.entity, 'download', request.params);
      return await send(downloadCall(connectorId, definition, request, receive), false, signal);
    },
    stats: () => ({
      ...budget.stats(),
      ...(options.statedRate === undefined ? {} : { rate: budget.rate() }),
      serverTime: client.serverTime(),
    }),
    // Sockets and token belong to the client; a budget holds nothing open.
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function isRefusal(error: unknown): error is SyncError {
  return hasCode(error, 'NOT_FOUND') || hasCode(error, 'FORBIDDEN');
}

const freshMs = 60_000;

/**
 * Tells "this entity is refused" from "there is no such connector".
 *
 * `GET connectors/{id}` is not part of the published specification: a 404 or 405 there that does not speak of a
 * connector may mean that the service has no such endpoint. Then only a refusal of the first execute that is 404 too
 * makes the connector unknown.
 */
function openConnectorPresence(client: ApiClient, id: ConnectorId, definition: Definition) {
  const { clock } = client;
  let hasDetail = false;
  let account: string | null = null;
  let answeredAt: number | null = null;

  const probe = async (signal: AbortSignal, isFresh: boolean): Promise<SyncError | null> => {
    try {
      const found = await client.connector(id, signal, { isFresh });
      const { definitionId } = found;
      account = found.account;
      hasDetail = true;
      answeredAt = clock.now();
      if (definitionId === null || definitionId.toLowerCase() === definition.id.toLowerCase()) return null;
      return otherTypeError(id, definitionId, `but ${definition.name} is ${definition.id}`);
    } catch (error) {
      if (error instanceof SyncError) return error;
      throw error;
    }
  };

  const mayLackEndpoint = (error: SyncError): boolean =>
    !hasDetail && error.context['namesConnector'] !== true && isAbsent(error);

  return {
    account: () => account,
    /**
     * Checks the connector and the credentials, by an answer of a while ago where there is one. Throws with recovery
     * `stop` (a long throttle: `ThrottledError`).
     */
    async connect(signal: AbortSignal): Promise<void> {
      const error = await probe(signal, false);
      if (error === null || mayLackEndpoint(error)) return;
      const isStopping = error.recovery === 'stop' || error instanceof ThrottledError;
      throw isStopping ? error : stopError(error.code, error.message, error);
    },
    /** An execute was answered with success: the connector is there. */
    answered(): void {
      answeredAt = clock.now();
    },
    /**
     * Judges a refusal (403, 404, 410). Returns the error that stands: `refusal` itself while the connector is there,
     * else CONNECTOR_UNKNOWN (stop). An answer of the last minute counts as there, unless `isSuspect`.
     */
    async judge(refusal: SyncError, isSuspect: boolean, signal: AbortSignal): Promise<SyncError> {
      const isFresh = answeredAt !== null && clock.now() - answeredAt < freshMs;
      if (isFresh && !isSuspect) return refusal;
      const error = await probe(signal, true);
      if (error === null) return refusal;
      if (mayLackEndpoint(error)) {
        const isThere = answeredAt !== null || refusal.code !== 'NOT_FOUND';
        return isThere ? refusal : stopError('CONNECTOR_UNKNOWN', unknownId(id), refusal);
      }
      // Only what the probe says about the connector or the account outweighs the refusal.
      return error.recovery === 'stop' ? error : refusal;
    },
  };
}

function isAbsent(error: SyncError): boolean {
  const status = error.context['status'];
  return status === 404 || status === 405;
}
