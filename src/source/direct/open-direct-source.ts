import { setMaxListeners } from 'node:events';
import { systemClock, type Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { SharedBudget } from '../../core/shared-budget.ts';
import type { Definition } from '../../definitions/definition.ts';
import { styleOf } from '../../pagination/pagination-of.ts';
import type { UpstreamAccount, UpstreamFile } from '../../upstream/upstream-account.ts';
import { UpstreamFailure } from '../../upstream/upstream-failure.ts';
import { defaultApiLimits, type ApiLimits } from '../api/api-limits.ts';
import { watchBrokenAnswers, type BrokenAnswers } from '../api/broken-answers.ts';
import { openCallBudget } from '../api/call-budget.ts';
import { CallFailure, callFacts, type CallFacts } from '../api/call-failure.ts';
import { callWithRetries } from '../api/call-with-retries.ts';
import { checkDeclared } from '../api/check-declared.ts';
import { invalidBody } from '../api/classify-failure.ts';
import { checkedBytes, contentTypeOf } from '../api/download-call.ts';
import { factsOf } from '../api/execute-call.ts';
import { accountOrigin, type ConnectorOrigin } from '../connector-origin.ts';
import { openServerClock } from '../server-clock.ts';
import type { DownloadRequest, FileSource, ReceiveFile, Source } from '../source.ts';
import { classifyUpstream } from './classify-upstream.ts';

/** A `Source` over an account at the third party itself. Disposing it closes the account. */
export interface DirectSource extends Source, FileSource {
  /**
   * The account that the credentials belong to, by one call for as long as the source is open. Rejects as `connect`
   * does.
   */
  origin(signal: AbortSignal): Promise<ConnectorOrigin>;
}

export interface DirectSourceOptions {
  readonly definition: Definition;
  /** Concurrent calls, and calls in a second: the account's own limits hold as well. */
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  /**
   * Rate and concurrency that other processes keep too, once the account is known; null: nothing. Disposed with the
   * source.
   */
  readonly openBudget?: (origin: ConnectorOrigin) => SharedBudget | null;
  readonly maxCalls?: number | null;
  readonly limits?: Partial<ApiLimits>;
  readonly clock?: Clock;
  /** Hears of attempts that failed as well as of answers. */
  readonly onEvent?: OnRunEvent;
}

export function openDirectSource(account: UpstreamAccount, options: DirectSourceOptions): DirectSource {
  const { definition, clock = systemClock, onEvent = () => undefined } = options;
  const limits: ApiLimits = { ...defaultApiLimits, ...options.limits };
  const serverClock = openServerClock();
  const brokenByLabel = new Map<string, BrokenAnswers>();
  let shared: SharedBudget | null = null;
  let known: ConnectorOrigin | null = null;
  const budget = openCallBudget({
    concurrency: Math.min(options.concurrency, definition.upstream?.limits.concurrency ?? Infinity),
    requestsPerSecond: options.requestsPerSecond,
    clock,
    maxThrottleWaitMs: limits.maxThrottleWaitMs,
    maxCalls: options.maxCalls ?? null,
    shared: {
      enter: async (signal) => await (shared?.enter(signal) ?? { release: () => Promise.resolve() }),
      slowDown: async (waitMs) => await shared?.slowDown(waitMs),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
  });
  /** The check is no call for records: it is not counted against `maxCalls`. */
  const checkBudget = openCallBudget({
    concurrency: 1,
    requestsPerSecond: 5,
    clock,
    maxThrottleWaitMs: limits.maxThrottleWaitMs,
  });

  const call = async <T>(
    facts: CallFacts,
    ask: () => Promise<T>,
    signal: AbortSignal,
    more: { readonly isLong?: boolean } = {},
  ): Promise<T> => {
    signal.throwIfAborted();
    // One run's signal serves all its walks at once: more than ten listeners are no leak here.
    setMaxListeners(0, signal);
    const { entity, label } = facts;
    const spending = facts.purpose === 'execute' ? budget : checkBudget;
    const attempt = async (waitedMs: number): Promise<T> => {
      signal.throwIfAborted();
      spending.takeCall();
      const sentAt = clock.now();
      try {
        const value = await ask();
        onEvent({ kind: 'call-ended', entity, answer: 'ok', ms: clock.now() - sentAt, waitedMs });
        return value;
      } catch (error) {
        signal.throwIfAborted();
        const failure = error instanceof UpstreamFailure ? classifyUpstream(error, facts) : error;
        const answer = failure instanceof CallFailure ? failure.error.recovery : 'stop';
        onEvent({ kind: 'call-ended', entity, answer, ms: clock.now() - sentAt, waitedMs });
        throw failure;
      }
    };
    try {
      return await callWithRetries(() => spending.run(attempt, signal), {
        // Large files take long: no time limit for the whole call.
        limits: more.isLong === true ? { ...limits, maxCallMs: Infinity } : limits,
        clock,
        budget: spending,
        signal,
        brokenAnswers: more.isLong === true ? null : brokenAnswersOf(brokenByLabel, label),
        onRetry: (retry) => onEvent({ kind: 'call-retried', entity, ...retry }),
        onThrottle: (waitMs) => onEvent({ kind: 'throttled', waitMs }),
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof SyncError) throw error;
      // Its text is not shown: an unknown error may hold anything.
      const name = error instanceof Error ? error.name : typeof error;
      throw new SyncError(`${label}: an unexpected ${name}; this is a bug in connector-sync`, {
        code: 'INTERNAL',
        recovery: 'stop',
      });
    }
  };

  const origin = async (signal: AbortSignal): Promise<ConnectorOrigin> => {
    if (known !== null) return known;
    const facts = callFacts('catalog', 'check the credentials');
    const { identity, serverTime } = await call(facts, () => account.check(signal), signal);
    if (serverTime !== null) serverClock.heard(Date.parse(serverTime));
    known = accountOrigin(definition, identity);
    shared ??= options.openBudget?.(known) ?? null;
    return known;
  };

  return {
    origin,
    connect: async (signal) => void (await origin(signal)),
    async list({ entity, params, isRoot }, signal) {
      const { pagination } = checkDeclared(definition, entity, 'list', params);
      const facts = factsOf({ definition, entity, action: 'list', params, isRoot });
      return await call(
        facts,
        async () => {
          const page = await account.list({ entity, params }, signal);
          const { records, metadata, serverTime, bytes, textLength } = page;
          budget.count({ bytes });
          if (serverTime !== null) serverClock.heard(Date.parse(serverTime));
          const style = styleOf(pagination);
          const answer = { result: records, metadata, link: null };
          const next = style.readNext(answer);
          if (next !== null && 'fault' in next) throw invalidBody(facts, next.fault);
          const total = style.readTotal(answer);
          return { records, next, ...(total === null ? {} : { total }), serverTime, bytes: textLength };
        },
        signal,
      );
    },
    async get({ entity, params }, signal) {
      checkDeclared(definition, entity, 'get', params);
      const facts = factsOf({ definition, entity, action: 'get', params, isRoot: false });
      return await call(facts, () => account.get({ entity, params }, signal), signal);
    },
    async download(request, receive, signal) {
      const { entity, params } = request;
      checkDeclared(definition, entity, 'download', params);
      const facts = callFacts('execute', `download ${entity}`, { entity, patterns: definition.errors });
      const ask = async () => {
        const file = await account.download({ entity, params }, signal);
        if (file === null) throw notFound(facts);
        return await received(file, request, receive, facts, signal);
      };
      return await call(facts, ask, signal, { isLong: true });
    },
    stats: () => ({ ...budget.stats(), serverTime: serverClock.now() }),
    async [Symbol.asyncDispose]() {
      await account.close();
      await shared?.[Symbol.asyncDispose]();
    },
  };
}

/** One for all parameters of the same entity and action. */
function brokenAnswersOf(byLabel: Map<string, BrokenAnswers>, label: string): BrokenAnswers {
  const known = byLabel.get(label) ?? watchBrokenAnswers();
  byLabel.set(label, known);
  return known;
}

function notFound(facts: CallFacts): UpstreamFailure {
  return new UpstreamFailure('notFound', `${facts.label}: the service has no such file`, {
    reason: 'answer',
    status: null,
  });
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
    return await receive({ name, contentType: contentTypeOf(file), size: announced, bytes }, signal);
  } finally {
    file.close();
  }
}
