import { SyncError, usage } from '../core/errors.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { Entity } from '../definitions/definition.ts';

/** A search, read from untrusted JSON and checked: everything in it can be asked, and is within the limits. */
export interface SearchRequest {
  /** Null: every record. */
  readonly filter: Condition | null;
  /** Empty: by rank where the filter has `keyword` or `fuzzy`, else in the order of the rows' first arrival. */
  readonly sort: readonly SortKey[];
  readonly limit: number;
  /** Cursor as received; it is read where the query runs. */
  readonly cursor: string | null;
  /** Null: every searchable field. */
  readonly fields: readonly FieldPath[] | null;
}

/**
 * A searchable field, then members inside its value. Not empty. A member's name may hold dots: in every object the rest
 * of the path is tried as one name first.
 */
export type FieldPath = readonly string[];

/** `bigint`: an integer that a double cannot hold. Numbers are compared by value, whatever their type. */
export type Scalar = string | number | bigint | boolean | null;

/**
 * Every condition is true or false of a record, never unknown: a value that is absent or null equals null alone, and
 * nothing else is true of it. `not` therefore is plain negation, and `neq` is the negation of `eq`.
 */
export type Condition =
  | { readonly kind: 'and'; readonly conditions: readonly Condition[] }
  | { readonly kind: 'or'; readonly conditions: readonly Condition[] }
  | { readonly kind: 'not'; readonly condition: Condition }
  | FieldCondition;

/** Condition on the value at one path. */
export type FieldCondition =
  /** The value is one of these: of `eq` and, under `not`, of `neq` there is one. */
  | { readonly kind: 'in'; readonly path: FieldPath; readonly values: readonly Scalar[] }
  | { readonly kind: Ordering; readonly path: FieldPath; readonly value: NonNullable<Scalar> }
  /** `%`: any run of characters, `_`: any one, `\` takes a sign as it is. Case counts. */
  | { readonly kind: 'like'; readonly path: FieldPath; readonly pattern: string }
  | WordCondition
  /** An element of the array is this value, or the text has this part. */
  | { readonly kind: 'contains'; readonly path: FieldPath; readonly value: Scalar }
  /** An element of the array meets the condition, whose paths begin inside the element. */
  | { readonly kind: 'any'; readonly path: FieldPath; readonly condition: Condition };

export type Ordering = 'gt' | 'gte' | 'lt' | 'lte';

/**
 * `keyword`: one of the words is a word of the text. `fuzzy`: the words stand in the text in this order, others may
 * stand between, each with a slip of the pen or two. Of an object or array: one of the texts inside. Folded words, not
 * empty.
 */
export interface WordCondition {
  readonly kind: 'keyword' | 'fuzzy';
  readonly path: FieldPath;
  readonly words: readonly string[];
}

export interface SortKey {
  readonly path: FieldPath;
  readonly direction: 'asc' | 'desc';
}

/** One page of a search. */
export interface SearchAnswer {
  /**
   * Exactly the requested searchable fields; null where a record has no value. Integers that a double cannot hold are
   * bigints, and members may have any name: a writer of JSON has to handle both.
   */
  readonly data: readonly JsonObject[];
  readonly meta: {
    readonly has_more: boolean;
    /** Opaque; for the next page of the same query. Null: there is none. */
    readonly cursor: string | null;
    readonly took_ms: number;
  };
}

/** A search that cannot be asked. `path` leads to the place, such as `query.filter.and[2].eq.status`. */
export function searchProblem(path: string, problem: string): SyncError {
  return new SyncError(`${path}: ${problem}`, {
    code: 'SEARCH_INVALID',
    recovery: 'stop',
    context: { path },
  });
}

export function tooSlow(deadlineMs: number): SyncError {
  return new SyncError(
    `The search took longer than ${deadlineMs} ms. Narrow it with eq, in, a range or the beginning of a text on a single field, or sort by less.`,
    { code: 'SEARCH_TOO_SLOW', recovery: 'stop', context: { deadlineMs } },
  );
}

/** Names the kind of a value for messages, never its content. */
export function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'number' && typeof value !== 'bigint') return 'an object';
  return Number.isFinite(Number(value)) ? `the number ${String(value).slice(0, 40)}` : 'no finite number';
}

/** A name that came from outside, as it can stand in a message or a path. */
export function shownName(name: string): string {
  return JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name);
}

/** One step further: a plain name behind a dot, any other in brackets. */
export function memberPath(path: string, name: string): string {
  return /^[A-Za-z_][\w.]{0,59}$/.test(name) ? `${path}.${name}` : `${path}[${shownName(name)}]`;
}

/** Limits of a search: high enough for any sensible one, low enough that none is a burden. */
export const searchLimits = {
  /** Conditions inside conditions. */
  depth: 8,
  /** Conditions in all. */
  nodes: 64,
  /** Values of one `in`. */
  inValues: 500,
  /** Characters of a `like` pattern, and of the texts that `contains`, `keyword` and `fuzzy` look for. */
  patternChars: 256,
  /** Words of one `keyword` or `fuzzy`. */
  words: 32,
  sortFields: 8,
  fields: 64,
  pathParts: 8,
  limit: 1_000,
  defaultLimit: 1_000,
  cursorBytes: 8 * 1024,
  /** Size of the query as JSON text. */
  queryBytes: 64 * 1024,
} as const;

/** Nothing that a search may ask is as deep. */
const maxLevels = 64;

/**
 * Limits the query to this many bytes as JSON text, and to a depth that copies of it can follow. Reads no further than
 * that, without recursion: the query is not trusted yet. Throws SEARCH_INVALID.
 */
export function checkSize(query: unknown, mostBytes: number): void {
  let bytes = 0;
  const waiting = [{ value: query, level: 1 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, level } = next;
    bytes += 1 + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
    if (typeof value === 'number' || typeof value === 'bigint') bytes += String(value).length;
    if (bytes + waiting.length > mostBytes) {
      throw searchProblem('query', `expected at most ${mostBytes} bytes of JSON`);
    }
    if (typeof value !== 'object' || value === null) continue;
    if (level > maxLevels) {
      throw searchProblem('query', `expected at most ${maxLevels} levels, this is deeper`);
    }
    for (const [name, member] of Object.entries(value) as readonly [string, unknown][]) {
      if (!Array.isArray(value)) bytes += Buffer.byteLength(name) + 3;
      waiting.push({ value: member, level: level + 1 });
    }
  }
}

// --- Parts of a query as people write them; `called`: what messages call the text

/** `send_time:desc,id`: ascending by default. */
export function readSort(text: string, called: string): JsonValue {
  return listOf(text, called).map((part) => {
    const [, name = part, direction = 'asc'] = /^(.+):(asc|desc)$/.exec(part) ?? [];
    if (/:[^.]*$/.test(name)) throw usage(`${called}: expected <field>:asc or <field>:desc, got "${part}".`);
    // A null prototype lets a field called `__proto__` be an ordinary name.
    const key = Object.create(null) as Record<string, string>;
    key[name] = direction;
    return key;
  });
}

/** Path as an array of names, in which a dot is no separator. */
export function pathOf({ searchable, fields }: Entity, name: string): readonly string[] {
  return searchable.has(name) || fields.has(name) ? [name] : name.split('.');
}

/** Throws USAGE, naming `called`, for an empty name. */
export function listOf(text: string, called: string): readonly string[] {
  const parts = text.split(',').map((part) => part.trim());
  if (parts.some((part) => part === '')) {
    throw usage(`${called}: expected names separated by commas, got "${text}".`);
  }
  return parts;
}
