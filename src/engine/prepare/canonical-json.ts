import type { JsonValue } from '../../core/json.ts';

/** A record nested deeper than this is not stored: readers of the JSON text (SQLite's own among them) stop near 1000. */
export const maxDepth = 200;

export class TooDeepError extends Error {
  override readonly name = 'TooDeepError';
}

/**
 * JSON text with object keys in sorted order, so that equal values give equal texts whatever order the service sends
 * them in. Integers of any size keep their digits; lone surrogates come out as \\uXXXX. Throws `TooDeepError`.
 */
export function canonicalJson(value: JsonValue): string {
  return write(value, 0);
}

/** The same without the values at `paths` (relative to `value`; `*` stands for any one name or array position). */
export function canonicalJsonWithout(value: JsonValue, paths: readonly (readonly string[])[]): string {
  return write(without(value, paths, 0), 0);
}

function write(value: JsonValue, depth: number): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (value === null || typeof value !== 'object')
    return typeof value === 'number' ? numberText(value) : String(value);
  if (depth >= maxDepth) throw new TooDeepError(`nested deeper than ${maxDepth} levels`);
  if (isArray(value)) {
    let text = '';
    for (const element of value) text += (text === '' ? '[' : ',') + write(element, depth + 1);
    return text === '' ? '[]' : `${text}]`;
  }
  const names = Object.keys(value);
  if (!isSorted(names)) names.sort();
  let text = '';
  for (const name of names)
    text += `${text === '' ? '{' : ','}${JSON.stringify(name)}:${write(value[name] ?? null, depth + 1)}`;
  return text === '' ? '{}' : `${text}}`;
}

function numberText(value: number): string {
  return Object.is(value, -0) ? '-0.0' : String(value);
}

function isSorted(names: readonly string[]): boolean {
  for (let index = 1; index < names.length; index += 1) {
    if ((names[index - 1] ?? '') > (names[index] ?? '')) return false;
  }
  return true;
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

function without(value: JsonValue, paths: readonly (readonly string[])[], depth: number): JsonValue {
  if (value === null || typeof value !== 'object' || paths.length === 0) return value;
  if (depth >= maxDepth) throw new TooDeepError(`nested deeper than ${maxDepth} levels`);
  if (isArray(value))
    return value.map((element, index) => without(element, below(paths, String(index)), depth + 1));
  const kept = Object.create(null) as Record<string, JsonValue>;
  for (const [name, member] of Object.entries(value)) {
    const inner = below(paths, name);
    if (!inner.some((path) => path.length === 0)) kept[name] = without(member, inner, depth + 1);
  }
  return kept;
}

function below(paths: readonly (readonly string[])[], name: string): readonly (readonly string[])[] {
  return paths.filter(([first]) => first === '*' || first === name).map((path) => path.slice(1));
}
