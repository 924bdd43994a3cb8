import type { JsonValue } from '../../core/json.ts';
import { stringifyParams } from '../../source/api/read-body.ts';
import { ApiError, notFound } from '../api-error.ts';
import { checkParams } from '../execute/check-params.ts';
import { executeBody } from '../execute/execute-body.ts';
import { findAction } from '../execute/find-action.ts';
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

async function askProvider(
  { definition, provider }: KeptConnector,
  body: string,
  signal: AbortSignal,
): Promise<CallAnswer> {
  const call = executeBody.parse(JSON.parse(body));
  const { entity, action, actionName } = findAction(definition, call.entity, call.action);
  const params = checkParams(entity, actionName, action, call.params ?? {});
  const request = { entity, params, signal };
  if (actionName === 'list') {
    const { records, metadata } = await provider.list(request);
    return success(records, metadata);
  }
  const record = await provider.get(request);
  if (record === null) throw notFound(`There is no such record in '${entity.name}'.`);
  return success(record, null);
}

const tooLate: CallAnswer = {
  status: 504,
  text: '{"message":"The third party did not answer in time."}',
  retryAfter: null,
};

function success(result: JsonValue, metadata: JsonValue): CallAnswer {
  const text = stringify({ status: 'success', result, connector_metadata: metadata });
  return { status: 200, text, retryAfter: null };
}

/** The built-in way is several times faster, and refuses the large integers that hardly ever come. */
function stringify(value: JsonValue): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof TypeError) return stringifyParams(value);
    throw error;
  }
}

function failure(error: unknown): CallAnswer {
  if (!(error instanceof ApiError)) {
    // As over HTTP, nothing is said of the inside.
    return { status: 500, text: '{"message":"The server failed to answer this request."}', retryAfter: null };
  }
  const [, retryAfter = null] =
    Object.entries(error.headers).find(([name]) => name.toLowerCase() === 'retry-after') ?? [];
  return { status: error.status, text: JSON.stringify(error.body), retryAfter };
}
