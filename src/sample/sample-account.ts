import { isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { badParameter, notFound } from '../service/api-error.ts';
import type { ProviderFile } from '../service/provider.ts';

/**
 * `small`: a few seconds' walk with something of everything. `tiny`: few calls. `{ members }`: one mailing list with
 * that many members, up to a million; a workspace of notes and a library are then `tiny`.
 */
export type SampleSize = 'tiny' | 'small' | { readonly members: number };

export interface SampleAccountOptions {
  /** One of `sampleDefinitions`. */
  readonly definitionName: string;
  /** Any integer: the same seed and size make the same account. */
  readonly seed: number;
  readonly size: SampleSize;
  /** 0 (default) to `maxSampleRevision`: the account after so many rounds of changes. See `revisionTime`. */
  readonly revision?: number;
}

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

/** What an account has of one entity. */
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

/** The records that a list call names, filtered and sorted, before a page is cut out of them. */
export interface Listing {
  /** At most `limit` records from `offset` (from 0); fewer only at the end. */
  slice(offset: number, limit: number): readonly JsonObject[];
  /** What the connector says about the list besides page tokens; null where it says nothing. */
  readonly metadata: JsonObject | null;
}

export function listingOf(records: readonly JsonObject[], metadata: JsonObject | null = null): Listing {
  return { slice: (offset, limit) => records.slice(offset, offset + limit), metadata };
}

/** A listing whose records are made when they are asked for: position (from 0) -> record. */
export function computedListing(
  size: number,
  recordAt: (position: number) => JsonObject,
  metadata: JsonObject,
): Listing {
  const slice = (offset: number, limit: number): readonly JsonObject[] =>
    Array.from({ length: Math.max(0, Math.min(limit, size - offset)) }, (_, at) => recordAt(offset + at));
  return { slice, metadata };
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
    const time = timeParameter(name, value);
    return [
      (record: JsonObject) => {
        const own = timeAt(record, path);
        return own !== null && (bound === 'since' ? own >= time : own <= time);
      },
    ];
  });
  return records.filter((record) => tests.every((test) => test(record)));
}

/** By `sort_field` and `sort_dir` if the former is given, else as they are. Equal values keep their order. */
export function sortRecords(records: readonly JsonObject[], params: Params): readonly JsonObject[] {
  const path = params['sort_field'];
  if (typeof path !== 'string') return records;
  const sign = params['sort_dir'] === 'DESC' ? -1 : 1;
  const timeOf = (record: JsonObject): number => timeAt(record, path) ?? 0;
  return records.toSorted((left, right) => sign * (timeOf(left) - timeOf(right)));
}

/**
 * Milliseconds since the epoch of an ISO 8601 parameter, in UTC unless it names a zone; throws 400 for anything else.
 */
export function timeParameter(name: string, value: JsonValue): number {
  if (typeof value === 'string' && isoTime.test(value)) {
    const hasZone = value.length === 10 || /(Z|[+-]\d\d:?\d\d)$/.test(value);
    const time = Date.parse(hasZone ? value : `${value}Z`);
    if (!Number.isNaN(time)) return time;
  }
  throw badParameter(
    name,
    `Invalid value for parameter '${name}'; expected an ISO 8601 time such as 2015-10-21T15:41:36+00:00`,
  );
}

const isoTime = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?$/;

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
export function remembered<Key extends object, Value extends object>(
  make: (key: Key) => Value,
): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    const value = known.get(key) ?? make(key);
    known.set(key, value);
    return value;
  };
}
