import { systemClock, type Clock } from '../../core/clock.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { Secret } from '../../core/secret.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { OnExchange } from '../../http/seen-exchange.ts';
import type { SignIn } from '../../sign-ins/sign-in.ts';
import { openCallGate } from '../../upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount } from '../../upstream/open-upstream.ts';
import { openMachineSlots } from '../../upstream/slots.ts';
import type { UpstreamFile } from '../../upstream/download-file.ts';
import { UpstreamFailure } from '../../upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../../upstream/upstream-transport.ts';
import { defaultApiLimits, type ApiLimits } from '../api/api-limits.ts';
import { openBrokenAnswers } from '../api/broken-answers.ts';
import { openCallBudget } from '../api/call-budget.ts';
import { callFacts, type CallFacts } from '../api/call-failure.ts';
import { callWithRetries } from '../api/call-with-retries.ts';
import { checkDeclared } from '../api/check-declared.ts';
import { checkedBytes, contentTypeOf, downloadFacts } from '../api/download-call.ts';
import { factsOf, readPaging } from '../api/execute-call.ts';
import { accountOrigin, type ConnectorOrigin } from '../connector-origin.ts';
import { readRecords } from '../page-records.ts';
import { openServerClock } from '../server-clock.ts';
import type { DownloadRequest, FileSource, ReceiveFile, Source, SourceOptions } from '../source.ts';
import { classifyUpstream } from './classify-upstream.ts';

export interface DirectConnector {
  readonly name: string;
  readonly definition: Definition;
  readonly credentials: ReadonlyMap<string, Secret>;
  /** As of `UpstreamOptions`. */
  readonly signIn?: SignIn | null;
  /** As of `SourceOptions`. */
  readonly onExchange?: OnExchange;
}

export interface DirectClientOptions {
  /** As of `UpstreamTransportOptions`. */
  readonly allowHosts: readonly string[];
  readonly clock: Clock;
  /** A longer pause, or queue, is not waited for. */
  readonly maxThrottleWaitMs: number;
}

/** What the direct connectors of a process share: connections, and the limits of each credential. */
export function openDirectClient({ allowHosts, clock, maxThrottleWaitMs }: DirectClientOptions) {
  const transport = openUpstreamTransport({ allowHosts });
  const gate = openCallGate({ clock, maxWaitMs: maxThrottleWaitMs, openShared: openMachineSlots(clock) });
  return {
    /** Asks nothing. Throws `TypeError` for a definition without `upstream`. The caller closes the account. */
    account: ({
      name,
      definition,
      credentials,
      signIn = null,
      onExchange,
    }: DirectConnector): UpstreamAccount =>
      openUpstream({
        ...(onExchange === undefined ? {} : { onExchange }),
        definition,
        signIn,
        connector: name,
        gate,
        transport,
        clock,
        credentials: () =>
          Promise.resolve(
            Object.fromEntries([...credentials].map(([field, secret]) => [field, secret.reveal()])),
          ),
      }),
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]();
      await transport[Symbol.asyncDispose]();
    },
  };
}

/** A `Source` over an account at the third party itself. Disposing it closes the account. */
export interface DirectSource extends Source, FileSource {
  /** The account that the credentials belong to, by one call while the source is open. Rejects as `connect` does. */
  origin(signal: AbortSignal): Promise<ConnectorOrigin>;
  /** What the service calls the account, once `connect` has resolved; null where that is not known. */
  accountName(): string | null;
}

/** The account's own limits hold beside these. */
export interface DirectSourceOptions extends SourceOptions {
  /** Where the credentials go, as `ConnectorOrigin.baseUrl`. */
  readonly address: string;
  /**
   * Rate and concurrency that other processes keep too, once the account is known; null: nothing. Disposed with the
   * source.
   */
  readonly openBudget?: (origin: ConnectorOrigin) => SharedBudget | null;
  readonly limits?: Partial<ApiLimits>;
  readonly clock?: Clock;
}

