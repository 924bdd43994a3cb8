import { setMaxListeners } from 'node:events';
import type { Clock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { OnRunEvent, RunEvent } from '../../core/events.ts';
import type { ApiLimits } from './api-limits.ts';
import type { BrokenAnswers } from './broken-answers.ts';
import type { CallBudget } from './call-budget.ts';
import { type CallFacts, CallFailure, onceOnly } from './call-failure.ts';
import { callWithRetries } from './call-with-retries.ts';
import { classifyAnswer, classifyThrown } from './classify-failure.ts';
import type { HttpAnswer, HttpRequest, HttpTransport } from './http-transport.ts';
import { ReceiverError, type ReceiveBody, type Received } from '../../http/stream-body.ts';
import type { TokenCache } from './token-cache.ts';

/** One call of the API: what is sent, what to know when it fails, and how a 2xx answer is read. */
export interface ApiCall<T> {
  readonly request: Omit<HttpRequest, 'headers'>;
  readonly facts: CallFacts;
  /** Those of the calls that ask for the same with other parameters; absent: the call is judged alone. */
  readonly brokenAnswers?: BrokenAnswers;
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` for one that will not. */
  read(answer: HttpAnswer): T;
}

/** A call whose answer may be long and is read as a stream, in every attempt from its start. */
export interface StreamCall<T> extends Pick<ApiCall<T>, 'request' | 'facts'> {
  readonly headers: Readonly<Record<string, string>>;
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` for what ends the call. */
  readonly receive: ReceiveBody<T>;
}

interface ApiCallerOptions {
  readonly transport: HttpTransport;
  readonly tokens: TokenCache | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly limits: ApiLimits;
  readonly redact: (text: string) => string;
  /** Hears the `Date` header of every answer, as it came. */
  readonly onServerDate?: (date: string) => void;
}

export type ApiCaller = <T>(
  call: ApiCall<T> | StreamCall<T>,
  budget: CallBudget,
  onEvent: OnRunEvent,
  signal: AbortSignal,
) => Promise<T>;

type CallEnded = Extract<RunEvent, { readonly kind: 'call-ended' }>;

/**
 * Puts the layers of a call together: retries around a budget around one authorized attempt. Rejects with a classified
 * `SyncError`, or promptly with the signal's reason.
 */
export function openApiCaller(options: ApiCallerOptions): ApiCaller {
  const { transport, tokens, clock, limits } = options;

  const attemptOnce = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    budget: CallBudget,
    waitedMs: number,
    onEvent: OnRunEvent,
    signal: AbortSignal,
  ): Promise<T> => {
    // Without a call failure inside: the token's own request has already been retried.
    const token = tokens === null ? null : await tokens.current(signal);
    signal.throwIfAborted();
    budget.takeCall();
    const sentAt = clock.now();
    const { entity } = call.facts;
    const ended = (answer: CallEnded['answer']): void =>
      onEvent({ kind: 'call-ended', entity, answer, ms: clock.now() - sentAt, waitedMs });
    let value: T;
    try {
      value = await exchange(call, token, budget, signal);
    } catch (error) {
      signal.throwIfAborted();
      ended(answerOf(error));
      throw call.facts.isWrite === true ? onceOnly(error) : error;
    }
    ended('ok');
    return value;
  };

  const exchange = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    token: string | null,
    budget: CallBudget,
    signal: AbortSignal,
  ): Promise<T> => {
    const answer = await send(call, { ...call.request, headers: headersOf(call, token) }, signal);
    budget.count({ bytes: answer.wireBytes });
    if (answer.date !== null) options.onServerDate?.(answer.date);
    if (token !== null && answer.status !== 401) tokens?.accepted(token);
    if ('kind' in answer) return answer.value;
    if ('read' in call && answer.status >= 200 && answer.status < 300) return call.read(answer);
    const failure = classifyAnswer(answer, call.facts, options.redact, clock.now());
    if (answer.status === 401 && token !== null && tokens?.refused(token) === false) throw failure.error;
    throw failure;
  };

  const send = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    request: HttpRequest,
    signal: AbortSignal,
  ): Promise<HttpAnswer | Received<T>> => {
    try {
      return 'read' in call
        ? await transport.send(request, signal)
        : await transport.stream(request, call.receive, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ReceiverError) throw error.cause;
      throw classifyThrown(error, call.facts) ?? error;
    }
  };

  const headersOf = <T>(call: ApiCall<T> | StreamCall<T>, token: string | null): Record<string, string> => ({
    ...options.headers,
    ...('headers' in call ? call.headers : {}),
    ...(call.request.body === null ? {} : { 'content-type': 'application/json' }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  });

  return async (call, budget, onEvent, signal) => {
    signal.throwIfAborted();
    // One run's signal serves all its walks at once: more than ten listeners are no leak here.
    setMaxListeners(0, signal);
    const { entity, label } = call.facts;
    try {
      const send = (waitedMs: number) => attemptOnce(call, budget, waitedMs, onEvent, signal);
      const attempt = async () => {
        // Get the token first: calls that wait for it after taking a turn would all start together.
        await tokens?.current(signal);
        return await budget.run(send, signal);
      };
      return await callWithRetries(attempt, {
        // Large files take long: no time limit for the whole call.
        limits: 'read' in call ? limits : { ...limits, maxCallMs: Infinity },
        clock,
        budget,
        signal,
        brokenAnswers: ('read' in call ? call.brokenAnswers : undefined) ?? null,
        onRetry: (retry) => onEvent({ kind: 'call-retried', entity, ...retry }),
        onThrottle: (waitMs) => onEvent({ kind: 'throttled', waitMs }),
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof SyncError) throw error;
      throw new SyncError(`${label}: ${options.redact(String(error))}; this is a bug in connector-sync`, {
        code: 'INTERNAL',
        recovery: 'stop',
      });
    }
  };
}

function answerOf(error: unknown): CallEnded['answer'] {
  if (error instanceof CallFailure) {
    return error.retry?.reason === 'token' ? 'refresh-auth' : error.error.recovery;
  }
  return error instanceof SyncError ? error.recovery : 'stop';
}
