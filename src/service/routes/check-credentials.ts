import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { CredentialShape, Definition } from '../../definitions/definition.ts';
import { ApiError, type ApiErrorDetail } from '../api-error.ts';

/**
 * Holds credentials against the definition's shapes: they must meet one of them. Null: none are given, which is right only where
 * the definition knows none. Whether the third party takes them is another question.
 *
 * Throws `ApiError` 422 with the path of each wrong field. No value is repeated, nor a name that the definition does not have:
 * somebody may have put the secret there.
 */
export function checkCredentials(definition: Definition, credentials: JsonObject | null): void {
  const shapes = definition.credentials;
  if (shapes.length === 0) return;
  if (credentials === null) {
    throw wrong(definition, [detail([], 'missing', `Expected credentials: ${shapesText(shapes)}.`)]);
  }
  const tried = shapes.map((shape) => ({ shape, problems: problemsOf(shape, credentials) }));
  if (tried.some(({ problems }) => problems.length === 0)) return;
  // What was meant is the shape that shares the most fields with what came; told of all of them, nobody would find the slip.
  const [meant] = tried.toSorted((a, b) => shared(b.shape, credentials) - shared(a.shape, credentials));
  throw wrong(definition, meant?.problems ?? []);
}

function problemsOf({ fields }: CredentialShape, credentials: JsonObject): readonly ApiErrorDetail[] {
  const problems: ApiErrorDetail[] = [];
  for (const [name, { isRequired }] of fields) {
    const value = Object.hasOwn(credentials, name) ? credentials[name] : undefined;
    if (value === undefined) {
      if (isRequired) problems.push(detail([name], 'missing', 'Expected a text, got nothing.'));
    } else if (!isSecretText(value)) {
      problems.push(detail([name], 'invalid_type', `Expected a text of 1 to ${maxLength} characters.`));
    }
  }
  const names = [...fields.keys()];
  if (Object.keys(credentials).some((name) => !fields.has(name))) {
    problems.push(detail([], 'unknown_field', `Expected no other fields than ${names.join(', ')}.`));
  }
  return problems;
}

/** The longest keys and certificates that services hand out are some kilobytes. */
const maxLength = 16_384;

function isSecretText(value: JsonValue): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= maxLength && value.isWellFormed();
}

function shared({ fields }: CredentialShape, credentials: JsonObject): number {
  return Object.keys(credentials).filter((name) => fields.has(name)).length;
}

function shapesText(shapes: readonly CredentialShape[]): string {
  return shapes.map(({ title, fields }) => `${title} (${[...fields.keys()].join(', ')})`).join(' or ');
}

function detail(path: readonly string[], code: string, message: string): ApiErrorDetail {
  return { field: ['body.credentials', ...path].join('.'), message, error_code: code, details: null };
}

function wrong({ title }: Definition, errors: readonly ApiErrorDetail[]): ApiError {
  return new ApiError(422, `The credentials are not of a shape that the connector type '${title}' takes.`, {
    errors,
  });
}
