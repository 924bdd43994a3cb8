import type { FastifyError, FastifyInstance } from 'fastify';
import * as z from 'zod';
import { hasAtMostCharacters } from '../core/names.ts';
import { SyncError } from '../core/errors.ts';
import { wholeJson } from '../core/canonical-json.ts';

/** The body of every answer that is not a success. */
export const apiError = z
  .object({
    message: z.string(),
    errors: z.array(
      z.object({
        field: z.string().nullable().describe('Where in the request: body.name, query.limit, params.count.'),
        message: z.string().nullable(),
        error_code: z.string().nullable(),
        details: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'ApiErrorResponse' });

type ApiErrorBody = Readonly<z.output<typeof apiError>>;

interface ApiErrorOptions {
  readonly field?: string;
  readonly errorCode?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Instead of the one entry that `field` and `errorCode` make. */
  readonly errors?: ApiErrorBody['errors'];
}

/**
 * An answer other than 200: thrown anywhere while a request is worked on, sent by the error handler.
 * The message reaches the client: it may name parameters and ids, never a secret.
 */
export class ApiError extends SyncError {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ApiErrorBody;

  constructor(status: number, message: string, options: ApiErrorOptions = {}) {
    super(message, { code: 'REQUEST_REFUSED', recovery: 'stop', context: { status } });
    this.status = status;
    this.headers = options.headers ?? {};
    this.body = { message, errors: options.errors ?? errorsOf(message, options) };
  }
}

function errorsOf(message: string, { field, errorCode }: ApiErrorOptions): ApiErrorBody['errors'] {
  if (field === undefined && errorCode === undefined) return [];
  return [{ field: field ?? null, message, error_code: errorCode ?? null, details: null }];
}

/** 400: a parameter that the entity cannot take. */
export function badParameter(name: string, message: string): ApiError {
  return new ApiError(400, message, { field: `params.${name}`, errorCode: 'invalid_parameter' });
}

/** 404: nothing with these ids. */
export function notFound(message: string): ApiError {
  return new ApiError(404, message, { errorCode: 'not_found' });
}

/** Is called with unexpected failures, which the answers do not describe. */
export type OnFailure = (error: unknown) => void;

/** Gives every failed request the documented body, wherever it failed. */
export function answerErrors(server: FastifyInstance, onFailure: OnFailure = () => undefined): void {
  server.setErrorHandler((error: FastifyError | ApiError, _request, reply) => {
    const answer = error instanceof ApiError ? error : (fromFullDisk(error) ?? fromFramework(error));
    // A 503 of ours says that the service closes or is busy: nothing failed.
    if (answer.status === 500 || (answer !== error && answer.status === 503)) onFailure(error);
    return reply.code(answer.status).headers(answer.headers).send(answer.body);
  });
}

/** A change that found no room on the disk: it may be sent again. Null for every other error. */
function fromFullDisk(error: unknown): ApiError | null {
  if (!(error instanceof SyncError && error.code === 'SINK_FULL')) return null;
  return new ApiError(
    503,
    'The disk of this server is full; nothing was changed. Try again once there is room.',
    {
      errorCode: 'disk_full',
      headers: { 'retry-after': '60' },
    },
  );
}

/**
 * The framework's own texts may quote the request, so only their meaning is kept. Anything unforeseen is a 500 that
 * discloses no internals.
 */
export function fromFramework({ statusCode }: Pick<FastifyError, 'statusCode'>): ApiError {
  const message = messageByStatus[statusCode ?? 500];
  if (message === undefined) return new ApiError(500, 'The server failed to answer this request.');
  return new ApiError(
    statusCode ?? 500,
    message,
    statusCode === 400 ? { errorCode: 'unreadable_request' } : {},
  );
}

const messageByStatus: Readonly<Record<number, string>> = {
  400: 'The request cannot be read: expected a valid path and a valid JSON body.',
  408: 'The request did not arrive whole in time.',
  413: 'The request body is larger than this server accepts.',
  415: 'Expected a body with Content-Type: application/json.',
  431: 'The request headers are larger than this server accepts.',
};

/** A body with a million wrong values is not answered with a million entries. */
const maxErrors = 20;

/** Parses a body or a query string; 422 with one entry for each of the first wrong fields. Values are not repeated. */
export function parseRequest<Shape extends z.ZodType>(shape: Shape, value: unknown, place: string) {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ApiError(422, `The request ${place} does not have the expected fields.`, {
    errors: parsed.error.issues.slice(0, maxErrors).map((issue) => ({
      field: [place, ...issue.path].join('.'),
      message: issue.message,
      error_code: issue.code,
      details: null,
    })),
  });
}

/**
 * An answer as JSON; integers that a double cannot hold, which `JSON.stringify` refuses, are written with all their
 * digits.
 */
export function answerText(answer: unknown): string {
  try {
    return JSON.stringify(answer) ?? 'null';
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return wholeJson(answer);
  }
}

/** zod's own `max` counts UTF-16 units, in which an emoji is two. */
export function textUpTo(most: number): z.ZodString {
  return z
    .string()
    .refine((text) => hasAtMostCharacters(text, most), `Expected at most ${most} characters.`)
    .meta({ maxLength: most });
}
