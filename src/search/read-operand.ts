import { hasAtMostCharacters } from '../core/characters.ts';
import type { FoundField, ScalarType } from './find-field.ts';
import { searchLimits } from './search-limits.ts';
import { kindOf, searchProblem } from './search-problem.ts';
import type { FieldCondition, Scalar } from './search-request.ts';
import { wordsOf } from './words.ts';

type Kind = Exclude<FieldCondition['kind'], 'any'>;

/** Reads what an operator is given for a field. Throws SEARCH_INVALID where the field's type can never meet it. */
export function readOperand(kind: Kind, field: FoundField, value: unknown, at: string): FieldCondition {
  const { path } = field;
  switch (kind) {
    case 'eq':
    case 'neq':
      return { kind, path, value: readScalar(field.type, value, at) };
    case 'gt':
    case 'gte':
    case 'lt':
    case 'lte': {
      const bound = readScalar(field.type, value, at);
      if (bound === null) {
        throw searchProblem(
          at,
          `expected a value to compare with, got null: nothing is more or less than that`,
        );
      }
      return { kind, path, value: bound };
    }
    case 'in':
      return { kind, path, values: readValues(field.type, value, at) };
    case 'like':
      checkHoldsText(kind, field, at);
      return { kind, path, pattern: readText(value, at) };
    case 'keyword':
    case 'fuzzy':
      checkHoldsText(kind, field, at);
      return { kind, path, words: readWords(kind, value, at) };
    case 'contains':
      checkHoldsText(kind, field, at);
      if (field.type === 'string' || typeof value === 'string') {
        return { kind, path, value: readText(value, at) };
      }
      return { kind, path, value: readScalar(field.type, value, at) };
  }
}

/** A value that the field can have, or null; any where only the record knows the type. */
function readScalar(type: ScalarType | null, value: unknown, at: string): Scalar {
  if (value === null) return value;
  if (typeof value === 'string' && (type === null || type === 'string')) return value;
  if (typeof value === 'boolean' && (type === null || type === 'boolean')) return value;
  const isNumber = (typeof value === 'number' || typeof value === 'bigint') && Number.isFinite(Number(value));
  if (isNumber && type !== 'string' && type !== 'boolean') return value;
  throw searchProblem(at, `expected ${expectedFor(type)}, got ${kindOf(value)}`);
}

function readValues(type: ScalarType | null, values: unknown, at: string): readonly Scalar[] {
  if (!Array.isArray(values)) throw searchProblem(at, `expected an array of values, got ${kindOf(values)}`);
  if (values.length > searchLimits.inValues) {
    throw searchProblem(at, `expected at most ${searchLimits.inValues} values, got ${values.length}`);
  }
  return values.map((value: unknown, index) => readScalar(type, value, `${at}[${index}]`));
}

function readWords(kind: 'keyword' | 'fuzzy', value: unknown, at: string): readonly string[] {
  const words = wordsOf(readText(value, at));
  if (words.length === 0) throw searchProblem(at, 'expected a text with at least one letter or digit');
  if (words.length > searchLimits.words) {
    throw searchProblem(at, `expected at most ${searchLimits.words} words, got ${words.length}`);
  }
  return kind === 'keyword' ? [...new Set(words)] : words;
}

function readText(value: unknown, at: string): string {
  if (typeof value !== 'string') throw searchProblem(at, `expected a text, got ${kindOf(value)}`);
  const { patternChars } = searchLimits;
  if (!hasAtMostCharacters(value, patternChars)) {
    throw searchProblem(at, `expected at most ${patternChars} characters, got more`);
  }
  return value;
}

function checkHoldsText(kind: Kind, { path, type }: FoundField, at: string): void {
  if (type !== null && type !== 'string') {
    throw searchProblem(at, `${kind} looks at texts, but ${path.join('.')} is of type ${type}`);
  }
}

function expectedFor(type: ScalarType | null): string {
  switch (type) {
    case 'string':
      return 'a text or null';
    case 'integer':
    case 'number':
      return 'a number or null';
    case 'boolean':
      return 'true, false or null';
    case null:
      return 'a text, a number, true, false or null';
  }
}
