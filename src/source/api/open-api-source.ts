import { SyncError } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { FileSource, Source } from '../source.ts';
import type { ApiCall } from './api-caller.ts';
import { watchBrokenAnswers, type BrokenAnswers } from './broken-answers.ts';
import { checkDeclared } from './check-declared.ts';
import { openConnectorPresence } from './connector-presence.ts';
import { downloadCall } from './download-call.ts';
import type { ApiClient } from './open-api-client.ts';
import { recordCalls } from './execute-call.ts';
import { resolveConnector, type ConnectorAddress } from './resolve-connector.ts';

/** A `Source` over one connector of a Connector Execution API. Disposing it leaves the client open. */
export interface ApiSource extends Source, FileSource {
  readonly connectorId: ConnectorId;
}

export interface ApiSourceOptions {
  readonly definition: Definition;
  readonly address: ConnectorAddress;
  /** Concurrent calls. */
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  /** Rate and concurrency that other processes keep too; null: this process keeps its own alone. Not disposed here. */
  readonly budget?: SharedBudget | null;
  /** Limit on execute calls, retries included; the next call is refused with BUDGET_SPENT (stop). Null: no limit. */
  readonly maxCalls?: number | null;
  readonly onEvent?: OnRunEvent;
  /** Aborts the search for the connector; calls take their own signals. */
  readonly signal: AbortSignal;
}

/** Resolves the connector. Throws CONNECTOR_UNKNOWN or CONNECTOR_AMBIGUOUS (stop), and what the client throws. */
export async function openApiSource(client: ApiClient, options: ApiSourceOptions): Promise<ApiSource> {
  const { definition, onEvent = () => undefined } = options;
  const connectorId = await resolveConnector(client, definition, options.address, options.signal);
  const budget = client.openBudget(options.concurrency, options.requestsPerSecond, {
    shared: options.budget ?? null,
    maxCalls: options.maxCalls ?? null,
  });
  const calls = recordCalls(definition, connectorId);
  const presence = openConnectorPresence(client, connectorId, definition);
  const brokenByLabel = new Map<string, BrokenAnswers>();
  /** One for all parameters of the same entity and action. */
  const sharing = <T>(call: ApiCall<T>): ApiCall<T> => {
    const { label } = call.facts;
    const brokenAnswers = brokenByLabel.get(label) ?? watchBrokenAnswers();
    brokenByLabel.set(label, brokenAnswers);
    return { ...call, brokenAnswers };
  };

  const refusalOf = async (error: unknown, isSuspect: boolean, signal: AbortSignal): Promise<unknown> =>
    isRefusal(error) ? await presence.judge(error, isSuspect || isAboutConnector(error), signal) : error;

  return {
    connectorId,
    connect: (signal) => presence.connect(signal),
    async list(request, signal) {
      const list = calls.list(request);
      try {
        const page = await client.call(sharing(list), budget, onEvent, signal);
        presence.answered();
        return page;
      } catch (error) {
        // Check every refusal of a root: it would skip a whole entity, and there are few roots.
        throw await refusalOf(error, request.isRoot, signal);
      }
    },
    async get(request, signal) {
      const get = calls.get(request);
      try {
        const record = await client.call(sharing(get), budget, onEvent, signal);
        presence.answered();
        return record;
      } catch (error) {
        // Null means "deleted", which is wrong if the whole connector is gone.
        const standing = await refusalOf(error, false, signal);
        if (standing instanceof SyncError && standing.code === 'NOT_FOUND') return null;
        throw standing;
      }
    },
    async download(request, receive, signal) {
      checkDeclared(definition, request.entity, 'download', request.params);
      try {
        const call = downloadCall(connectorId, definition, request, receive);
        const value = await client.call(call, budget, onEvent, signal);
        presence.answered();
        return value;
      } catch (error) {
        // The file counts as gone only if the connector still exists.
        throw await refusalOf(error, false, signal);
      }
    },
    stats: () => ({ ...budget.stats(), serverTime: client.serverTime() }),
    // Sockets and token belong to the client; a budget holds nothing open.
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function isRefusal(error: unknown): error is SyncError {
  return error instanceof SyncError && (error.code === 'NOT_FOUND' || error.code === 'FORBIDDEN');
}

function isAboutConnector(error: SyncError): boolean {
  return error.context['namesConnector'] === true;
}
