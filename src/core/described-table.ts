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
 * A column of views: the texts at `path` in the first of the fields `from` that has a value, joined; null where there
 * are none.
 */
export interface DerivedColumn {
  readonly name: string;
  /** Columns that hold JSON. Not empty. */
  readonly from: readonly string[];
  /** `*` stands for any name or array position. */
  readonly path: readonly string[];
}

/** A row's `columns` are the `parentColumns` of at most one row of the parent. */
export interface TableJoin {
  readonly columns: readonly string[];
  readonly parent: EntityName;
  readonly parentColumns: readonly string[];
}
