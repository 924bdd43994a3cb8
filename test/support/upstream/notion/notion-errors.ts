import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../../../src/core/json.ts';
import { type Answer, AnswerInstead, jsonAnswer } from '../answer.ts';
import { bentBody, edgePage, type Effect, instead } from '../faults.ts';

/** Codes are the service's own, and messages where clients go by their words. */
export function notionError(
  status: number,
  code: string,
  message: string,
  more: { readonly data?: JsonObject; readonly headers?: Readonly<Record<string, string>> } = {},
): Answer {
  const request_id = randomUUID();
  const additional = more.data === undefined ? {} : { additional_data: more.data };
  return jsonAnswer(
    status,
    { object: 'error', status, code, message, ...additional, request_id },
    { 'x-notion-request-id': request_id, ...more.headers },
  );
}

export function invalid(message: string): AnswerInstead {
  return new AnswerInstead(notionError(400, 'validation_error', message));
}

export function staleCursor(): AnswerInstead {
  return invalid('The start_cursor provided is invalid: it does not belong to this query, or has ended.');
}

export function unauthorized(): Answer {
  return notionError(401, 'unauthorized', 'API token is invalid.');
}

export function rateLimited(retryAfter: string | null): Answer {
  return notionError(429, 'rate_limited', 'You have been rate limited. Please try again later.', {
    data: { rate_limit_reason: 'integration' },
    headers: retryAfter === null ? {} : { 'retry-after': retryAfter },
  });
}

/** The same for what does not exist and for what is not shared. */
export function objectNotFound(what: string, id: string): AnswerInstead {
  return new AnswerInstead(
    notionError(
      404,
      'object_not_found',
      `Could not find ${what} with ID: ${id.slice(0, 60)}. Make sure the relevant pages and databases are shared with ` +
        'your integration "Example integration".',
      { data: { integration_id: '5c2f6f8e-4d43-4be0-9c3c-0d9f3c2a7b11' } },
    ),
  );
}

const refused = (status: number, code: string, message: string): Effect =>
  instead(notionError(status, code, message));

/** Faults of this service, each as its documentation or its users describe it. */
export const notionFaults = {
  /** Null: without Retry-After. */
  rateLimited: (retryAfter: string | null): Effect => instead(rateLimited(retryAfter)),
  serviceOverload: refused(529, 'service_overload', 'The service is overloaded.'),
  internalError: refused(500, 'internal_server_error', 'Something went wrong.'),
  badGateway: refused(502, 'bad_gateway', 'The answer could not be completed.'),
  unavailable: refused(503, 'service_unavailable', 'Notion is unavailable.'),
  databaseUnavailable: refused(503, 'database_connection_unavailable', 'The database cannot be reached.'),
  gatewayTimeout: refused(504, 'gateway_timeout', 'The query took too long.'),
  conflict: refused(
    409,
    'conflict_error',
    'Conflict occurred while saving: a data collision. Please try again.',
  ),
  unauthorized: instead(unauthorized()),
  /** The integration lacks the capability as a whole. */
  restricted: refused(403, 'restricted_resource', 'Insufficient permissions for this endpoint.'),
  /** A rule of the network in front: HTML, and no id of the service. */
  edge: edgePage(403, { 'cf-ray': '8c1f00d5e0a1b2c3-FRA' }),
  staleCursor: instead(staleCursor().answer),
  aiBlock: refused(400, 'validation_error', 'Block type ai_block is not supported via the API.'),
  unsupportedBlock: refused(400, 'validation_error', 'Block type unsupported is not supported via the API.'),
  archivedBlock: refused(400, 'validation_error', 'The block is archived. Unarchive it first.'),
  notShared: instead(objectNotFound('block', '1c6e9a52-7c8e-4d52-9a0f-3f3a5a6f0d11').answer),
  /** The walk ended early, and the answer says so. */
  incomplete: bentBody((body) => ({
    ...body,
    next_cursor: null,
    has_more: false,
    request_status: { type: 'incomplete', incomplete_reason: 'query_result_limit_reached' },
  })),
  invalidJson: refused(400, 'invalid_json', 'Error parsing JSON body.'),
  invalidRequest: refused(400, 'invalid_request', 'This request is not supported.'),
} as const;
