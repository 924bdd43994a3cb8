import type { DerivedColumn } from '../core/described-table.ts';
import type { EntityName } from '../core/names.ts';
import type { EntityTable, FieldType, Params } from '../core/records.ts';
import type { Upstream } from './upstream/upstream.ts';

/** A connector type, parsed and cross-checked: what `config/definitions/<name>.yaml` says and nothing else. */
export interface Definition {
  readonly name: string;
  readonly title: string;
  /** Other names that people know it by, such as that of the product. */
  readonly aliases: readonly string[];
  /** UUID by which the API's catalog knows this connector type. */
  readonly id: string;
  /** SHA-256 hex of what the reading and storing of records depends on. */
  readonly contentHash: string;
  readonly rateLimit: { readonly requestsPerSecond: number; readonly concurrency: number };
  readonly errors: readonly ErrorPattern[];
  /**
   * What a new connector may bring to sign in with the third party: one of these. Empty: nothing is known about it,
   * anything goes.
   */
  readonly credentials: readonly CredentialShape[];
  /** In file order. Parents come before their children. */
  readonly entities: ReadonlyMap<EntityName, Entity>;
  /** How the third party itself is asked; null: only sample accounts can be served. */
  readonly upstream: Upstream | null;
}

/** One way to sign in: an object of texts. */
export interface CredentialShape {
  readonly title: string;
  readonly fields: ReadonlyMap<string, { readonly isSecret: boolean; readonly isRequired: boolean }>;
}

/** A known upstream answer: `status` and a fragment of the message (without case) decide what happens. */
export interface ErrorPattern {
  readonly status: number;
  readonly contains: string;
  readonly then: 'restart-walk' | 'skip-partition' | 'skip-entity' | 'throttle' | 'smaller-page' | 'stop';
  /** Only for this entity; absent: for all. */
  readonly entity: EntityName | null;
}

export interface Entity {
  readonly name: EntityName;
  /** What its records are, for people; null where the file does not say. */
  readonly description: string | null;
  /** What fields mean, for people: its own and those of exploded elements. */
  readonly descriptions: ReadonlyMap<string, string>;
  /**
   * Columns of the views of current rows that are made of others. They are stored nowhere, and no record changes with
   * them.
   */
  readonly derived: readonly DerivedColumn[];
  readonly fields: ReadonlyMap<string, FieldType>;
  readonly key: readonly string[];
  /** Top-level fields dropped on arrival: the only ones that ever are. */
  readonly ignored: ReadonlySet<string>;
  /** Dotted paths left out of the content hash; `*` stands for any one name or array position. */
  readonly volatile: readonly (readonly string[])[];
  /**
   * Text field -> addresses that the service has moved: a value that begins with `to` counts in the content hash as if
   * it began with `from`.
   */
  readonly moved: ReadonlyMap<string, MovedAddress>;
  /**
   * Field -> the field that the service sends in its place. The first is given the value of the second, which is kept
   * as well; a value that is such a copy is left out of the content hash.
   */
  readonly filledFrom: ReadonlyMap<string, string>;
  /**
   * What a search of the indexed store returns and can be asked for, by name. Empty: every column. The entity is in the
   * store where it has the action `context_store_search`.
   */
  readonly searchable: ReadonlyMap<string, SearchableField>;
  readonly actions: ReadonlyMap<ActionName, Action>;
  readonly pagination: Pagination;
  /**
   * Fields that every whole record has: one that lacks a value in any of them came in part, and is never stored as it
   * is. Empty: nothing is known.
   */
  readonly whole: readonly string[];
  /** Parameters that sort by a field no record ever moves backwards in; null where no such sort exists. */
  readonly order: { readonly field: string; readonly params: Params } | null;
  /**
   * Rows are only ever added, anywhere in a stable order, and never leave: pages that overlap prove a walk without a
   * sort.
   */
  readonly growsOnly: boolean;
  /** False: how many records a listing has by the answers' totals is used for nothing, because it is wrong. */
  readonly trustsTotal: boolean;
  /** How only what changed is asked for; null: every walk is full. */
  readonly incremental: Incremental | null;
  /**
   * What it takes to believe that a record is gone: `sweep`: absence from a complete full walk (records never move from
   * one parent to another); `confirm`: `get` finds nothing either; `never`: an event happened and stays.
   */
  readonly deletes: 'sweep' | 'confirm' | 'never';
  /**
   * Records that meet one of these exist although listings may leave them out (trashed, archived): they are not
   * deleted.
   */
  readonly unlisted: readonly UnlistedCondition[];
  /** `list` parameters that bound a walk at both ends, for backfills; null where there are none. */
  readonly window: { readonly since: string; readonly before: string } | null;
  /** Sent with every `list` call (for example a filter that keeps pages and data sources apart). */
  readonly fixedParams: Params;
  /** Records whose `field` has another value are of another kind and are filtered. */
  readonly only: { readonly field: string; readonly value: string } | null;
  /**
   * Ways to find this entity's partitions; empty for a root entity. Those not `byDefault` are chosen in the settings.
   */
  readonly parents: readonly Parent[];
  readonly recursive: Recursive | null;
  readonly explode: Explode | null;
  /** Where the entity's records land, and where exploded elements land (or null). */
  readonly table: EntityTable;
  readonly explodedTable: EntityTable | null;
}

export interface MovedAddress {
  readonly from: string;
  readonly to: string;
}

export interface SearchableField {
  readonly type: FieldType;
  /** Fields of the stored record (or of its exploded element): the first of them that has a value. Not empty. */
  readonly from: readonly string[];
  /** `pairs`: an object by name becomes an array of `{name, value}`, by name. */
  readonly shape: 'asIs' | 'pairs';
}

