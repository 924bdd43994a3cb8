import type { Instant } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { JsonValue } from '../core/json.ts';
import type { EntityName } from '../core/names.ts';
import type { Params } from '../core/records.ts';
import type { Definition } from '../definitions/definition.ts';
import type { OnExchange } from '../http/seen-exchange.ts';
import type { NextPage } from '../pagination/pagination.ts';
import type { PageRecords } from './page-records.ts';

/**
 * What the engine reads from. One `list` is one page. The source alone retries, waits, refreshes tokens and keeps
 * budgets; what still fails reaches the caller as a `SyncError`, whose `recovery` says what to do.
 */
export interface Source extends AsyncDisposable {
  /**
   * Resolves when the connector answers and the credentials hold; the engine calls it once before anything else.
   * Throws `SyncError` with recovery `stop`, and `ThrottledError` when the service asks for a long pause.
   */
  connect(signal: AbortSignal): Promise<void>;
  /** One page. Sends exactly `params`; refuses parameters the definition does not declare. */
  list(request: ListRequest, signal: AbortSignal): Promise<SourcePage>;
  /**
   * One record, or null where the service says that this record does not exist (404, 410). Null is proof enough for a
   * delete: a refusal that is about the connector, the account or the entity is thrown (a deleted connector:
   * CONNECTOR_UNKNOWN), as is everything that `list` throws.
   */
  get(request: GetRequest, signal: AbortSignal): Promise<JsonValue>;
  /** Sums since the source was opened. */
  readonly stats: () => SourceStats;
}

/** How a source of one connector is opened. */
export interface SourceOptions {
  readonly definition: Definition;
  /** Concurrent calls. */
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  /** Absent: a person has set the rate, whatever the API states. */
  readonly statedRate?: StatedRate;
  /** Limit on calls for records, retries included; the next one is refused with BUDGET_SPENT (stop). Null: no limit. */
  readonly maxCalls?: number | null;
  /** Hears of attempts that failed as well as of answers. */
  readonly onEvent?: OnRunEvent;
  /** Hears of each request that is sent for a `list` or a `get`, and for the check of direct credentials. */
  readonly onExchange?: OnExchange;
  /** A person sees each answer: one that is broken is not asked for again. */
  readonly isTrial?: boolean;
}

/** Where the files of records come from. Retries, waits and budgets are the source's here too. */
export interface FileSource {
  /**
   * Asks for one file and hands it to `receive`, again in every attempt: what an earlier attempt wrote must be
   * discarded. Resolves with what `receive` made of the attempt that brought the whole file. Rejects with what
   * `receive` throws by itself, and with `SyncError`: FILE_INVALID for a file that is empty, cut, of another length
   * than announced, or no file at all; BODY_TOO_LARGE above `maxBytes`; NOT_FOUND; and whatever a `list` rejects with.
   */
  download<T>(request: DownloadRequest, receive: ReceiveFile<T>, signal: AbortSignal): Promise<T>;
}

/** Reads `file.bytes` to the end, or throws. The signal is the one that `download` was given. */
export type ReceiveFile<T> = (file: IncomingFile, signal: AbortSignal) => Promise<T>;

export interface DownloadRequest extends GetRequest {
  /** What the record says of the file's length, in bytes; null: nothing. Another length is refused. */
  readonly size: number | null;
  readonly maxBytes: number;
}

export interface IncomingFile {
  /**
   * As the service names it in the answer, at most 1000 characters; null where it does not. Hostile: it may hold
   * anything.
   */
  readonly name: string | null;
  /** `type/subtype` with its parameters, printable ASCII; null where the service says none that can be read so. */
  readonly contentType: string | null;
  /** In bytes, as the answer announces it; null: not known before the end. */
  readonly size: number | null;
  /**
   * To be read once, as fast as the chunks can be used. Ends only behind the last byte of a file that is whole as far
   * as that can be known; throws where it is not.
   */
  readonly bytes: AsyncIterable<Uint8Array>;
}

export interface GetRequest {
  readonly entity: EntityName;
  readonly params: Params;
}

export interface ListRequest extends GetRequest {
  /** A root partition has no parent: 403 and 404 there speak of the entity (`skip-entity`), else of the partition. */
  readonly isRoot: boolean;
  /** It may lie behind the last page: an answer with status 500 is not asked for again. Absent: it may not. */
  readonly isLook?: boolean;
}

export interface SourcePage {
  readonly records: PageRecords;
  /** What the response itself says about more pages; null where the connector says nothing (offset paging). */
  readonly next: NextPage | null;
  /** How many records the listing has; absent: the response does not say. */
  readonly total?: number;
  /** It says that the service shows a part of the listing. */
  readonly isCut?: boolean;
  /** It has a null for its records, which is taken for none: it does not outweigh rows that are stored. */
  readonly wasNull?: boolean;
  /** The service has refused the request, or failed (500), where nothing was expected. */
  readonly refusal?: 'refused' | 'failed';
  /** What the response has beside its records, for people; null or absent: nothing. */
  readonly metadata?: JsonValue;
  /** The server's `Date` header. */
  readonly serverTime: Instant | null;
  /** Of the body after decompression: what the page weighs in memory. */
  readonly bytes: number;
}

/** What is done about a rate that the API states. `follow`: it is taken. `lower`: only where it is lower. */
export type StatedRate = 'follow' | 'lower';

/** A rate that no person has set, and what it comes from. */
export interface CallRate {
  readonly requestsPerSecond: number;
  readonly by: 'definition' | 'api';
}

export interface SourceStats {
  /** Execute calls that were sent, retries included. */
  readonly calls: number;
  readonly retries: number;
  /** Milliseconds spent waiting for budgets, Retry-After and back-off. */
  readonly waitedMs: number;
  readonly bytes: number;
  /** Absent: a person has set the rate. */
  readonly rate?: CallRate;
  /**
   * The service's time now: the last `Date` header it sent (to `connect` too) and what has passed since; null before
   * the first, or where it is not known.
   */
  readonly serverTime: Instant | null;
}
