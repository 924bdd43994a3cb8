import { isJsonObject, type JsonValue } from '../core/json.ts';
import type { CredentialShape, Definition } from './definition.ts';

/**
 * What keeps `credentials` from being those of a connector of this type, a line for each problem; empty: nothing that is known
 * of. They are taken when one of the definition's ways to sign in fits. Fields are named, values never.
 */
export function credentialProblems(
  { credentials: shapes }: Pick<Definition, 'credentials'>,
  given: JsonValue,
): readonly string[] {
  if (!isJsonObject(given)) return ['expected an object of credentials'];
  const judged = shapes.map((shape) => ({ shape, problems: problemsWith(shape, Object.entries(given)) }));
  if (judged.length === 0 || judged.some(({ problems }) => problems.length === 0)) return [];
  const nearest = judged.reduce((best, one) => (one.problems.length < best.problems.length ? one : best));
  const others = shapes.length === 1 ? '' : `; ways to sign in: ${shapes.map(shapeText).join(' or ')}`;
  return nearest.problems.map((problem) => `${problem} (${nearest.shape.title})${others}`);
}

/** `API key (api_key, optional data_center)`. */
export function shapeText({ title, fields }: CredentialShape): string {
  const names = [...fields].map(([name, { isRequired }]) => (isRequired ? name : `optional ${name}`));
  return `${title} (${names.join(', ')})`;
}

function problemsWith(
  { fields }: CredentialShape,
  given: readonly (readonly [string, JsonValue])[],
): readonly string[] {
  const names = new Set(given.map(([name]) => name));
  const known = [...fields.keys()].join(', ');
  return [
    ...[...fields].flatMap(([name, { isRequired }]) =>
      isRequired && !names.has(name) ? [`${name}: is missing`] : [],
    ),
    ...given.flatMap(([name, value]) => {
      if (!fields.has(name)) return [`${name}: unknown; expected ${known}`];
      if (typeof value !== 'string') return [`${name}: expected a text`];
      return value.trim() === '' ? [`${name}: is empty`] : [];
    }),
  ];
}
