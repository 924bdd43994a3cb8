import * as z from 'zod';
import { SyncError } from '../core/errors.ts';

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
