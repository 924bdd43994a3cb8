import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../../../src/core/json.ts';
import { type Answer, AnswerInstead, jsonAnswer } from '../answer.ts';
import { type Effect, instead } from '../faults.ts';

/** Titles are the service's own; a client may go by them. */
export function problem(
  status: number,
  title: string,
  detail: string,
  more: JsonObject = {},
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const instance = randomUUID();
  return jsonAnswer(
    status,
    {
      type: 'https://mailchimp.com/developer/marketing/docs/errors/',
      title,
      status,
      detail,
      instance,
      ...more,
    },
    { 'content-type': 'application/problem+json; charset=utf-8', 'x-request-id': instance, ...headers },
  );
}

export function notFound(): AnswerInstead {
  return new AnswerInstead(problem(404, 'Resource Not Found', 'The requested resource could not be found.'));
}

export function badRequest(detail: string): AnswerInstead {
  return new AnswerInstead(problem(400, 'Bad Request', detail));
}

export function invalidResource(field: string, message: string): AnswerInstead {
  return new AnswerInstead(
    problem(400, 'Invalid Resource', 'Some values of the request do not fit its schema.', {
      errors: [{ field, message }],
    }),
  );
}

export function keyMissing(): Answer {
  return problem(401, 'API Key Missing', 'The request has no API key.');
}

export function keyInvalid(): Answer {
  return problem(401, 'API Key Invalid', 'The API key is not valid, or it belongs to another data center.');
}

export function wrongDatacenter(): Answer {
  return problem(403, 'Wrong Datacenter', 'The API key belongs to an account in another data center.');
}

export function tooManyConnections(): Answer {
  return problem(429, 'Too Many Requests', 'The account has more than 10 simultaneous connections open.');
}

/** Faults of this service, each as its documentation or its users describe it. */
export const mailchimpFaults = {
  /** As it comes: without Retry-After. */
  tooManyRequests: instead(tooManyConnections()),
  /** With the header that the service has never been seen to send. */
  tooManyRequestsRetryAfter: (value: string): Effect =>
    instead(problem(429, 'Too Many Requests', 'Wait a moment.', {}, { 'retry-after': value })),
  /** At very high rates the answer is bare text. */
  tooManyRequestsText: instead({
    status: 429,
    headers: { 'content-type': 'text/plain' },
    body: 'Too Many Requests',
  }),
  /** From the network in front of the service. */
  edgeMalformed: instead({
    status: 400,
    headers: { 'content-type': 'text/html' },
    body: '<html><body><h1>Bad request</h1>This is a malformed or illegal request.</body></html>',
  }),
  simultaneousConnections: instead(
    problem(403, 'Forbidden', 'There are too many simultaneous connections for this user.'),
  ),
  wrongDatacenter: instead(wrongDatacenter()),
  keyInvalid: instead(keyInvalid()),
  userDisabled: instead(problem(403, 'User Disabled', 'This account has been deactivated.')),
  forbidden: instead(
    problem(403, 'Forbidden', 'The role of this user does not allow it. A subscription with billing would.'),
  ),
  notFound: instead(problem(404, 'Resource Not Found', 'The requested resource could not be found.')),
  /** A detail as they come: with an address and a hash of it. */
  invalidResource: instead(
    problem(400, 'Invalid Resource', 'member@example.test is no member of this list.', {
      errors: [{ field: 'id', message: 'b79e1a05afb84190ec55310c5ee3f27e is not known' }],
    }),
  ),
  methodNotAllowed: instead(problem(405, 'Method Not Allowed', 'This resource cannot be read.')),
  nestingTooDeep: instead(problem(414, 'Resource Nesting Too Deep', 'The path has too many levels.')),
  requestedFieldsInvalid: instead(problem(422, 'Requested Fields Invalid', 'No such field.')),
  upgradeRequired: instead(problem(426, 'Upgrade Required', 'The connection needs a newer TLS.')),
  internalError: instead(problem(500, 'Internal Server Error', 'Something went wrong.')),
  compliance: instead(
    problem(503, 'Compliance Related', 'This method is switched off for the account. Write to compliance.'),
  ),
  unavailable: instead(problem(503, 'Service Unavailable', 'Try again later.')),
  gatewayTimeout: instead({ status: 504, headers: { 'content-type': 'text/html' }, body: '<h1>504</h1>' }),
} as const;
