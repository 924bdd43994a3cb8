import type { JsonObject } from '../../core/json.ts';
import { credentialProblems } from '../../definitions/credential-problems.ts';
import type { Definition } from '../../definitions/definition.ts';
import { ApiError } from '../api-error.ts';

/**
 * Holds credentials (null: none are given) against the definition's ways to sign in. Whether the third party takes them is another
 * question. Throws `ApiError` 422 with the path of each wrong field.
 */
export function checkCredentials(definition: Definition, credentials: JsonObject | null): void {
  const problems = credentialProblems(definition, credentials);
  if (problems.length === 0) return;
  throw new ApiError(
    422,
    `The credentials are not of a shape that the connector type '${definition.title}' takes.`,
    {
      errors: problems.map(({ field, code, message }) => ({
        field: field === null ? 'body.credentials' : `body.credentials.${field}`,
        message,
        error_code: code,
        details: null,
      })),
    },
  );
}
