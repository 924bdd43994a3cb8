import type { JsonObject } from '../core/json.ts';

/** One page of a search. */
export interface SearchAnswer {
  /**
   * Exactly the searchable fields that were asked for; null where a record has no value. Integers that a double cannot hold are
   * bigints, and members may have any name: what writes them as JSON has to know both.
   */
  readonly data: readonly JsonObject[];
  readonly meta: {
    readonly has_more: boolean;
    /** Opaque; for the next page of the same query. Null: there is none. */
    readonly cursor: string | null;
    readonly took_ms: number;
  };
}
