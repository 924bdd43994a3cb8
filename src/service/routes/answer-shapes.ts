import * as z from 'zod';

/** ISO 8601, UTC. */
export const time = z.iso.datetime();

export const jsonObject = z.record(z.string(), z.unknown());

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
