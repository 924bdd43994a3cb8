import type { JsonObject } from '../../../src/core/json.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import {
  type Answer,
  AnswerInstead,
  type FakeRequest,
  jsonAnswer,
  matchPath,
  startFakeServer,
} from '../upstream/fake-server.ts';

/** A record of a made-up service, with the parameters that lead to its listing. */
interface Row {
  readonly record: JsonObject;
  readonly params: Readonly<Record<string, string>>;
}

/** A listing as the documentation of the service describes it. */
export interface Listing {
  /** The records, in the order in which they were made. */
  readonly records: readonly JsonObject[];
  readonly kind: string;
  readonly request: FakeRequest;
  /** `http://127.0.0.1:PORT/base`, for addresses of further pages. */
  readonly url: string;
}

interface Kind {
  /** Below `base`; a name in it, or in `needs`, is one of the row's `params`. */
  readonly path: string;
  /** Parameters of the query that the listing cannot do without. */
  readonly needs?: readonly string[];
  readonly rows: readonly Row[];
}

/** A service that exists on paper only: written from its documentation, and not from the definition that reads it. */
export interface ReadyService {
  /** Name of the definition. */
  readonly name: string;
  readonly base: string;
  /** Title of the way to sign in, and what a user has to give. */
  readonly signIn: readonly [title: string, credentials: JsonObject];
  readonly settings?: JsonObject;
  readonly identity: string;
  readonly kinds: Readonly<Record<string, Kind>>;
  readonly isKnown: (request: FakeRequest) => boolean;
  /** Calls besides the listings, below `base`. */
  readonly others: Readonly<Record<string, JsonObject>>;
  /** Parameters of the query that the service knows; it refuses others. */
  readonly knows: readonly string[];
  readonly list: (listing: Listing) => Answer;
  readonly error: (status: number, text: string) => JsonObject;
  /** The kind that a test changes: it has at least three pages. */
  readonly long: string;
  /** Kinds of which a test deletes a record, and the rest of it that listings show afterwards (null: none). */
  readonly deleted: Readonly<Record<string, (record: JsonObject) => JsonObject | null>>;
  /** Whether the record is one that a reader wants to have; absent: every record is. */
  readonly isThere?: (record: JsonObject) => boolean;
  /** The record after a change, which every listing of changes shows. */
  readonly changed: (record: JsonObject) => JsonObject;
  /** The parameter that asks for changes only; null: the service has none. */
  readonly sinceParam: string | null;
}

/** So many records, the number of each from 1. */
export function rows(count: number, record: (n: number) => JsonObject, params: Row['params'] = {}): Row[] {
  return Array.from({ length: count }, (_, index) => ({ record: record(index + 1), params }));
}

/** The time of the record of this number, a minute after the one before. */
export function time(n: number): string {
  return new Date(Date.UTC(2026, 0, 1) + n * 60_000).toISOString().replace('.000', '');
}

export function unix(n: number): number {
  return Date.UTC(2026, 0, 1) / 1000 + n * 60;
}

/** A whole number of the query; another text is refused. */
export function whole({ query }: FakeRequest, name: string, otherwise: number, most: number): number {
  const text = query.get(name);
  if (text === null) return otherwise;
  if (/^\d+$/.test(text) && Number(text) <= most) return Number(text);
  throw new AnswerInstead(jsonAnswer(400, { message: `${name} must be 0 to ${most}` }));
}

/** Records that the field says are at least as new as this text of the query. */
export function since(
  records: readonly JsonObject[],
  field: string,
  text: string | null,
): readonly JsonObject[] {
  if (text === null) return records;
  const least = Date.parse(text);
  if (Number.isNaN(least)) throw new AnswerInstead(jsonAnswer(400, { message: `${text} is no time` }));
  return records.filter((record) => Date.parse(textOf(record[field])) >= least);
}

/** By the field, oldest first; the order of making decides between equals. */
export function sortedBy(records: readonly JsonObject[], field: string): readonly JsonObject[] {
  return records.toSorted((left, right) => {
    const [one, other] = [left[field] ?? '', right[field] ?? ''];
    return one < other ? -1 : one > other ? 1 : 0;
  });
}

export type RunningService = Awaited<ReturnType<typeof startReadyService>>;

export async function startReadyService(service: ReadyService) {
  const { base, kinds, isKnown, error, knows, others, isThere = () => true } = service;
  const stored = new Map(Object.entries(kinds).map(([name, kind]) => [name, [...kind.rows]]));
  const refused = (status: number, text: string): Answer => jsonAnswer(status, error(status, text));
  const answer = (request: FakeRequest): Answer => {
    if (!isKnown(request)) return refused(401, 'not signed in');
    if (request.method !== 'GET') return refused(405, 'GET only');
    const unknown = [...request.query.keys()].find((name) => !knows.includes(name));
    if (unknown !== undefined) return refused(400, `unknown parameter ${unknown}`);
    const below = request.path.slice(base.length);
    const other = request.path.startsWith(base) ? others[below] : undefined;
    if (other !== undefined) return jsonAnswer(200, other);
    const found = Object.entries(kinds).find(([, { path }]) => matchPath(base + path, request.path) !== null);
    if (found === undefined) return refused(404, `no ${request.path}`);
    const [kind, { path, needs = [] }] = found;
    const given = { ...matchPath(base + path, request.path) };
    for (const name of needs) given[name] = request.query.get(name) ?? '';
    const missing = needs.find((name) => given[name] === '');
    if (missing !== undefined) return refused(400, `${missing} is missing`);
    const records = (stored.get(kind) ?? [])
      .filter(({ params }) => Object.entries(given).every(([name, value]) => params[name] === value))
      .map(({ record }) => record);
    return service.list({ records, kind, request, url: server.origin + base });
  };
  const server = await startFakeServer({
    answer,
    credentialOf: (request) => (isKnown(request) ? 'right' : 'wrong'),
  });
  const rowsOf = (kind: string): Row[] => stored.get(kind) ?? [];
  return Object.assign(server, {
    baseUrl: server.origin + base,
    /** Records of this kind that are not deleted. */
    rowsOf: (kind: string): readonly Row[] => rowsOf(kind).filter(({ record }) => isThere(record)),
    /** Changes the record at this place, or removes it (null). */
    change(kind: string, at: number, to: (record: JsonObject) => JsonObject | null) {
      const known = rowsOf(kind);
      const row = known[at];
      const record = row === undefined ? null : to(row.record);
      if (row === undefined || record === null) known.splice(at, 1);
      else known[at] = { ...row, record };
    },
    /** Takes the last record away. */
    take: (kind: string): readonly Row[] => rowsOf(kind).splice(-1),
    put: (kind: string, taken: readonly Row[]): void => void rowsOf(kind).push(...taken),
    /** Whether a request asks for a listing of this kind, with these parameters in its path. */
    asksFor:
      (kind: string, params: Row['params'] = {}) =>
      ({ path }: { readonly path: string }) => {
        const found = matchPath(base + (kinds[kind]?.path ?? ''), path);
        return (
          found !== null && Object.entries(found).every(([name, value]) => (params[name] ?? value) === value)
        );
      },
  });
}