export function openDirectSource(account: UpstreamAccount, options: DirectSourceOptions): DirectSource {
  const { definition, clock = systemClock, onEvent = () => undefined } = options;
  const limits: ApiLimits = { ...defaultApiLimits, ...options.limits };
  const serverClock = openServerClock();
  const brokenAnswersOf = openBrokenAnswers();
  let shared: SharedBudget | null = null;
  let known: ConnectorOrigin | null = null;
  let accountName: string | null = null;
  const { maxThrottleWaitMs } = limits;
  const budget = openCallBudget({
    concurrency: Math.min(options.concurrency, definition.upstream?.limits.concurrency ?? Infinity),
    requestsPerSecond: options.requestsPerSecond,
    clock,
    maxThrottleWaitMs,
    maxCalls: options.maxCalls ?? null,
    shared: () => shared,
  });
  /** The check is no call for records: it is not counted against `maxCalls`. */
  const checkBudget = openCallBudget({ concurrency: 1, requestsPerSecond: 5, clock, maxThrottleWaitMs });

  const call = async <T>(
    facts: CallFacts,
    ask: () => Promise<T>,
    signal: AbortSignal,
    isLong = false,
  ): Promise<T> =>
    await callWithRetries({
      facts,
      isLong,
      isTrial: options.isTrial ?? false,
      brokenAnswers: isLong ? null : brokenAnswersOf(facts.label),
      send: async () => {
        try {
          return await ask();
        } catch (error) {
          throw error instanceof UpstreamFailure ? classifyUpstream(error, facts) : error;
        }
      },
      // Its text is not shown: an unknown error may hold anything.
      describe: (error) => `an unexpected ${error instanceof Error ? error.name : typeof error}`,
      limits,
      clock,
      budget: facts.purpose === 'execute' ? budget : checkBudget,
      onEvent,
      signal,
    });

  const origin = async (signal: AbortSignal): Promise<ConnectorOrigin> => {
    if (known !== null) return known;
    const facts = callFacts('catalog', 'check the credentials');
    const { identity, name, serverTime } = await call(facts, () => account.check(signal), signal);
    if (serverTime !== null) serverClock.heard(Date.parse(serverTime));
    accountName = name === null || identity === null ? (name ?? identity) : `${name} (${identity})`;
    known = accountOrigin(options.address, identity);
    shared ??= options.openBudget?.(known) ?? null;
    return known;
  };

  return {
    origin,
    accountName: () => accountName,
    connect: async (signal) => void (await origin(signal)),
    async list({ entity, params, isRoot, isLook }, signal) {
      const declared = checkDeclared(definition, entity, 'list', params);
      const facts = factsOf({ definition, entity, action: 'list', params, isRoot, isLook });
      const ask = async () => {
        const page = await account.list({ entity, params }, signal);
        const { metadata, serverTime, bytes, bodyBytes } = page;
        budget.count({ bytes });
        if (serverTime !== null) serverClock.heard(Date.parse(serverTime));
        const records = readRecords(page.records);
        const paging = readPaging({ result: page.records, metadata }, records, declared, facts);
        return { records, ...paging, metadata, serverTime, bytes: bodyBytes };
      };
      return await call(facts, ask, signal);
    },
    async get({ entity, params }, signal) {
      checkDeclared(definition, entity, 'get', params);
      const facts = factsOf({ definition, entity, action: 'get', params, isRoot: false });
      return await call(facts, () => account.get({ entity, params }, signal), signal);
    },
    async download(request, receive, signal) {
      const { entity, params } = request;
      checkDeclared(definition, entity, 'download', params);
      const facts = downloadFacts(definition, entity);
      const ask = async () => {
        const file = await account.download({ entity, params }, signal);
        if (file === null) {
          const text = `${facts.label}: the service has no such file`;
          throw new UpstreamFailure('notFound', text, { reason: 'answer' });
        }
        return await received(file, request, receive, facts, signal);
      };
      return await call(facts, ask, signal, true);
    },
    stats: () => ({
      ...budget.stats(),
      ...(options.statedRate === undefined ? {} : { rate: budget.rate() }),
      serverTime: serverClock.now(),
    }),
    async [Symbol.asyncDispose]() {
      await account.close();
      await shared?.[Symbol.asyncDispose]();
    },
  };
}

async function received<T>(
  file: UpstreamFile,
  { size, maxBytes }: DownloadRequest,
  receive: ReceiveFile<T>,
  facts: CallFacts,
  signal: AbortSignal,
): Promise<T> {
  try {
    const bytes = checkedBytes(file.read(signal), file.size, size, maxBytes, facts);
    const { name, size: announced } = file;
    return await receive(
      { name, contentType: contentTypeOf(file.contentType), size: announced, bytes },
      signal,
    );
  } finally {
    file.close();
  }
}
