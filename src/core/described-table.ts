import type { EntityName } from './names.ts';

/** What a definition says of a table to those who read it. It decides neither what is read nor what is stored. */
export interface DescribedTable {
  readonly entity: EntityName;
  /** Null: the definition says nothing. */
  readonly description: string | null;
  /** Column -> what it means. */
  readonly columns: Readonly<Record<string, string>>;
  readonly derived: readonly DerivedColumn[];
  readonly joins: readonly TableJoin[];
}

/**
 * What a column of views is made of: `texts`: all texts at `path` in the first of the fields `from` that has a value,
 * joined. Else the one value at `path` of one field, as a value of this type (`unix`, `unixMs`: a timestamp, from
 * seconds or milliseconds since 1970). Null where there is none, or one that is no value of the type.
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

/** For people and the catalogue. */
export function derivedType(as: DerivedKind): 'string' | 'integer' | 'number' | 'boolean' | 'timestamp' {
  if (as === 'texts') return 'string';
  return as === 'unix' || as === 'unixMs' ? 'timestamp' : as;
}

/** A row's `columns` are the `parentColumns` of at most one row of the parent. */
export interface TableJoin {
  readonly columns: readonly string[];
  readonly parent: EntityName;
  readonly parentColumns: readonly string[];
}
