import type { Instant } from '../core/clock.ts';
import type { JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';

/**
 * What the engine reads from. One `list` is one page. The source alone retries, waits, refreshes tokens and keeps
 * budgets; what still fails reaches the caller as a `SyncError`, whose `recovery` says what to do.
 */
export interface Source extends AsyncDisposable {
  /**
   * Resolves when the connector answers and the credentials hold; the engine calls it once before anything else.
   * Throws `SyncError` with recovery `stop`.
   */
  connect(signal: AbortSignal): Promise<void>;
  /** One page. Sends exactly `params`; refuses parameters the definition does not declare. */
  list(request: ListRequest, signal: AbortSignal): Promise<SourcePage>;
  /** One record, or null when the service says that it does not exist (404). */
  get(request: GetRequest, signal: AbortSignal): Promise<JsonValue>;
  /** Sums since the source was opened. */
  readonly stats: () => SourceStats;
}

export interface ListRequest {
  readonly entity: EntityName;
  readonly params: Params;
  /** A root partition has no parent: 403 and 404 there speak of the entity (`skip-entity`), else of the partition. */
  readonly isRoot: boolean;
}

export interface GetRequest {
  readonly entity: EntityName;
  readonly params: Params;
}

export interface SourcePage {
  /** The elements of the response's array, unread: a record may be anything. */
  readonly records: readonly JsonValue[];
  /** The array's length as received: what the accounting starts from. */
  readonly fetched: number;
  /** What the response itself says about more pages; null where the connector says nothing (offset paging). */
  readonly next: NextPage | null;
  /** The server's `Date` header. */
  readonly serverTime: Instant | null;
  readonly bytes: number;
}

export interface NextPage {
  /** The response's flag; null when it carried only a token field. */
  readonly hasMore: boolean | null;
  readonly token: string | null;
}

export interface SourceStats {
  /** Execute calls that went on the wire, retries included. */
  readonly calls: number;
  readonly retries: number;
  readonly throttled: number;
  /** Milliseconds spent waiting for budgets, Retry-After and back-off. */
  readonly waitedMs: number;
  readonly bytes: number;
  /** The newest `Date` header of any answer, `connect` included; null before the first. */
  readonly serverTime: Instant | null;
}
