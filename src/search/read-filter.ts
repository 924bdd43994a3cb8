import { elementField, findField, type FoundField } from './find-field.ts';
import { readOperand } from './read-operand.ts';
import { searchLimits } from './search-limits.ts';
import { kindOf, memberPath, searchProblem, shownName } from './search-problem.ts';
import type { Condition, FieldCondition } from './search-request.ts';
import type { SearchTarget } from './search-target.ts';

type Operator = FieldCondition['kind'];

const operators: ReadonlySet<string> = new Set([
  'eq',
  'neq',
  'gt',
  'gte',
  'lt',
  'lte',
  'in',
  'like',
  'fuzzy',
  'keyword',
  'contains',
  'any',
] satisfies Operator[]);

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
      if (!isOperator(operator)) {
        const known = [...operators, 'and', 'or', 'not'].join(', ');
        throw searchProblem(at, `expected one of the operators ${known}; got ${shownName(operator)}`);
      }
      return membersOf(operand, at, `an object such as {"field": value}`).map(([name, value]) =>
        readLeaf(operator, name, value, { ...place, at: memberPath(at, name) }),
      );
  }
}

function readLeaf(operator: Operator, name: string, value: unknown, place: Place): FieldCondition {
  const { at } = place;
  place.count(at);
  const field = place.findField(name, at);
  if (operator !== 'any') return readOperand(operator, field, value, at);
  if (field.type !== null) {
    throw searchProblem(at, `expected an array, but ${shownName(name)} is of type ${field.type}`);
  }
  const condition = readCondition(value, { ...inner(place, at), findField: elementField });
  return { kind: 'any', path: field.path, condition };
}

function inner(place: Place, at: string): Place {
  return { ...place, at, depth: place.depth + 1 };
}

function isOperator(name: string): name is Operator {
  return operators.has(name);
}

function membersOf(value: unknown, at: string, expected: string): readonly (readonly [string, unknown])[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw searchProblem(at, `expected ${expected}, got ${kindOf(value)}`);
  }
  return Object.entries(value);
}
