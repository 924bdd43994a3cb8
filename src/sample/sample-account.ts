import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { timeMs } from '../core/times.ts';
import { badParameter, notFound } from '../service/api-error.ts';
import type { ProviderFile } from '../service/provider.ts';
import type { Thing, Things } from './sample-things.ts';
import { textOf } from './sample-values.ts';

/**
 * `small`: a few seconds' walk with something of everything. `tiny`: few calls. `{ members }`: one mailing list with
 * that many members, up to a million; a workspace of notes and a library are then `tiny`.
 */
export type SampleSize = 'tiny' | 'small' | { readonly members: number };

/** A third-party account as its connector sees it. Tests wrap it to make it behave otherwise. */
export interface SampleAccount {
  /**
   * `params` as the definition types them. Throws `ApiError` 404 for an unknown parent, 400 for a value it cannot use.
   */
  list(entity: string, params: Params): Listing;
  /** Null when there is no such record. */
  get(entity: string, params: Params): JsonObject | null;
  /** Null when there is no such file. Absent: the account has no files. */
  file?(entity: string, params: Params): ProviderFile | null;
}

/** The records that a list call names, filtered and sorted, before a page is cut out of them. */
export interface Listing {
  /** Gives at most `limit` records from `offset` (from 0); fewer only at the end. */
  slice(offset: number, limit: number): readonly JsonObject[];
  /** Metadata of the connector about the list, without page tokens; null: there is none. */
  readonly metadata: JsonObject | null;
}

export function listingOf(records: readonly JsonObject[], metadata: JsonObject | null = null): Listing {
  return { slice: (offset, limit) => records.slice(offset, offset + limit), metadata };
}

/** A listing of so many records, each made from its position (from 0) when a page with it is asked for. */
export function computedListing(size: number, recordAt: (position: number) => JsonObject): Listing {
  const slice = (offset: number, limit: number): readonly JsonObject[] =>
    Array.from({ length: Math.max(0, Math.min(limit, size - offset)) }, (_, at) => recordAt(offset + at));
  return { slice, metadata: null };
}

/** One entity of an account. */
export interface SampleEntity {
  readonly list: (params: Params) => Listing;
  readonly get?: (params: Params) => JsonObject | undefined;
}

/** An account of these entities, by their names. */
export function accountOf(entities: Readonly<Record<string, SampleEntity>>): SampleAccount {
  return {
    list(entity, params) {
      const listed = entities[entity];
      if (listed === undefined) throw notFound(`The sample account has nothing under '${entity}'.`);
      return listed.list(params);
    },
    get: (entity, params) => entities[entity]?.get?.(params) ?? null,
  };
}

interface EntityOptions {
  /** The parameter of `get` that names the thing; absent: there is no `get`. */
  readonly id?: string;
  /** The kind of thing that records are listed under, and the parameter that names it. */
  readonly below?: readonly [string, string] | undefined;
  /** See `filterRecords`. */
  readonly filters?: readonly string[];
  readonly where?: (thing: Thing, params: Params) => boolean;
}

/** An entity with a record for each thing of a kind, in the order in which the things came. */
export function entityOf(
  things: Things,
  kind: string,
  record: (thing: Thing) => JsonObject,
  { id, below, filters = [], where = () => true }: EntityOptions,
): SampleEntity {
  return {
    list: (params) => {
      const parent = below === undefined ? undefined : knownThing(things, below[0], params[below[1]]);
      const listed = things.of(kind, parent).filter((thing) => where(thing, params));
      return listingOf(sortRecords(filterRecords(listed.map(record), filters, params), params));
    },
    get: (params) => {
      const thing = id === undefined ? undefined : things.named(kind, textOf(params[id]));
      return thing === undefined || !where(thing, {}) ? undefined : record(thing);
    },
  };
}

/** Throws 404 where there is none. */
export function knownThing(things: Things, kind: string, id: JsonValue | undefined): Thing {
  const thing = things.named(kind, textOf(id));
  if (thing !== undefined) return thing;
  throw notFound(`There is nothing under ${kind} with the id ${JSON.stringify(textOf(id).slice(0, 60))}.`);
}

/**
 * Keeps the records that pass the given parameters. `fields`: dotted paths of the fields that parameters are held
 * against: those of the same name, with or without `_at`; `since_<name>` and `<name>_since` (and `before`, both
 * inclusive) hold its time against theirs, and a record without a time is left out. Throws 400 for a time in another
 * form than ISO 8601.
 */
export function filterRecords(
  records: readonly JsonObject[],
  fields: readonly string[],
  params: Params,
): readonly JsonObject[] {
  const tests = Object.entries(params).flatMap(([name, value]) => {
    const [, bound] = /(since|before)/.exec(name) ?? [];
    const plain = name.replace(/^(since|before)_|_(since|before)$/, '');
    const path = fields.find((field) => [plain, `${plain}_at`].includes(field.split('.').at(-1) ?? ''));
    if (path === undefined) return [];
    if (bound === undefined) return [(record: JsonObject) => fieldAt(record, path) === value];
    const passes = timeTest(name, value);
    return [
      (record: JsonObject) => {
        const time = timeAt(record, path);
        return time !== null && passes(time);
      },
    ];
  });
  return records.filter((record) => tests.every((test) => test(record)));
}

/** Whether a time passes a parameter with `since` or `before` in its name. Throws 400 for a value that is no time. */
export function timeTest(name: string, value: JsonValue): (time: number) => boolean {
  const bound = timeMs(value);
  if (bound === null) {
    throw badParameter(
      name,
      `Invalid value for parameter '${name}'; expected an ISO 8601 time such as 2015-10-21T15:41:36+00:00`,
    );
  }
  return name.includes('since') ? (time) => time >= bound : (time) => time <= bound;
}

/** By `sort_field` and `sort_dir` if the former is given, else as they are. Equal values keep their order. */
function sortRecords(records: readonly JsonObject[], params: Params): readonly JsonObject[] {
  const path = params['sort_field'];
  if (typeof path !== 'string') return records;
  const sign = params['sort_dir'] === 'DESC' ? -1 : 1;
  const timeOf = (record: JsonObject): number => timeAt(record, path) ?? 0;
  return records.toSorted((left, right) => sign * (timeOf(left) - timeOf(right)));
}

function timeAt(record: JsonObject, path: string): number | null {
  const value = fieldAt(record, path);
  return typeof value === 'string' && value !== '' ? Date.parse(value) : null;
}

function fieldAt(record: JsonObject, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = record;
  for (const name of path.split('.')) value = isJsonObject(value) ? value[name] : undefined;
  return value;
}

/** Makes a value for each key once, and keeps it while the key exists. */
export function remembered<Key extends object, Value extends object | string>(
  make: (key: Key) => Value,
): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    const value = known.get(key) ?? make(key);
    known.set(key, value);
    return value;
  };
}
