import { readJsonIfWhole, type JsonObject, type JsonValue } from './json.ts';
import type { EntityName } from './names.ts';

export type FieldType = 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'any';

/** A stored value: booleans as 0/1, `object`, `array` and `any` as JSON text, an absent field as null. */
export type ColumnValue = string | number | bigint | null;

export interface Column {
  readonly name: string;
  readonly type: FieldType;
  /**
   * Added for a field that the definition does not declare, or has not always declared: its values are compared as if
   * they still lay in `_extra`.
   */
  readonly isEvolved?: true;
}

/**
 * Where an entity's records land. `columns` holds the declared and injected fields in the definition's order, without
 * exploded arrays; `key` names the NOT NULL columns that identify a record.
 */
export interface EntityTable {
  readonly entity: EntityName;
  readonly columns: readonly Column[];
  readonly key: readonly string[];
}

/** A record ready to be stored; the engine prepares it once and sinks only bind it. */
export interface PreparedRecord {
  /** Canonical text of the key's parts (a JSON array): two records are the same row when their texts are equal. */
  readonly keyText: string;
  /**
   * Keyed hash (`rawKey` of `startRun`) of the bytes that it came as, or of its values where they are not known: a row
   * with the same hash was stored from the same record. Empty: not known. Where hashes differ, `compare` tells.
   */
  readonly hash: string;
  /** Values in the order of `EntityTable.columns`. */
  readonly values: readonly ColumnValue[];
  /** JSON object of the fields that have no column or do not fit it without loss; null where there are none. */
  readonly extra: string | null;
  /** Its file; null where it has none. Absent where the entity's records have no files. */
  readonly file?: RecordFile | null;
  /**
   * Only a part of the record came: a stored row stays as it is, and where there is none, this is kept in its place.
   * Absent: all of it came.
   */
  readonly partial?: Quarantined;
  /** Compares its values with those of a row. */
  readonly compare: CompareContent;
  /**
   * Gives the whole record, with the same key and hash, for a record that was not parsed because its row has the same
   * hash: that one has its key's values and nulls. Called only where the record must be written after all.
   */
  readonly whole?: () => PreparedRecord;
  /** The row that the sink's stored keys gave for it. */
  readonly found?: object | undefined;
}

/** The content of a row: `values` are in the order of `columns`, which need not be those of the definition. */
export interface RowContent extends Pick<PreparedRecord, 'values' | 'extra'> {
  readonly columns: readonly Column[];
}

/** `volatile`: only in fields whose values change nothing by themselves. */
export type ContentDifference = 'same' | 'volatile' | 'content';

export type CompareContent = (
  record: Pick<PreparedRecord, 'values' | 'extra'>,
  row: RowContent,
) => ContentDifference;

/** The text of a key's parts: parts that a store reads back give the same text again. */
export function keyTextOf(parts: readonly ColumnValue[]): string {
  let text = '[';
  for (const part of parts) {
    if (text !== '[') text += ',';
    text += typeof part === 'string' ? JSON.stringify(part) : String(part);
  }
  return `${text}]`;
}

/** The parts of a key's text (`keyTextOf`) as columns hold them; null for a text that is no key of `length` parts. */
export function keyPartsOf(keyText: string, length: number): readonly ColumnValue[] | null {
  // Keys come from the command line too: a text that is no JSON is no key.
  const parts: unknown = readJsonIfWhole(keyText);
  return Array.isArray(parts) && parts.length === length && parts.every(isColumnValue) ? parts : null;
}

function isColumnValue(value: unknown): value is ColumnValue {
  return (
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  );
}

/** A downloadable file, as described by its record. Name and type are hostile input. */
export interface RecordFile {
  /** Parameters of the `download` that requests it. */
  readonly params: Params;
  /**
   * 32 hex digits over the parameters and the fields that the definition takes for the file's version: another value is
   * another file.
   */
  readonly version: string;
  readonly name: string | null;
  readonly contentType: string | null;
  /** Size in bytes; null where the record does not state it. */
  readonly size: number | null;
}

/** Why a record cannot be stored as it is. */
export type QuarantineReason =
  'not-an-object' | 'key-missing' | 'key-type' | 'too-deep' | 'too-large' | 'schema-change' | 'partial';

/** A record that cannot be stored as it is, kept whole. */
export interface Quarantined {
  readonly entity: EntityName;
  readonly reason: QuarantineReason;
  /** Explanation for people: the field, and the expected value. */
  readonly detail: string;
  /**
   * The record as JSON text (cut to a limit only when `reason` is `too-large` or `too-deep`; then `detail` says so).
   */
  readonly record: string;
  /** The record's key as text; absent where it is not known. */
  readonly keyText?: string;
}

/**
 * A field that came although the definition does not declare it (`undeclared`), or that does not fit its column
 * (`misfit`).
 */
