import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { CredentialShape, Definition } from './definition.ts';

/**
 * What is wrong with credentials: no value is repeated, nor a name that the definition does not have, which may be a
 * secret in the wrong place.
 */
interface CredentialProblem {
  /** Null: the credentials as a whole. */
  readonly field: string | null;
  readonly code: 'missing' | 'invalid_type' | 'unknown_field';
  readonly message: string;
}

/**
 * What keeps `given` (null: nothing) from being the credentials of a connector of this type; empty: nothing that is
 * known of. They must meet one of the definition's ways to sign in, where it has any. The problems are those with the
 * way that was meant.
 */
export function credentialProblems(
  { credentials: shapes }: Pick<Definition, 'credentials'>,
  given: JsonValue,
): readonly CredentialProblem[] {
  if (shapes.length === 0) return [];
  if (!isJsonObject(given)) {
    const ways = shapes.map(shapeText).join(' or ');
    return [{ field: null, code: 'missing', message: `Expected credentials: ${ways}.` }];
  }
  const tried = shapes.map((shape) => ({ shape, problems: problemsWith(shape, given) }));
  if (tried.some(({ problems }) => problems.length === 0)) return [];
  // Report the way to sign in that shares the most fields with what was given; a report on all of them would hide the
  // mistake.
  const [meant] = tried.toSorted((a, b) => shared(b.shape, given) - shared(a.shape, given));
  return meant?.problems ?? [];
}

/** `API key (api_key, optional data_center)`. */
export function shapeText({ title, fields }: CredentialShape): string {
  const names = [...fields].map(([name, { isRequired }]) => (isRequired ? name : `optional ${name}`));
  return `${title} (${names.join(', ')})`;
}

function problemsWith(shape: CredentialShape, given: JsonObject): readonly CredentialProblem[] {
  const problems: CredentialProblem[] = [];
  for (const [field, { isRequired }] of shape.fields) {
    const value = Object.hasOwn(given, field) ? given[field] : undefined;
    if (value === undefined) {
      if (isRequired) problems.push({ field, code: 'missing', message: 'Expected a text, got nothing.' });
    } else if (!isSecretText(value)) {
      const message = `Expected a text of 1 to ${maxLength} characters that are not all blank.`;
      problems.push({ field, code: 'invalid_type', message });
    }
  }
  if (Object.keys(given).some((name) => !shape.fields.has(name))) {
    const message = `Expected no other fields than those of ${shapeText(shape)}.`;
    problems.push({ field: null, code: 'unknown_field', message });
  }
  return problems;
}

/** The longest keys and certificates that services hand out are some kilobytes. */
const maxLength = 16_384;

function isSecretText(value: JsonValue): boolean {
  return (
    typeof value === 'string' && value.trim() !== '' && value.length <= maxLength && value.isWellFormed()
  );
}

function shared({ fields }: CredentialShape, given: JsonObject): number {
  return Object.keys(given).filter((name) => fields.has(name)).length;
}
