import type { Clock } from '../../core/clock.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { WireAnswer, WireStream } from '../../http/exchange.ts';
import { policyRate } from '../../http/header-values.ts';
import { isSuccess, pageIn } from '../../http/read-body.ts';
import type { OnExchange } from '../../http/seen-exchange.ts';
import type { ApiLimits } from './api-limits.ts';
import type { BrokenAnswers } from './broken-answers.ts';
import type { CallBudget } from './call-budget.ts';
import type { CallFacts } from './call-failure.ts';
import { callWithRetries } from './call-with-retries.ts';
import { classifyAnswer, classifyThrown, invalidBody } from './classify-failure.ts';
import type { HttpRequest, HttpTransport } from './http-transport.ts';
import type { TokenCache } from './token-cache.ts';

/** One call of the API: what is sent, what to know when it fails, and how a 2xx answer is read. */
export interface ApiCall<T> {
  readonly request: Omit<HttpRequest, 'headers'> & Partial<Pick<HttpRequest, 'headers'>>;
  readonly facts: CallFacts;
  /** Those of the calls that ask for the same with other parameters; absent: the call is judged alone. */
  readonly brokenAnswers?: BrokenAnswers;
  /** Hears of each attempt; its address begins below the base URL. */
  readonly onExchange?: OnExchange;
  /** As of `Call`. */
  readonly isTrial?: boolean;
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` for one that will not. */
  read(answer: WireAnswer): T;
}

/** A call whose answer may be long and is read as a stream, in every attempt from its start. */
export interface StreamCall<T> extends Pick<ApiCall<T>, 'request' | 'facts'> {
  /** Throws `CallFailure` for a body that may be better next time, `SyncError` for what ends the call. */
  receive(
    head: Pick<WireStream, 'status' | 'header'>,
    body: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<T>;
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

/** The calls of one account of the API, each with the account's token. Rejects as `callWithRetries` does. */
export function openApiCaller(options: ApiCallerOptions): ApiCaller {
  const { transport, tokens, clock, limits, redact } = options;

  const exchange = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    token: string | null,
    budget: CallBudget,
    onEvent: OnRunEvent,
    signal: AbortSignal,
  ): Promise<T> => {
    const request = { ...call.request, headers: headersOf(call.request, token) };
    const onExchange = 'read' in call ? call.onExchange : undefined;
    const answer = await (onExchange === undefined
      ? sent(call, request, signal)
      : seen(onExchange, request, () => sent(call, request, signal)));
    budget.count({ bytes: answer.wireBytes });
    const date = answer.header('date');
    if (date !== null) options.onServerDate?.(date);
    const stated = policyRate(answer.header('ratelimit-policy'));
    if (stated !== null && budget.heardRate(stated)) {
      onEvent({ kind: 'rate-stated', requestsPerSecond: budget.rate().requestsPerSecond });
    }
    if (token !== null && answer.status !== 401) tokens?.accepted(token);
    if ('value' in answer) return answer.value;
    if ('read' in call && isSuccess(answer.status)) {
      const page = pageIn(answer.body, answer.header, redact);
      if (page !== null) throw invalidBody(call.facts, `expected JSON, got ${page}`);
      return call.read(answer);
    }
    const failure = classifyAnswer(answer, call.facts, redact, clock.now());
    if (answer.status === 401 && token !== null && tokens?.refused(token) === false) throw failure.error;
    throw failure;
  };

  const sent = async <T>(
    call: ApiCall<T> | StreamCall<T>,
    request: HttpRequest,
    signal: AbortSignal,
  ): Promise<WireAnswer | Received<T>> => {
    try {
      if ('read' in call) return await transport.send(request, signal);
      const answer = await transport.open(request, signal);
      return 'body' in answer ? answer : await received(answer, call, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ReceiverError) throw error.cause;
      throw classifyThrown(error, call.facts) ?? error;
    }
  };

  const seen = async <Answer extends Pick<WireAnswer, 'status' | 'wireBytes'>>(
    onExchange: OnExchange,
    request: HttpRequest,
    send: () => Promise<Answer>,
  ): Promise<Answer> => {
    const { method, path, body } = request;
    const began = clock.now();
    const tell = (answer: Pick<WireAnswer, 'status' | 'wireBytes'> | null): void =>
      onExchange({
        method,
        url: path,
        body,
        status: answer?.status ?? null,
        ms: clock.now() - began,
        wireBytes: answer?.wireBytes ?? 0,
        keys: null,
      });
    const answer = await send().catch((error: unknown) => {
      tell(null);
      throw error;
    });
    tell(answer);
    return answer;
  };

  const headersOf = ({ headers, body }: ApiCall<unknown>['request'], token: string | null) => ({
    ...options.headers,
    ...headers,
    ...(body === null ? {} : { 'content-type': 'application/json' }),
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  });

  return async (call, budget, onEvent, signal) =>
    await callWithRetries({
      facts: call.facts,
      isLong: !('read' in call),
      isTrial: 'read' in call && call.isTrial === true,
      brokenAnswers: ('read' in call ? call.brokenAnswers : undefined) ?? null,
      token: async () => (await tokens?.current(signal)) ?? null,
      send: (token) => exchange(call, token, budget, onEvent, signal),
      describe: (error) => redact(String(error)),
      limits,
      clock,
      budget,
      onEvent,
      signal,
    });
}

/** A 2xx answer whose body was read by `receive`. */
interface Received<T> extends Omit<WireAnswer, 'body'> {
  readonly value: T;
}

/** The reader of a body failed by itself; `cause` is what it threw. The service has no part in that. */
class ReceiverError extends Error {
  override readonly name = 'ReceiverError';
}

/**
 * Lets `receive` read the body of an answer at its own pace. Throws the connection's error where that ended the
 * reading, whatever `receive` made of it, and `ReceiverError` for anything else. The body is closed in any case.
 */
async function received<T>(
  stream: WireStream,
  call: StreamCall<T>,
  signal: AbortSignal,
): Promise<Received<T>> {
  let wireBytes = 0;
  const cut: unknown[] = [];

  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      for await (const bytes of stream.read(signal)) {
        wireBytes += bytes.byteLength;
        yield bytes;
      }
    } catch (error) {
      cut.push(error);
      throw error;
    }
  }

  try {
    const value = await call.receive(stream, chunks(), signal);
    return { status: stream.status, header: stream.header, value, wireBytes };
  } catch (error) {
    if (cut.length > 0) throw cut[0];
    throw new ReceiverError('the reader of a body failed', { cause: error });
  } finally {
    stream.close();
  }
}