export interface FieldDrift {
  readonly entity: EntityName;
  /**
   * Name as the service spells it, cut to 200 characters. Hostile: never an identifier unless it passes
   * `isDeclaredName`.
   */
  readonly field: string;
  readonly kind: 'undeclared' | 'misfit';
  /** JSON type of the field's value; `number` has a fraction. */
  readonly type: JsonType;
  /** Its record was not stored because of it: it stays unknown. */
  readonly isRefused?: true;
}

export type JsonType = 'null' | 'boolean' | 'integer' | 'number' | 'string' | 'array' | 'object';

/** Values of declared parameters, in the API's words. */
export type Params = JsonObject;

export const noCounts = {
  fetched: 0,
  filtered: 0,
  quarantined: 0,
  inserted: 0,
  updated: 0,
  duplicate: 0,
  unchanged: 0,
};

/** Fetched = the sum of all others; checked in every commit and again at the end of the run. */
export type PageCounts = Readonly<typeof noCounts>;

/** Names of the counts, as `_sync_counts` and messages use them. */
// `as`: the object has these names and no others.
export const countNames = Object.keys(noCounts) as (keyof PageCounts)[];

export function addCounts(left: PageCounts, right: PageCounts): PageCounts {
  const sum = { ...left };
  for (const name of countNames) sum[name] += right[name];
  return sum;
}

export interface EntityCounts {
  readonly entity: EntityName;
  readonly counts: PageCounts;
}

/** Adds up the counts of each entity, in the order in which the entities first appear. */
export function sumsByEntity(all: readonly EntityCounts[]): readonly EntityCounts[] {
  const sums = new Map<EntityName, PageCounts>();
  for (const { entity, counts } of all) sums.set(entity, addCounts(sums.get(entity) ?? noCounts, counts));
  return Array.from(sums, ([entity, counts]) => ({ entity, counts }));
}

/** True when every fetched record is accounted for. */
export function addsUp(counts: PageCounts): boolean {
  const { fetched, filtered, quarantined, inserted, updated, duplicate, unchanged } = counts;
  return fetched === filtered + quarantined + inserted + updated + duplicate + unchanged;
}

/** Descriptions of a table in a definition, for its readers. They influence neither reading nor storing. */
export interface DescribedTable {
  readonly entity: EntityName;
  /** Null: the definition says nothing. */
  readonly description: string | null;
  /** Column -> its meaning. */
  readonly columns: Readonly<Record<string, string>>;
  readonly derived: readonly DerivedColumn[];
  readonly joins: readonly TableJoin[];
}

/**
 * How a column of views is derived. `texts`: all texts at `path` in the first of the fields `from` that has a value,
 * joined. Otherwise the one value at `path` of one field, as a value of this type (`unix`, `unixMs`: a timestamp, from
 * seconds or milliseconds since 1970). Null where there is none, or where it is no value of the type. A field with a
 * derived time, date or decimal is one in targets of publications.
 */
export const derivedKinds = [
  'texts',
  'string',
  'integer',
  'number',
  'boolean',
  'timestamp',
  'unix',
  'unixMs',
  'date',
  'decimal',
] as const;

export type DerivedKind = (typeof derivedKinds)[number];

export interface DerivedColumn {
  readonly name: string;
  /** Columns. Not empty. Those of `texts` hold JSON. */
  readonly from: readonly string[];
  /** Empty: the field itself. `*` stands for any name or array position, in `texts` alone. */
  readonly path: readonly string[];
  readonly as: DerivedKind;
}

/** Type for people and the catalogue. */
export function derivedType(as: DerivedKind): Exclude<DerivedKind, 'texts' | 'unix' | 'unixMs'> {
  if (as === 'texts') return 'string';
  return as === 'unix' || as === 'unixMs' ? 'timestamp' : as;
}

/** A row's `columns` are the `parentColumns` of at most one row of the parent. */
export interface TableJoin {
  readonly columns: readonly string[];
  readonly parent: EntityName;
  readonly parentColumns: readonly string[];
}

/** Stands for a service's own words about a masked entity. */
export const hiddenWords = '[hidden: the entity has a mask]';

/** Keeps values of an entity's records from being stored and shown. Holds no key that can be printed. */
export interface RecordMask {
  /** Changes with everything that decides how a value is masked: the rules and the key. Gives no key away. */
  readonly fingerprint: string;
  /** Id of the key for hashes. Empty with the fingerprint where the key is missing. */
  readonly keyId: string;
  /** Masks a record for storing and showing. A value other than an object has no fields to go by: null. */
  readonly record: (value: JsonValue) => JsonValue;
  /** Masks a stored record, whose values another mask may have changed: as `record`, but hashes stay as they are. */
  readonly stored: (value: JsonValue) => JsonValue;
  /**
   * Mixes a sink's secret with the key: without the key, a hash made with the result reveals nothing about its input.
   */
  readonly rawKey: (secret: string) => string;
  /** Encrypts texts that may hold values from requests to the service. */
  readonly seal: (text: string) => string;
  /** Null: it was sealed with another key, or is damaged. */
  readonly open: (sealed: string) => string | null;
}
