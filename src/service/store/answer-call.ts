import { answerText } from '../answer-text.ts';
import { ApiError } from '../api-error.ts';
import { executeAction } from '../execute/execute-action.ts';
import { executeBody } from '../execute/execute-body.ts';
import type { KeptConnector } from './context-stores.ts';

/** As it would come over HTTP. */
export interface CallAnswer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | null;
}

/** A third party that takes longer has forgotten the call; a smaller page may take less. */
const maxCallMs = 300_000;

/**
 * Answers a `list` or a `get` of a store's sync from the connector's provider: `body` is that of an execute call. Never rejects: what
 * fails is an answer too. Resolves in bounded time, also where the provider does not listen to its signal.
 */
export async function answerCall(
  connector: KeptConnector,
  body: string,
  outer: AbortSignal,
): Promise<CallAnswer> {
  // A controller for each call: a signal made by `any` of one that lives long keeps memory for as long.
  const call = new AbortController();
  let giveUp = (): void => undefined;
  const givenUp = new Promise<CallAnswer>((resolve) => (giveUp = () => resolve(tooLate)));
  const onEnd = (): void => {
    call.abort(new Error('the client has disconnected'));
    giveUp();
  };
  const timer = setTimeout(onEnd, maxCallMs);
  outer.addEventListener('abort', onEnd, { once: true });
  try {
    return await Promise.race([askProvider(connector, body, call.signal).catch(failure), givenUp]);
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', onEnd);
  }
}

async function askProvider(connector: KeptConnector, body: string, signal: AbortSignal): Promise<CallAnswer> {
  const call = executeBody.parse(JSON.parse(body));
  const answer = await executeAction({ ...connector, stores, body: call, signal });
  if (answer.kind === 'file') throw new TypeError('a sync of a store downloads nothing');
  const { result, connectorMetadata } = answer;
  const text = answerText({ status: 'success', result, connector_metadata: connectorMetadata });
  return { status: 200, text, retryAfter: null };
}

/** A store is filled from the third party alone. */
const stores = {
  search: (): Promise<never> => Promise.reject(new TypeError('a sync of a store searches nothing')),
};

const tooLate: CallAnswer = {
  status: 504,
  text: '{"message":"The third party did not answer in time."}',
  retryAfter: null,
};

function failure(error: unknown): CallAnswer {
  if (!(error instanceof ApiError)) {
    // As over HTTP, internals are not disclosed.
    return { status: 500, text: '{"message":"The server failed to answer this request."}', retryAfter: null };
  }
  const [, retryAfter = null] =
    Object.entries(error.headers).find(([name]) => name.toLowerCase() === 'retry-after') ?? [];
  return { status: error.status, text: JSON.stringify(error.body), retryAfter };
}
