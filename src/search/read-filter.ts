import { hasAtMostCharacters } from '../core/characters.ts';
import {
  elementField,
  findField,
  type FoundField,
  type ScalarType,
  type SearchTarget,
} from './search-target.ts';
import { kindOf, memberPath, searchLimits, searchProblem, shownName } from './search-problem.ts';
import type { Condition, FieldCondition, Ordering, Scalar, WordCondition } from './search-request.ts';
import { wordsOf } from './words.ts';

/** What is known at one place of the tree. */
interface Place {
  readonly at: string;
  readonly depth: number;
  readonly findField: (name: string, at: string) => FoundField;
  /** Throws when there are too many. */
  readonly count: (at: string) => void;
}

/** Reads an untrusted condition tree. Throws SEARCH_INVALID, naming the place. */
export function readFilter(filter: unknown, target: SearchTarget, at: string): Condition {
  let nodes = 0;
  return readCondition(filter, {
    at,
    depth: 1,
    findField: (name, place) => findField(target, name, place),
    count: (place) => {
      nodes += 1;
      if (nodes > searchLimits.nodes) {
        throw searchProblem(
          place,
          `expected at most ${searchLimits.nodes} conditions in all, this is one more`,
        );
      }
    },
  });
}

/** Several operators in one object, and several fields of one operator, mean and. */
function readCondition(value: unknown, place: Place): Condition {
  const { at, depth } = place;
  if (depth > searchLimits.depth) {
    throw searchProblem(at, `expected conditions at most ${searchLimits.depth} deep, this is deeper`);
  }
  const conditions = membersOf(value, at, 'a condition such as {"eq": {"field": value}}').flatMap(
    ([operator, operand]) => readOperator(operator, operand, { ...place, at: memberPath(at, operator) }),
  );
  const [only] = conditions;
  return only !== undefined && conditions.length === 1 ? only : { kind: 'and', conditions };
}

function readOperator(operator: string, operand: unknown, place: Place): readonly Condition[] {
  const { at } = place;
  switch (operator) {
    case 'and':
    case 'or': {
      place.count(at);
      if (!Array.isArray(operand)) {
        throw searchProblem(at, `expected an array of conditions, got ${kindOf(operand)}`);
      }
      const conditions = operand.map((condition: unknown, index) =>
        readCondition(condition, inner(place, `${at}[${index}]`)),
      );
      return [{ kind: operator, conditions }];
    }
    case 'not':
      place.count(at);
      return [{ kind: 'not', condition: readCondition(operand, inner(place, at)) }];
    default:
      if (operator !== 'any' && !operators.has(operator)) {
        const known = [...operators.keys(), 'any', 'and', 'or', 'not'].join(', ');
        throw searchProblem(at, `expected one of the operators ${known}; got ${shownName(operator)}`);
      }
      return membersOf(operand, at, `an object such as {"field": value}`).map(([name, value]) =>
        readLeaf(operator, name, value, { ...place, at: memberPath(at, name) }),
      );
  }
}

function readLeaf(operator: string, name: string, value: unknown, place: Place): FieldCondition {
  const { at } = place;
  place.count(at);
  const field = place.findField(name, at);
  const read = operators.get(operator);
  if (read !== undefined) return read(field, value, at);
  if (field.type !== null) {
    throw searchProblem(at, `expected an array, but ${shownName(name)} is of type ${field.type}`);
  }
  const condition = readCondition(value, { ...inner(place, at), findField: elementField });
  return { kind: 'any', path: field.path, condition };
}

function inner(place: Place, at: string): Place {
  return { ...place, at, depth: place.depth + 1 };
}

function membersOf(value: unknown, at: string, expected: string): readonly (readonly [string, unknown])[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw searchProblem(at, `expected ${expected}, got ${kindOf(value)}`);
  }
  return Object.entries(value);
}

/** Reads what an operator is given for a field. Throws SEARCH_INVALID where the field's type can never meet it. */
type ReadOperand = (field: FoundField, value: unknown, at: string) => FieldCondition;

/** All but `any`, which has a condition inside. */
const operators: ReadonlyMap<string, ReadOperand> = new Map([
  ['eq', equality('eq')],
  ['neq', equality('neq')],
  ['gt', ordering('gt')],
  ['gte', ordering('gte')],
  ['lt', ordering('lt')],
  ['lte', ordering('lte')],
  ['in', ({ path, type }, value, at) => ({ kind: 'in', path, values: readValues(type, value, at) })],
  ['like', readLike],
  ['fuzzy', wordSearch('fuzzy')],
  ['keyword', wordSearch('keyword')],
  ['contains', readContains],
]);

function equality(kind: 'eq' | 'neq'): ReadOperand {
  return ({ path, type }, value, at) => ({ kind, path, value: readScalar(type, value, at) });
}

function ordering(kind: Ordering): ReadOperand {
  return ({ path, type }, value, at) => {
    const bound = readScalar(type, value, at);
    if (bound !== null) return { kind, path, value: bound };
    throw searchProblem(at, `expected a value to compare with, got null: nothing is more or less than that`);
  };
}

function readLike(field: FoundField, value: unknown, at: string): FieldCondition {
  checkHoldsText('like', field, at);
  return { kind: 'like', path: field.path, pattern: readText(value, at) };
}

function wordSearch(kind: WordCondition['kind']): ReadOperand {
  return (field, value, at) => {
    checkHoldsText(kind, field, at);
    return { kind, path: field.path, words: readWords(kind, value, at) };
  };
}

function readContains(field: FoundField, value: unknown, at: string): FieldCondition {
  checkHoldsText('contains', field, at);
  const { path, type } = field;
  const isText = type === 'string' || typeof value === 'string';
  return { kind: 'contains', path, value: isText ? readText(value, at) : readScalar(type, value, at) };
}

/** A value that the field can have, or null; any where only the record knows the type. */
function readScalar(type: ScalarType | null, value: unknown, at: string): Scalar {
  if (value === null) return value;
  if (typeof value === 'string' && (type === null || type === 'string')) return value;
  if (typeof value === 'boolean' && (type === null || type === 'boolean')) return value;
  const isNumber = (typeof value === 'number' || typeof value === 'bigint') && Number.isFinite(Number(value));
  if (isNumber && type !== 'string' && type !== 'boolean') return value;
  throw searchProblem(at, `expected ${expectedValue[type ?? 'any']}, got ${kindOf(value)}`);
}

function readValues(type: ScalarType | null, values: unknown, at: string): readonly Scalar[] {
  if (!Array.isArray(values)) throw searchProblem(at, `expected an array of values, got ${kindOf(values)}`);
  if (values.length > searchLimits.inValues) {
    throw searchProblem(at, `expected at most ${searchLimits.inValues} values, got ${values.length}`);
  }
  return values.map((value: unknown, index) => readScalar(type, value, `${at}[${index}]`));
}

function readWords(kind: WordCondition['kind'], value: unknown, at: string): readonly string[] {
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

function checkHoldsText(kind: FieldCondition['kind'], { path, type }: FoundField, at: string): void {
  if (type !== null && type !== 'string') {
    throw searchProblem(at, `${kind} searches texts, but ${path.join('.')} is of type ${type}`);
  }
}

const expectedValue: Readonly<Record<ScalarType | 'any', string>> = {
  string: 'a text or null',
  integer: 'a number or null',
  number: 'a number or null',
  boolean: 'true, false or null',
  any: 'a text, a number, true, false or null',
};
