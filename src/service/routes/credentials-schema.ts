import type { CredentialShape, Definition } from '../../definitions/definition.ts';

/**
 * The JSON schema (draft 2020-12) of the credentials that a connector of this definition takes. Where there are several ways to sign in, one
 * of `oneOf`; secret fields are `writeOnly`: they are in no answer.
 */
export function credentialsSchema({ title, credentials }: Definition): Record<string, unknown> {
  const [first, ...others] = credentials.map(shapeSchema);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title,
    type: 'object',
    ...(others.length > 0 ? { oneOf: [first, ...others] } : first),
  };
}

function shapeSchema({ title, fields }: CredentialShape): Record<string, unknown> {
  const declared = [...fields];
  return {
    title,
    required: declared.filter(([, { isRequired }]) => isRequired).map(([name]) => name),
    properties: Object.fromEntries(
      declared.map(([name, { isSecret }]) => [
        name,
        { type: 'string', minLength: 1, ...(isSecret ? { writeOnly: true, format: 'password' } : {}) },
      ]),
    ),
    additionalProperties: false,
  };
}
