import { systemClock, type Clock } from '../../core/clock.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { Secret } from '../../core/secret.ts';
import { openMachineSlots, openCallGate } from '../../upstream/call-gate.ts';
import { openUpstream, type UpstreamAccount, type UpstreamFile } from '../../upstream/open-upstream.ts';
import type { UpstreamOptions } from '../../upstream/account-session.ts';
import { UpstreamFailure, type FailureReason } from '../../upstream/upstream-failure.ts';
import { openUpstreamTransport } from '../../upstream/upstream-transport.ts';
import { defaultApiLimits, type ApiLimits } from '../api/api-limits.ts';
import { openBrokenAnswers, openCallBudget, callWithRetries } from '../api/call-with-retries.ts';
import {
  callFacts,
  type CallFacts,
  entityFacts,
  failuresOf,
  shownWords,
  withAdvice,
  type CallFailure,
} from '../api/call-failure.ts';
import {
  checkDeclared,
  checkedBytes,
  contentTypeOf,
  factsOf,
  readPaging,
  receiveWhole,
} from '../api/open-api-source.ts';
import * as sources from '../source.ts';
import { openServerClock } from '../api/open-api-client.ts';

interface DirectConnector extends Pick<UpstreamOptions, 'definition' | 'signIn' | 'onExchange'> {
  readonly name: string;
  readonly credentials: ReadonlyMap<string, Pick<Secret, 'reveal'>>;
}

export interface DirectClientOptions {
  /** As of `UpstreamTransportOptions`. */
  readonly allowHosts: readonly string[];
  readonly clock: Clock;
  /** A longer pause, or queue, is not waited for. */
  readonly maxThrottleWaitMs: number;
}

/** Connections, and the limits of each credential, that the direct connectors of a process share. */
export function openDirectClient({ allowHosts, clock, maxThrottleWaitMs }: DirectClientOptions) {
  const transport = openUpstreamTransport({ allowHosts });
  const gate = openCallGate({ clock, maxWaitMs: maxThrottleWaitMs, machineSlots: openMachineSlots(clock) });
  return {
    /** Asks nothing. Throws `TypeError` for a definition without `upstream`. The caller closes the account. */
    account: ({ name, credentials, ...how }: DirectConnector): UpstreamAccount =>
      openUpstream({
        ...how,
        connector: name,
        gate,
        transport,
        clock,
        credentials: () =>
          Promise.resolve(
            Object.fromEntries([...credentials].map(([field, secret]) => [field, secret.reveal()])),
          ),
      }),
    [Symbol.asyncDispose]: async () => await transport[Symbol.asyncDispose](),
  };
}

/** The account's own limits hold beside these. */
export interface DirectSourceOptions extends sources.SourceOptions {
  /** Where the credentials go, as `ConnectorOrigin.baseUrl`. */
  readonly address: string;
  /** Opens the rate that other processes keep too, once the account is known; null: they keep none. */
  readonly openBudget?: (origin: sources.ConnectorOrigin) => SharedBudget | null;
  readonly limits?: Partial<ApiLimits>;
  readonly clock?: Clock;
}

