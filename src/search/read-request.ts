import { type ConnectorName, hasAtMostCharacters } from '../core/names.ts';
import { conditionMatcher, wordsOf } from './match-condition.ts';
import {
  checkSize,
  kindOf,
  memberPath,
  searchLimits,
  searchProblem,
  shownName,
  type Condition,
  type FieldCondition,
  type FieldPath,
  type Ordering,
  type Scalar,
  type SearchRequest,
  type SortKey,
  type WordCondition,
} from './search-request.ts';
import {
  elementField,
  everyColumn,
  fieldAt,
  findField,
  type FoundField,
  type ScalarType,
  type SearchTarget,
  searchTarget,
} from './search-target.ts';
import { type JsonObject, type JsonValue, memberOf } from '../core/json.ts';
import type { EntityTable, RowContent } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { fieldReader } from './field-value.ts';

/** Position in the condition tree, with what applies there. */
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

function readLeaf(operator: string, name: string, value: unknown, place: Place): Condition {
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
type ReadOperand = (field: FoundField, value: unknown, at: string) => Condition;

/** Operators without a condition inside: every one except `any`. */
const operators: ReadonlyMap<string, ReadOperand> = new Map([
  ['eq', readEquality],
  ['neq', (...given) => ({ kind: 'not', condition: readEquality(...given) })],
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

function readEquality({ path, type }: FoundField, value: unknown, at: string): Condition {
  return { kind: 'in', path, values: [readScalar(type, value, at)] };
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

/**
 * Reads the untrusted `params` of a search: query, limit, cursor, fields; null counts as absent, and other members are
 * ignored. Throws `SyncError` SEARCH_INVALID with the place as context `path`.
 */
export function readSearchRequest(params: unknown, target: SearchTarget): SearchRequest {
  const asked = new Map(membersOf(params, 'params', 'an object'));
  const [query, limit, cursor, fields] = ['query', 'limit', 'cursor', 'fields'].map((name) =>
    asked.get(name),
  );
  checkSize(query, searchLimits.queryBytes);
  const members = membersOf(query, 'query', 'an object');
  // A filter that is not read would find everything.
  const unknown = members.find(([name]) => name !== 'filter' && name !== 'sort');
  if (unknown !== undefined) {
    throw searchProblem('query', `expected filter and sort, got ${shownName(unknown[0])} too`);
  }
  const [filter, sort] = ['filter', 'sort'].map((name) => new Map(members).get(name));
  return {
    filter: isAbsent(filter) ? null : readFilter(filter, target, 'query.filter'),
    sort: isAbsent(sort) ? [] : readSort(sort, target),
    limit: isAbsent(limit) ? searchLimits.defaultLimit : readLimit(limit),
    cursor: isAbsent(cursor) ? null : readCursorText(cursor),
    fields: isAbsent(fields) ? null : readFields(fields, target),
  };
}

function readSort(sort: unknown, target: SearchTarget): readonly SortKey[] {
  const elements = readArray(sort, 'query.sort', searchLimits.sortFields);
  const keys = new Map<string, SortKey>();
  for (const [index, element] of elements.entries()) {
    const at = `query.sort[${index}]`;
    const entries = membersOf(element, at, 'an object');
    const [[name, direction] = ['', null]] = entries;
    if (entries.length !== 1) {
      throw searchProblem(
        at,
        `expected one field and its direction, such as {"id": "asc"}, got ${entries.length} fields`,
      );
    }
    if (direction !== 'asc' && direction !== 'desc') {
      throw searchProblem(memberPath(at, name), `expected "asc" or "desc", got ${kindOf(direction)}`);
    }
    const { path } = findField(target, name, memberPath(at, name));
    const key = JSON.stringify(path);
    // A field decides nothing the second time.
    if (!keys.has(key)) keys.set(key, { path, direction });
  }
  return [...keys.values()];
}

function readLimit(limit: unknown): number {
  const number = Number(limit);
  const isNumber = typeof limit === 'number' || typeof limit === 'bigint';
  if (isNumber && Number.isInteger(number) && number >= 1 && number <= searchLimits.limit) return number;
  throw searchProblem('limit', `expected an integer from 1 to ${searchLimits.limit}, got ${kindOf(limit)}`);
}

function readCursorText(cursor: unknown): string {
  if (typeof cursor !== 'string') {
    throw searchProblem('cursor', `expected the text of meta.cursor, got ${kindOf(cursor)}`);
  }
  if (cursor.length > searchLimits.cursorBytes) {
    throw searchProblem(
      'cursor',
      `expected at most ${searchLimits.cursorBytes} characters, got ${cursor.length}`,
    );
  }
  return cursor;
}

/** Paths as texts (`settings.title`) or as arrays of names. */
function readFields(fields: unknown, target: SearchTarget): readonly FieldPath[] {
  const elements = readArray(fields, 'fields', searchLimits.fields);
  if (elements.length === 0) {
    throw searchProblem('fields', 'expected at least one field; leave it out for all of them');
  }
  return elements.map((element, index) => {
    const at = `fields[${index}]`;
    if (typeof element === 'string') return findField(target, element, at).path;
    if (!Array.isArray(element)) {
      throw searchProblem(at, `expected a path as a text or as an array of names, got ${kindOf(element)}`);
    }
    const names = element.map((name: unknown, part) => {
      if (typeof name === 'string') return name;
      throw searchProblem(`${at}[${part}]`, `expected a name, got ${kindOf(name)}`);
    });
    return fieldAt(target, names, at).path;
  });
}

function readArray(value: unknown, at: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) throw searchProblem(at, `expected an array, got ${kindOf(value)}`);
  if (value.length > most) throw searchProblem(at, `expected at most ${most} elements, got ${value.length}`);
  return value;
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

/**
 * The filter of a search, for rows of any sink and for records as they came, one by one: of every column, searchable or
 * not. Of an entity whose arrays are exploded its own records are meant. Throws SEARCH_INVALID.
 */
export function rowMatcher(
  { connector, entity, table }: Readonly<{ connector: ConnectorName; entity: Entity; table: EntityTable }>,
  filter: JsonValue,
) {
  const own: Entity = {
    ...entity,
    explode: null,
    explodedTable: null,
    searchable: new Map([
      ...everyColumn(table.columns),
      ...(entity.explode === null ? entity.searchable : []),
    ]),
  };
  const target = searchTarget(own, connector, () => table);
  const meets = conditionMatcher(readFilter(filter, target, '--where'));
  const indexes = new Map(table.columns.map(({ name }, index) => [name, index]));
  const fields = [...target.fields.values()].map((field) => ({
    name: field.name,
    read: fieldReader(field),
    sources: field.sources.map((source) =>
      source.kind === 'column' ? (indexes.get(source.column) ?? -1) : -1,
    ),
    members: field.sources.map((source) => (source.kind === 'extra' ? source.name : source.column)),
  }));
  const matching = (valueOf: (field: (typeof fields)[number]) => JsonValue): boolean => {
    const record = Object.create(null) as Record<string, JsonValue>;
    for (const field of fields) record[field.name] = valueOf(field);
    return meets(record);
  };
  return {
    // A field without a column is a member of `_extra`.
    row: ({ values, extra }: Pick<RowContent, 'values' | 'extra'>) =>
      matching(({ read, sources }) =>
        read(sources.map((index) => (index < 0 ? extra : (values[index] ?? null)))),
      ),
    // Whatever types its values have: it may have been refused for them.
    record: (record: JsonObject) =>
      matching(
        ({ members }) =>
          members.map((name) => memberOf(record, name) ?? null).find((one) => one !== null) ?? null,
      ),
  };
}
