import { isJsonArray, isJsonObject, writeNumber, type JsonValue } from './json.ts';
import type { Column, ColumnValue } from './records.ts';

/**
 * A record nested deeper than this is not stored: readers of the JSON text (SQLite's own among them) stop near 1000.
 */
export const maxDepth = 200;

export class TooDeepError extends Error {
  override readonly name = 'TooDeepError';
}

/**
 * JSON text with sorted keys: equal values give equal texts. Integers keep their digits, lone surrogates become
 * escapes. Throws `TooDeepError`.
 */
export function canonicalJson(value: JsonValue): string {
  const sorting = { isPlain: true };
  const sorted = sortNames(value, 0, sorting);
  // The built-in writer is several times faster, and knows neither bigint nor -0.
  return sorting.isPlain ? JSON.stringify(sorted) : wholeJson(sorted);
}

/** The same without the values at `paths` (relative to `value`; `*` stands for any one name or array position). */
export function canonicalJsonWithout(value: JsonValue, paths: readonly (readonly string[])[]): string {
  return canonicalJson(without(value, paths, 0));
}

/**
 * `canonicalJsonWithout` of any value, however deep: one too deep to be stored keeps its names in the order that they
 * came in.
 */
export function anyJsonWithout(value: JsonValue, paths: readonly (readonly string[])[]): string {
  try {
    return canonicalJsonWithout(value, paths);
  } catch (error) {
    if (!(error instanceof TooDeepError)) throw error;
    // No deeper than the longest path.
    return wholeJson(without(value, paths, 0));
  }
}

/** The value itself where its names are in order already, else a copy in which they are. */
function sortNames(value: JsonValue, depth: number, sorting: { isPlain: boolean }): JsonValue {
  if (value === null || typeof value !== 'object') {
    if (typeof value === 'bigint' || Object.is(value, -0)) sorting.isPlain = false;
    return value;
  }
  checkDepth(depth);
  if (isJsonArray(value)) {
    let copy: JsonValue[] | null = null;
    for (let index = 0; index < value.length; index += 1) {
      const element = value[index] ?? null;
      const sorted = sortNames(element, depth + 1, sorting);
      if (sorted !== element) (copy ??= [...value])[index] = sorted;
    }
    return copy ?? value;
  }
  const names = Object.keys(value);
  let isSame = !sortInPlace(names);
  const copy: Record<string, JsonValue> = {};
  for (const name of names) {
    const member = value[name] ?? null;
    const sorted = sortNames(member, depth + 1, sorting);
    if (sorted !== member) isSame = false;
    if (name === '__proto__') Object.defineProperty(copy, name, { value: sorted, enumerable: true });
    else copy[name] = sorted;
  }
  return isSame ? value : copy;
}

function checkDepth(depth: number): void {
  if (depth >= maxDepth) throw new TooDeepError(`nested deeper than ${maxDepth} levels`);
}

/**
 * Insertion sort: most objects have a handful of names, and the built-in sort costs kilobytes for each. True when it
 * moved something.
 */
function sortInPlace(names: string[]): boolean {
  let hasMoved = false;
  for (let index = 1; index < names.length; index += 1) {
    const name = names[index] ?? '';
    if ((names[index - 1] ?? '') <= name) continue;
    if (names.length > 32) {
      names.sort();
      return true;
    }
    hasMoved = true;
    let at = index;
    for (; at > 0 && (names[at - 1] ?? '') > name; at -= 1) names[at] = names[at - 1] ?? '';
    names[at] = name;
  }
  return hasMoved;
}

function without(value: JsonValue, paths: readonly (readonly string[])[], depth: number): JsonValue {
  if (value === null || typeof value !== 'object' || paths.length === 0) return value;
  checkDepth(depth);
  if (isJsonArray(value)) {
    return value.map((element, index) => without(element, below(paths, String(index)), depth + 1));
  }
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

type Step = { readonly text: string } | { readonly value: unknown };

/**
 * JSON text of any value, however deep: an explicit list of steps takes the place of recursion. Members keep their
 * order, numbers all their digits; those that are undefined are left out.
 */
export function wholeJson(root: unknown): string {
  const parts: string[] = [];
  const steps: Step[] = [{ value: root }];
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    if ('text' in step) parts.push(step.text);
    else if (typeof step.value === 'bigint') parts.push(String(step.value));
    else if (typeof step.value === 'number') parts.push(writeNumber(step.value));
    else if (step.value === null || typeof step.value !== 'object') parts.push(JSON.stringify(step.value));
    else for (const next of stepsOf(step.value).toReversed()) steps.push(next);
  }
  return parts.join('');
}

function stepsOf(value: object): Step[] {
  const isList = Array.isArray(value);
  const steps: Step[] = [{ text: isList ? '[' : '{' }];
  for (const [name, member] of Object.entries(value) as [string, unknown][]) {
    if (member === undefined && !isList) continue;
    const comma = steps.length === 1 ? '' : ',';
    steps.push({ text: isList ? comma : `${comma}${JSON.stringify(name)}:` }, { value: member ?? null });
  }
  steps.push({ text: isList ? ']' : '}' });
  return steps;
}

const minInt64 = -(2n ** 63n);
const maxInt64 = 2n ** 63n - 1n;

/** The value as its column holds it, or undefined where it does not fit without loss. Null fits everywhere. */
export function toColumnValue({ type }: Pick<Column, 'type'>, value: JsonValue): ColumnValue | undefined {
  if (value === null) return null;
  switch (type) {
    case 'string':
      // A lone surrogate has no UTF-8 form: SQLite would hand back something else.
      return typeof value === 'string' && value.isWellFormed() ? value : undefined;
    case 'integer':
      if (typeof value === 'bigint') return value >= minInt64 && value <= maxInt64 ? value : undefined;
      return typeof value === 'number' && Number.isSafeInteger(value) && !Object.is(value, -0)
        ? value
        : undefined;
    case 'number':
      return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
    case 'boolean':
      return typeof value === 'boolean' ? Number(value) : undefined;
    case 'object':
      return isJsonObject(value) ? canonicalJson(value) : undefined;
    case 'array':
      return Array.isArray(value) ? canonicalJson(value) : undefined;
    case 'any':
      return canonicalJson(value);
  }
}
