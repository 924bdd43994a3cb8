import { answerText } from '../answer-errors.ts';
import { ApiError } from '../api-error.ts';
import { tooLate } from '../provider.ts';
import { executeAction, executeBody } from '../execute/execute-action.ts';
import type { KeptConnector } from './context-stores.ts';

/** As it would come over HTTP. */
export interface CallAnswer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | null;
}

/**
 * Answers a `list` or a `get` of a store's sync from the connector's provider: `body` is that of an execute call. Never
 * rejects: what fails is an answer too. Resolves in bounded time, also where the provider does not listen to its
 * signal.
 */
export async function answerCall(
  connector: KeptConnector,
  body: string,
  signal: AbortSignal,
): Promise<CallAnswer> {
  try {
    const call = executeBody.parse(JSON.parse(body));
    const answer = await executeAction({ ...connector, stores, body: call, signal });
    if (answer.kind === 'file') throw new TypeError('a sync of a store downloads nothing');
    const { result, connectorMetadata } = answer;
    const text = answerText({ status: 'success', result, connector_metadata: connectorMetadata });
    return { status: 200, text, retryAfter: null };
  } catch (error) {
    return failure(signal.aborted ? tooLate() : error);
  }
}

/** A store is filled from the third party alone. */
const stores = {
  search: (): Promise<never> => Promise.reject(new TypeError('a sync of a store searches nothing')),
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
