import type { FieldType } from '../core/records.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { searchLimits, searchProblem, shownName } from './search-problem.ts';
import type { FieldPath } from './search-request.ts';
import { type FieldSource, isJsonType, type SearchTarget } from './search-target.ts';

/** Where a condition, a sort or a result looks. `type` is null where only the record knows: inside of values. */
export interface FoundField {
  readonly path: FieldPath;
  readonly type: ScalarType | null;
}

export type ScalarType = Extract<FieldType, 'string' | 'integer' | 'number' | 'boolean'>;

/**
 * Reads a name as people write it: the whole name is tried first, then dots lead into the value. `tags[]` is the array
 * `tags`. Throws SEARCH_INVALID.
 */
export function findField(target: SearchTarget, name: string, at: string): FoundField {
  return target.fields.has(name) ? fieldAt(target, [name], at) : fieldAt(target, namesIn(name, at), at);
}

function namesIn(name: string, at: string): FieldPath {
  const [array, ...inside] = name.split('[].');
  if (inside.length > 0) {
    throw searchProblem(
      at,
      `expected a path that ends at the array; of its elements ask {"any": {${JSON.stringify(array)}: condition}}`,
    );
  }
  return name.replace(/\[\]$/, '').split('.');
}

/**
 * The same for a path whose names are taken apart already. A field that is made from others can be asked for by their
 * names too.
 */
export function fieldAt(target: SearchTarget, path: FieldPath, at: string): FoundField {
  checkLength(path, at);
  const [asked = '', ...inside] = path;
  const name = target.fields.has(asked) ? asked : (madeFrom(target, asked) ?? asked);
  const field = target.fields.get(name);
  if (field === undefined) {
    const suggestion = suggestName(name.slice(0, 64), target.fields.keys());
    throw searchProblem(at, `expected a searchable field, got ${shownName(name)}${suggestion}`);
  }
  const type = isJsonType(field.type) ? null : field.type;
  if (type !== null && inside.length > 0) {
    throw searchProblem(at, `expected ${name} without anything behind it: it is of type ${type}`);
  }
  return { path: [name, ...inside], type };
}

function madeFrom({ fields }: SearchTarget, asked: string): string | undefined {
  const isAsked = (source: FieldSource): boolean =>
    (source.kind === 'extra' ? source.name : source.column) === asked;
  return [...fields.values()].find(({ sources }) => sources.some(isAsked))?.name;
}

/** Inside an array's element nothing is declared. */
export function elementField(name: string, at: string): FoundField {
  const path = namesIn(name, at);
  checkLength(path, at);
  return { path, type: null };
}

function checkLength(path: FieldPath, at: string): void {
  if (path.length > searchLimits.pathParts) {
    throw searchProblem(at, `expected a path of at most ${searchLimits.pathParts} names, got ${path.length}`);
  }
}
