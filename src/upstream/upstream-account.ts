import type { Instant } from '../core/clock.ts';
import type { JsonObject } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';

/**
 * The account of one connector at the third party. Each call rejects with `UpstreamFailure`, or with the reason of its
 * signal. It retries nothing but a call that found its idle connection closed, and one whose access token could be
 * renewed.
 */
export interface UpstreamAccount {
  /** Proves the credentials, and says which account they belong to. */
  check(signal: AbortSignal): Promise<AccountIdentity>;
  /**
   * One page, as the Connector Execution API would answer it. Sends `params` and what the definition adds, nothing
   * else.
   */
  list(call: UpstreamCall, signal: AbortSignal): Promise<UpstreamPage>;
  /** Null: the service says that there is no such record. */
  get(call: UpstreamCall, signal: AbortSignal): Promise<JsonObject | null>;
  /** Null: the service says that there is no such file. The caller reads the file to its end or closes it. */
  download(call: UpstreamCall, signal: AbortSignal): Promise<UpstreamFile | null>;
  /** Waits for a renewal of tokens that is under way: its result must be stored. Idempotent. */
  close(): Promise<void>;
}

export interface AccountIdentity {
  readonly identity: string;
  readonly name: string | null;
  /** The answer's `Date` header. */
  readonly serverTime: Instant | null;
}

export interface UpstreamCall {
  readonly entity: EntityName;
  /** Declared parameters of the action; null counts as absent. */
  readonly params: Params;
}

export interface UpstreamPage {
  readonly records: readonly JsonObject[];
  /** What the definition's `pagination` reads, and what its `metadata` copies; null where that is nothing. */
  readonly metadata: JsonObject | null;
  /** The answer's `Date` header. */
  readonly serverTime: Instant | null;
  /** Received, before decompression. */
  readonly bytes: number;
  /** Of the body after decompression, in UTF-16 code units: what the page weighs in memory. */
  readonly textLength: number;
}

export interface UpstreamFile {
  /** As the service names it: hostile. Null where it does not. */
  readonly name: string | null;
  readonly contentType: string | null;
  /** In bytes; null: not known before the end. */
  readonly size: number | null;
  /**
   * To be called once. Ends behind the last byte; throws `UpstreamFailure` where the file is cut or comes too slowly.
   */
  read(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Frees the connection of a file that is not read to its end. Idempotent. */
  close(): void;
}
