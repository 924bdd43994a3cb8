import { expect, onTestFinished } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { RunEvent } from '../../../src/core/events.ts';
import type { SharedBudget } from '../../../src/core/shared-budget.ts';
import { isConnectorId, type ConnectorId } from '../../../src/core/names.ts';
import { Secret } from '../../../src/core/secret.ts';
import type { Clock } from '../../../src/core/clock.ts';
import type { Definition } from '../../../src/definitions/definition.ts';
import type { OnExchange } from '../../../src/http/exchange.ts';
import type { ApiLimits } from '../../../src/source/api/api-limits.ts';
import { openApiClient, type ApiClient } from '../../../src/source/api/open-api-client.ts';
import { openApiSource } from '../../../src/source/api/open-api-source.ts';
import type { StatedRate } from '../../../src/source/source.ts';
import { startHostileServer, type HostileServerOptions } from '../hostile-server.ts';
import { instantClock } from '../instant-clock.ts';
import { testDefinition } from './test-definition.ts';

export const clientSecret = 'planted-client-secret-7f3a';
export const never = new AbortController().signal;

export function connectorId(text: string): ConnectorId {
  if (!isConnectorId(text)) throw new Error(`no connector id: ${text}`);
  return text;
}

export type TestSource = Awaited<ReturnType<typeof openTestSource>>;

export interface TestSourceOptions extends HostileServerOptions {
  readonly definition?: Definition;
  readonly clock?: Clock;
  readonly limits?: Partial<ApiLimits>;
  readonly concurrency?: number;
  readonly requestsPerSecond?: number;
  readonly budget?: SharedBudget;
  readonly maxCalls?: number;
  readonly onExchange?: OnExchange;
  readonly scopedToWorkspace?: string;
  readonly statedRate?: StatedRate;
}

/**
 * A source on a hostile server, closed when the test has ended; with waits that take no time unless the test brings a
 * clock of its own.
 */
export async function openTestSource(options: TestSourceOptions = {}) {
  const definition = options.definition ?? testDefinition();
  const server = await startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: definition.id }],
    ...options,
  });
  const events: RunEvent[] = [];
  const onEvent = (event: RunEvent): void => {
    events.push(event);
  };
  const client = openTestClient(server.baseUrl, { ...options, onEvent });
  const source = openApiSource(client, {
    definition,
    connectorId: connectorId('c1'),
    address: 'https://api.example.com',
    concurrency: options.concurrency ?? 32,
    requestsPerSecond: options.requestsPerSecond ?? 100_000,
    ...(options.statedRate === undefined ? {} : { statedRate: options.statedRate }),
    budget: options.budget ?? null,
    maxCalls: options.maxCalls ?? null,
    ...(options.onExchange === undefined ? {} : { onExchange: options.onExchange }),
    onEvent,
  });
  onTestFinished(async () => {
    await source[Symbol.asyncDispose]();
    await client[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });
  return { server, client, source, events: events as readonly RunEvent[] };
}

export function openTestClient(
  baseUrl: string,
  options: {
    clock?: Clock;
    limits?: Partial<ApiLimits>;
    onEvent?: (event: RunEvent) => void;
    organizationId?: string;
    scopedToWorkspace?: string;
    /** How long look-ups of connectors are kept; without it each one asks. */
    cacheForMs?: number;
  } = {},
): ApiClient {
  return openApiClient({
    api: {
      baseUrl,
      clientId: 'client-1',
      clientSecret: new Secret(clientSecret),
      organizationId: options.organizationId ?? null,
      scopedToWorkspace: options.scopedToWorkspace ?? null,
    },
    clock: options.clock ?? instantClock(),
    limits: { lookUpCacheMs: options.cacheForMs ?? 0, ...options.limits },
    ...(options.onEvent === undefined ? {} : { onEvent: options.onEvent }),
  });
}

/** The `SyncError` a call ends with; fails the test for any other outcome. */
export async function failureOf(call: Promise<unknown>): Promise<SyncError> {
  const outcome = await call.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if (!('error' in outcome)) expect.fail(`expected a failure, got ${JSON.stringify(outcome.value)}`);
  expect(outcome.error).toBeInstanceOf(SyncError);
  // `as`: the line above has just checked it.
  return outcome.error as SyncError;
}