/** A connector's account at the third party itself. Disposing it closes the account. */
export function openDirectSource(
  account: UpstreamAccount,
  options: DirectSourceOptions,
): sources.ConnectorSource {
  const { definition, clock = systemClock, onEvent = () => undefined } = options;
  const limits: ApiLimits = { ...defaultApiLimits, ...options.limits };
  const serverClock = openServerClock();
  const brokenAnswersOf = openBrokenAnswers(options.isTrial);
  let shared: SharedBudget | null = null;
  let known: sources.ConnectorOrigin | null = null;
  let accountName: string | null = null;
  const { maxThrottleWaitMs } = limits;
  const budget = openCallBudget({
    concurrency: Math.min(options.concurrency, definition.upstream?.limits.concurrency ?? Infinity),
    requestsPerSecond: options.requestsPerSecond,
    statedRate: options.statedRate,
    clock,
    maxThrottleWaitMs,
    maxCalls: options.maxCalls ?? null,
    shared: () => shared,
  });
  /** The check is no call for records: it is not counted against `maxCalls`. */
  const checkBudget = openCallBudget({ concurrency: 1, requestsPerSecond: 5, clock, maxThrottleWaitMs });

  const call = async <T>(facts: CallFacts, ask: () => Promise<T>, signal: AbortSignal, isLong = false) =>
    await callWithRetries({
      facts,
      isLong,
      brokenAnswers: isLong ? undefined : brokenAnswersOf(facts.label),
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

  const origin = async (signal: AbortSignal): Promise<sources.ConnectorOrigin> => {
    if (known !== null) return known;
    const facts = callFacts('catalog', 'check the credentials');
    const { identity, name, serverTime } = await call(facts, () => account.check(signal), signal);
    serverClock.heard(serverTime);
    accountName = name === null || identity === null ? (name ?? identity) : `${name} (${identity})`;
    known = sources.accountOrigin(options.address, identity);
    shared ??= options.openBudget?.(known) ?? null;
    return known;
  };

  return {
    origin,
    accountName: () => accountName,
    connect: async (signal) => void (await origin(signal)),
    async list(request, signal) {
      const { entity, params } = request;
      const declared = checkDeclared(definition, entity, 'list', params);
      const facts = factsOf({ ...request, definition, action: 'list' });
      const ask = async () => {
        const page = await account.list({ entity, params }, signal);
        const { metadata, serverTime, bytes, bodyBytes } = page;
        budget.costs.bytes += bytes;
        serverClock.heard(serverTime);
        const records = sources.readRecords(page.records);
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
      const facts = entityFacts(definition, 'download', entity);
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
    stats: () => ({ ...budget.stats(), serverTime: serverClock.now() }),
    [Symbol.asyncDispose]: async () => await account.close(),
  };
}

async function received<T>(
  file: UpstreamFile,
  { size, maxBytes }: sources.DownloadRequest,
  receive: sources.ReceiveFile<T>,
  facts: CallFacts,
  signal: AbortSignal,
): Promise<T> {
  try {
    const bytes = checkedBytes(file.read(signal), file.size, size, maxBytes, facts);
    const { name, size: announced } = file;
    const incoming = { name, contentType: contentTypeOf(file.contentType), size: announced, bytes };
    return await receiveWhole(receive, incoming, signal);
  } finally {
    file.close();
  }
}

type Failures = ReturnType<typeof failuresOf>;

/** Classifies a failure at the third party for a walk, by its class and its reason. */
export function classifyUpstream(failure: UpstreamFailure, facts: CallFacts): CallFailure {
  const { status, waitMs, reason } = failure;
  // Texts of this program quote no value of a record, so only the third party's words are hidden.
  const isQuoted = reason === 'answer';
  const text = isQuoted ? shownWords(facts, failure.text) : failure.text;
  const found =
    isQuoted && failure.class !== 'edge' && status !== null
      ? `${facts.label} was answered with ${status} "${text}"`
      : `${facts.label}: ${text}`;
  const failures = failuresOf(facts, {
    status,
    words: isQuoted ? failure.text : null,
    waitMs,
    context: { status, reason },
    say: (advice) => withAdvice(found, advice),
  });
  const { fail, throttle, setAside, named } = failures;
  if (named !== null) return named;
  const checkAddress = 'try again later; where it stays so, ask the service whether it blocks this address';
  return {
    unauthorized: () => fail('AUTH_FAILED', 'stop', reason === 'signIn' ? null : checkCredentials),
    forbidden: () => fail('FORBIDDEN', setAside, 'check what the credentials may read'),
    quota: failures.quota,
    throttled: () => throttle(),
    edge: () => throttle(checkAddress, text),
    notFound: () => fail('NOT_FOUND', setAside, 'it is deleted or not shared'),
    staleToken: failures.staleToken,
    tooLarge: failures.tooLarge,
    unavailable: () => unavailable(failure, facts, failures),
    refused: () => refused(failure, failures),
  }[failure.class]();
}

/** A failure that may pass. A page that took too long is requested with a smaller size, and not again as it was. */
function unavailable(
  { reason, status }: UpstreamFailure,
  { canShrink }: CallFacts,
  { fail, again, pause, smallerPage }: Failures,
): CallFailure {
  if (reason === 'timeout' || status === 504) {
    return canShrink ? smallerPage() : fail('TIMEOUT', 'retry', pause, again);
  }
  if (reason === 'noRecords') {
    // Mostly a mistake of the definition, or this listing alone: one more attempt, so that it is soon known.
    const advice =
      'check records in the definition, or say in empty what the service has for an empty listing';
    return fail('BODY_INVALID', 'skip-partition', advice, { ...again, most: 1 });
  }
  if (reason === 'brokenRecords') return fail('BODY_INVALID', 'skip-partition', pause, again);
  if (reason === 'brokenBody' || reason === 'notJson') return fail('BODY_INVALID', 'retry', pause, again);
  if (reason === 'name') {
    return fail('NETWORK', 'retry', 'check the address and DNS', { ...again, reason: 'name', most: 1 });
  }
  return fail(reason === 'network' ? 'NETWORK' : 'UPSTREAM', 'retry', pause, again);
}

const checkCredentials = "check the connector's credentials in the config";

/** Requests that it would not help to repeat: what they mean, and the advice. */
const ofRefusals: Partial<
  Record<FailureReason, readonly [code: ErrorCode, isForAll: boolean, advice: string]>
> = {
  address: [
    'CONFIG_INVALID',
    true,
    'to allow it, name its host (host:port where the port is not that of baseUrl) in allowUpstreamHosts in the config (definitions try: --allow-upstream-host)',
  ],
  network: ['NETWORK', true, "check this machine's certificates and network"],
  credentials: ['AUTH_FAILED', true, checkCredentials],
  redirect: ['REDIRECTED', false, 'no other address is called: check the definition'],
  otherOrigin: ['REDIRECTED', false, 'no other address is called: check the definition'],
  brokenBody: ['BODY_INVALID', false, 'the answer is not used'],
};

function refused({ reason }: UpstreamFailure, { fail, setAside }: Failures): CallFailure {
  const [code, isForAll, advice] = ofRefusals[reason] ?? [
    'REQUEST_REFUSED',
    false,
    'the request does not fit the service: check the definition and params',
  ];
  return fail(code, isForAll ? 'stop' : setAside, advice);
}
