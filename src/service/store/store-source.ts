import type { Clock } from '../../core/clock.ts';
import type { OnRunEvent } from '../../core/events.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import { openApiCaller } from '../../source/api/api-caller.ts';
import { defaultApiLimits } from '../../source/api/api-limits.ts';
import { openCallBudget } from '../../source/api/call-budget.ts';
import type { HttpTransport } from '../../source/api/http-transport.ts';
import { recordCalls } from '../../source/api/execute-call.ts';
import { redactMessage } from '../../source/api/redact-message.ts';
import type { Source } from '../../source/source.ts';

interface StoreSourceOptions {
  readonly definition: Definition;
  readonly connectorId: ConnectorId;
  /** Hands calls to the service that this process belongs to. */
  readonly transport: HttpTransport;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
}

/** The third party keeps its own pace, for this process as for everybody else who asks the service. */
const requestsPerSecond = 10_000;

/**
 * What a store's sync reads from: the connector's provider, which lives in the service's own process. The same calls as over
 * HTTP, so failures are classified and tried again by the same table.
 */
export function openStoreSource(options: StoreSourceOptions): Source {
  const { definition, connectorId, transport, clock, onEvent } = options;
  const limits = defaultApiLimits;
  const budget = openCallBudget({
    concurrency: 2 * definition.rateLimit.concurrency,
    requestsPerSecond,
    clock,
    maxThrottleWaitMs: limits.maxThrottleWaitMs,
  });
  const redact = (text: string): string => redactMessage(text, []);
  const call = openApiCaller({ transport, tokens: null, headers: {}, clock, limits, redact });
  const calls = recordCalls(definition, connectorId);

  return {
    // There is nothing to check: a provider that rejects the credentials rejects the first call.
    connect: () => Promise.resolve(),
    list: async (request, signal) => await call(calls.list(request), budget, onEvent, signal),
    get: async (request, signal) => {
      const get = calls.get(request);
      try {
        return await call(get, budget, onEvent, signal);
      } catch (error) {
        if (error instanceof SyncError && error.code === 'NOT_FOUND') return null;
        throw error;
      }
    },
    stats: () => ({ ...budget.stats(), serverTime: null }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
