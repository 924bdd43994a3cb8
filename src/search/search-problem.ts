import { SyncError } from '../core/errors.ts';

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

/** What came, for messages: its kind, never its content. */
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

/** What a search may ask: enough for any sensible one, and little enough that none is a burden. */
export const searchLimits = {
  /** Conditions inside conditions. */
  depth: 8,
  /** Conditions in all. */
  nodes: 64,
  /** Values of one `in`. */
  inValues: 500,
  /** Characters of a `like` pattern, and of what `contains`, `keyword` and `fuzzy` look for. */
  patternChars: 256,
  /** Words of one `keyword` or `fuzzy`. */
  words: 32,
  sortFields: 8,
  fields: 64,
  pathParts: 8,
  limit: 1_000,
  defaultLimit: 1_000,
  cursorBytes: 8 * 1024,
  /** Of the query as JSON text. */
  queryBytes: 64 * 1024,
} as const;
