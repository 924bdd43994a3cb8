import { fieldAt, findField, type SearchTarget } from './search-target.ts';
import { readFilter } from './read-filter.ts';
import { kindOf, memberPath, searchLimits, searchProblem, shownName } from './search-problem.ts';
import type { FieldPath, SearchRequest, SortKey } from './search-request.ts';

type Members = Readonly<Record<string, unknown>>;

/**
 * Reads the untrusted `params` of a search: query, limit, cursor, fields; null counts as absent, and what else there is
 * at the top is ignored. Throws `SyncError` SEARCH_INVALID with the place as context `path`.
 */
export function readSearchRequest(params: unknown, target: SearchTarget): SearchRequest {
  const { query, limit, cursor, fields } = readMembers(params, 'params', null);
  checkSize(query);
  const { filter, sort } = readMembers(query, 'query', ['filter', 'sort']);
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
    const entries = Object.entries(readMembers(element, at, null));
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
    return fieldAt(
      target,
      element.map((name: unknown, part) => readName(name, `${at}[${part}]`)),
      at,
    ).path;
  });
}

function readName(name: unknown, at: string): string {
  if (typeof name !== 'string') throw searchProblem(at, `expected a name, got ${kindOf(name)}`);
  return name;
}

function readArray(value: unknown, at: string, most: number): readonly unknown[] {
  if (!Array.isArray(value)) throw searchProblem(at, `expected an array, got ${kindOf(value)}`);
  if (value.length > most) throw searchProblem(at, `expected at most ${most} elements, got ${value.length}`);
  return value;
}

/** `known`: no other member may be there, for a filter that is not read would find everything. */
function readMembers(value: unknown, at: string, known: readonly string[] | null): Members {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw searchProblem(at, `expected an object, got ${kindOf(value)}`);
  }
  const entries = Object.entries(value);
  const unknown = known === null ? undefined : entries.find(([name]) => !known.includes(name));
  if (unknown !== undefined) {
    throw searchProblem(at, `expected ${known?.join(' and ') ?? ''}, got ${shownName(unknown[0])} too`);
  }
  const members = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of entries) members[name] = member;
  return members;
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

/**
 * At most so many bytes as JSON text. Reads no further than that, without recursion: the query is not trusted yet.
 */
function checkSize(query: unknown): void {
  let bytes = 0;
  const waiting = [query];
  while (waiting.length > 0) {
    const value = waiting.pop();
    bytes += 1 + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
    if (typeof value === 'number' || typeof value === 'bigint') bytes += String(value).length;
    if (bytes + waiting.length > searchLimits.queryBytes) {
      throw searchProblem('query', `expected at most ${searchLimits.queryBytes} bytes of JSON`);
    }
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, member] of Object.entries(value)) {
      if (!Array.isArray(value)) bytes += Buffer.byteLength(name) + 3;
      waiting.push(member);
    }
  }
}
