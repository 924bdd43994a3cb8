import type { JsonObject } from '../core/json.ts';

/** A search, read from untrusted JSON and checked: everything in it can be asked, and is within the limits. */
export interface SearchRequest {
  /** Null: every record. */
  readonly filter: Condition | null;
  /** Empty: by rank where the filter has `keyword` or `fuzzy`, else in the order of the rows' first arrival. */
  readonly sort: readonly SortKey[];
  readonly limit: number;
  /** As it came; read where the query runs. */
  readonly cursor: string | null;
  /** Null: every searchable field. */
  readonly fields: readonly FieldPath[] | null;
}

/**
 * A searchable field, then members inside its value. Not empty. A member's name may hold dots: in every object the rest
 * of the path is tried as one name first.
 */
export type FieldPath = readonly string[];

/** `bigint`: an integer that a double cannot hold. Numbers are compared by what they are worth, whatever they are. */
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

/** What is asked of the value at one path. */
export type FieldCondition =
  | { readonly kind: 'eq' | 'neq'; readonly path: FieldPath; readonly value: Scalar }
  | { readonly kind: Ordering; readonly path: FieldPath; readonly value: NonNullable<Scalar> }
  | { readonly kind: 'in'; readonly path: FieldPath; readonly values: readonly Scalar[] }
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
   * Exactly the searchable fields that were asked for; null where a record has no value. Integers that a double cannot
   * hold are bigints, and members may have any name: what writes them as JSON has to know both.
   */
  readonly data: readonly JsonObject[];
  readonly meta: {
    readonly has_more: boolean;
    /** Opaque; for the next page of the same query. Null: there is none. */
    readonly cursor: string | null;
    readonly took_ms: number;
  };
}