export type ActionName = 'list' | 'get' | 'context_store_search' | 'download';

export interface Action {
  readonly params: ReadonlyMap<string, Param>;
  /** `get` and `download`: parameter -> field of the record that holds its value. */
  readonly key: ReadonlyMap<string, string>;
  /** `download` only: what a record says about its file. */
  readonly file: FileFields | null;
  /** The service itself has it, and a Connector Execution API does not: see `servedDefinition`. */
  readonly isDirectOnly: boolean;
}

/** Fields of a record that describe its file; null where the record does not say. */
interface FileFields {
  readonly name: string | null;
  readonly contentType: string | null;
  /** In bytes. */
  readonly size: string | null;
  /** The file is another one when one of these fields has another value. Not empty. */
  readonly version: readonly string[];
}

export interface Param {
  readonly type: 'string' | 'integer' | 'boolean' | 'object' | 'array';
  readonly required: boolean;
  readonly enum: readonly string[] | null;
  readonly default: string | number | boolean | null;
  readonly min: number | null;
  readonly max: number | null;
  /** What the service does above `max`: `cap` answers with `max` records, `refuse` answers 400. */
  readonly aboveMax: 'cap' | 'refuse';
  /** Members of an `object` parameter, where they are known (`sort.direction`); absent: anything goes. */
  readonly members?: ReadonlyMap<string, Param>;
}

export type Pagination =
  | {
      readonly kind: 'offset';
      readonly offsetParam: string;
      readonly sizeParam: string;
      readonly maxSize: number;
      /** Keys of `connector_metadata`, first match wins: how many records the listing has. An answer may lack them. */
      readonly totalKeys: readonly string[];
      /**
       * The service documents that its totals count the listing, not the page: a first page as long as its total is the
       * whole listing.
       */
      readonly totalCountsListing?: true | undefined;
      /**
       * The service numbers its pages: their size may be its own, and one that was shown before may mean the end.
       * Absent: it takes any offset.
       */
      readonly numbered?: { readonly isFixed: boolean; readonly endsByRepeat: boolean };
    }
  | {
      readonly kind: 'pageToken';
      readonly tokenParam: string;
      readonly sizeParam: string | null;
      readonly maxSize: number | null;
      /** Keys of `connector_metadata`, first match wins: the flag that says more is there, and the next token. */
      readonly flagKeys: readonly string[];
      readonly tokenKeys: readonly string[];
      readonly lifetimeMs: number;
      readonly totalKeys: readonly string[];
    }
  | { readonly kind: 'single'; readonly totalKeys: readonly string[] };

/**
 * `field`: the change value, a dotted path in the record; into an exploded array, the highest of its elements
 * counts (`activity.timestamp`). `lookbackMs` is taken off the watermark when it is read.
 */
type Incremental =
  /**
   * `keyset`: sorted by `field` (the entity's `order`), page after page from the last value on. `since`: the service
   * filters by `sinceParam`; paged as a full walk is.
   */
  | {
      readonly kind: 'keyset' | 'since';
      readonly field: string;
      readonly sinceParam: string;
      readonly lookbackMs: number;
    }
  /** Sorted by `field` descending with `params`; ends below the watermark. */
  | {
      readonly kind: 'newestFirst';
      readonly field: string;
      readonly params: Params;
      readonly lookbackMs: number;
    };

interface UnlistedCondition {
  readonly field: string;
  readonly values: readonly (string | boolean)[];
}

export interface Parent {
  readonly entity: EntityName;
  /**
   * Field of the parent record that changes with anything below it: children found with the same value again are not
   * read. `settlesMs`: its clock is that coarse. Null: children are read whenever they are found.
   */
  readonly marker: { readonly field: string; readonly settlesMs: number } | null;
  /** Child's `list` parameter -> field of the parent record. */
  readonly params: ReadonlyMap<string, string>;
  /** Child's field -> `list` parameter that fills it. Key parts among them always come from the partition. */
  readonly inject: ReadonlyMap<string, string>;
  /** Only parents that meet one of these have children; empty: all do. */
  readonly when: readonly ParentCondition[];
  readonly byDefault: boolean;
}

/** `present`: neither absent nor null nor an empty text. */
export type ParentCondition =
  | { readonly kind: 'in' | 'notIn'; readonly field: string; readonly values: readonly string[] }
  | { readonly kind: 'present'; readonly field: string };

/** Listings inside listings (blocks of a page): the tree below one partition is walked as one unit. */
export interface Recursive {
  /** `list` parameter that names the listing. */
  readonly param: string;
  /** Boolean field: the record has its own listing. */
  readonly flag: string;
  /** Object field that names the listing a record belongs to: `parent.type` says which member of it holds the id. */
  readonly parentField: string;
  readonly typeField: string;
  /** Types that have children of their own elsewhere and are not entered. */
  readonly skipTypes: ReadonlySet<string>;
  /** Values of `parent.type` under which a record lies in a tree; one with another has left it. Empty: any. */
  readonly ownerTypes: ReadonlySet<string>;
  readonly maxDepth: number;
  /**
   * Injected fields: the root listing's id, the depth (0 for the root listing's own records), the position in the
   * listing (from 0).
   */
  readonly rootField: string;
  readonly depthField: string;
  readonly positionField: string;
}

/** Elements of an array field become rows of `into`, insert-only; the array leaves the parent row. */
export interface Explode {
  readonly field: string;
  readonly into: EntityName;
  /** Fields taken over from the parent record. */
  readonly carry: readonly string[];
  readonly fields: ReadonlyMap<string, FieldType>;
  /** Every part is NOT NULL; an absent one is ''. */
  readonly key: readonly string[];
}
