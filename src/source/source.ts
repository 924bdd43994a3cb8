import type { Instant } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { JsonValue } from '../core/json.ts';
import { type EntityName, isConnectorId, type ConnectorId } from '../core/names.ts';
import type { Params, RecordMask } from '../core/records.ts';
import type { Definition } from '../definitions/definition.ts';
import type { OnExchange } from '../http/exchange.ts';
import type { NextPage } from '../pagination/pagination.ts';
import { valueOf, type ScannedPage, memberWidth } from '../http/scan-json.ts';
import { createHash } from 'node:crypto';

/**
 * Source of the records that the engine reads. One `list` is one page. The source alone retries, waits, refreshes
 * tokens and keeps budgets; remaining failures reach the caller as a `SyncError`, whose `recovery` names the action to
 * take.
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

/** Options for opening the source of one connector. */
export interface SourceOptions {
  readonly definition: Definition;
  /** Concurrent calls. */
  readonly concurrency: number;
  readonly requestsPerSecond: number;
  /** Absent: a person has set the rate, which outweighs the API's. */
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
   * Requests one file and hands it to `receive`, again in every attempt: data of an earlier attempt must be discarded.
   * Resolves with the result of `receive` for the attempt that brought the whole file. Rejects with errors that
   * `receive` throws by itself, and with `SyncError`: FILE_INVALID for a file that is empty, cut, of another length
   * than announced, or no file at all; BODY_TOO_LARGE above `maxBytes`; NOT_FOUND; and every error that a `list`
   * rejects with.
   */
  download<T>(request: DownloadRequest, receive: ReceiveFile<T>, signal: AbortSignal): Promise<T>;
}

/** A connector's records and files, read through the API or from the service itself. */
export interface ConnectorSource extends Source, FileSource {
  /**
   * Identity by which a sink recognizes the connector. Connects first, unless that was done. Rejects as `connect` does.
   */
  origin(signal: AbortSignal): Promise<ConnectorOrigin>;
  /** The service's name for the account, once `connect` has resolved; null where that is not known. */
  accountName(): string | null;
}

/** Reads `file.bytes` to the end, or throws. The signal is the one that `download` was given. */
export type ReceiveFile<T> = (file: IncomingFile, signal: AbortSignal) => Promise<T>;

export interface DownloadRequest extends GetRequest {
  /** Length of the file in bytes according to its record; null: not stated. A file of another length is refused. */
  readonly size: number | null;
  readonly maxBytes: number;
}

export interface IncomingFile {
  /** Name in the service's answer, at most 1000 characters; null where it gives none. Hostile: it may hold anything. */
  readonly name: string | null;
  /** `type/subtype` with its parameters, printable ASCII; null where the service says none that can be read so. */
  readonly contentType: string | null;
  /** Size in bytes, as the answer announces it; null: not known before the end. */
  readonly size: number | null;
  /**
   * Chunks of the file, to be read once, as fast as they can be used. Ends only behind the last byte of a file that is
   * whole as far as that can be known; throws otherwise.
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
  /** The page may lie behind the last one: an answer with status 500 is not requested again. Absent: it may not. */
  readonly isLook?: boolean;
}

export interface SourcePage {
  readonly records: PageRecords;
  /** Next page according to the response; null where the connector names none (offset paging). */
  readonly next: NextPage | null;
  /** Number of records in the listing; absent: the response does not state it. */
  readonly total?: number;
  /** The response says that the service shows a part of the listing. */
  readonly isCut?: boolean;
  /** The response has null in place of its records, which counts as none: it does not outweigh stored rows. */
  readonly wasNull?: boolean;
  /** The service has refused the request, or failed (500), where nothing was expected. */
  readonly refusal?: 'refused' | 'failed';
  /** Members of the response beside its records, for people; null or absent: none. */
  readonly metadata?: JsonValue;
  /** The server's `Date` header. */
  readonly serverTime: Instant | null;
  /** Size of the body after decompression: the memory that the page takes. */
  readonly bytes: number;
}

/** Reaction to a rate that the API states. `follow`: it is adopted. `lower`: only if it is lower. */
export type StatedRate = 'follow' | 'lower';

/** Rate that no person has set, and its origin. */
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
   * Current time of the service: the last `Date` header it sent (to `connect` too) and the time passed since; null
   * before the first, or where it is not known.
   */
  readonly serverTime: Instant | null;
}

/** The elements of a response's array: a record may be anything. Iterated, they are read. */
export interface PageRecords extends Iterable<JsonValue> {
  readonly length: number;
  /** The record; read from its bytes with each call where they are kept. */
  readonly value: (index: number) => JsonValue;
  /**
   * Reads only as much as identifies a record: of an object at least those of its members that have these names, as
   * `value` gives them; of any other value all of it.
   */
  readonly glance: (index: number, names: ReadonlySet<string>) => JsonValue;
  /** The page in which this record has the same index; null where its bytes are not kept. */
  readonly scanned: (index: number) => ScannedPage | null;
}

function pageRecords(
  length: number,
  value: PageRecords['value'],
  glance: PageRecords['glance'] = value,
  scanned: PageRecords['scanned'] = () => null,
): PageRecords {
  return {
    length,
    value,
    glance,
    scanned,
    *[Symbol.iterator]() {
      for (let index = 0; index < length; index += 1) yield value(index);
    },
  };
}

/** Records that were read already. */
export function readRecords(values: readonly JsonValue[]): PageRecords {
  return pageRecords(values.length, (index) => values[index] ?? null);
}

/** Records that are still the bytes of their answer. */
export function unreadRecords(page: ScannedPage): PageRecords {
  const { bytes, count, starts, ends, firstMember, members, names } = page;
  const value = (index: number): JsonValue => valueOf(page, starts[index] ?? 0, ends[index] ?? 0);
  let asked: ReadonlySet<string> | null = null;
  let isAsked: readonly boolean[] = [];
  const glance: PageRecords['glance'] = (index, wanted) => {
    if (bytes[starts[index] ?? 0] !== openingBrace) return value(index);
    if (asked !== wanted) {
      asked = wanted;
      isAsked = names.map((name) => wanted.has(name));
    }
    const found: Record<string, JsonValue> = {};
    // Duplicate names: the last member counts.
    for (let at = firstMember[index] ?? 0; at < (firstMember[index + 1] ?? 0); at += 1) {
      const name = members[at * memberWidth] ?? 0;
      if (isAsked[name] !== true) continue;
      found[names[name] ?? ''] = valueOf(
        page,
        members[at * memberWidth + 1] ?? 0,
        members[at * memberWidth + 2] ?? 0,
      );
    }
    return found;
  };
  return pageRecords(count, value, glance, () => page);
}

const openingBrace = 0x7b;

/** Replaces the records that are better known by now. */
export function withRecords(records: PageRecords, better: ReadonlyMap<number, JsonValue>): PageRecords {
  if (better.size === 0) return records;
  return pageRecords(
    records.length,
    (index) => better.get(index) ?? records.value(index),
    (index, names) => better.get(index) ?? records.glance(index, names),
    (index) => (better.has(index) ? null : records.scanned(index)),
  );
}

/** The same records as they may be stored and shown. Their bytes are still those that came. */
function maskedRecords(records: PageRecords, mask: RecordMask): PageRecords {
  return pageRecords(
    records.length,
    (index) => mask.record(records.value(index)),
    (index, names) => mask.record(records.glance(index, names)),
    records.scanned,
  );
}

/**
 * A source whose records have the masks of their entities, whichever call brings them: its readers never get a masked
 * value. Members of a response beside its records are left out, as are the service's names of files.
 */
export function maskedSource<Masked extends Pick<Source, 'list' | 'get'> & FileSource>(
  source: Masked,
  { entities }: Pick<Definition, 'entities'>,
): Masked {
  if ([...entities.values()].every(({ mask }) => mask === null)) return source;
  const maskOf = ({ entity }: GetRequest): RecordMask | null => entities.get(entity)?.mask ?? null;
  const list: Source['list'] = async (request, signal) => {
    const page = await source.list(request, signal);
    const mask = maskOf(request);
    return mask === null ? page : { ...page, records: maskedRecords(page.records, mask), metadata: null };
  };
  const get: Source['get'] = async (request, signal) => {
    const record = await source.get(request, signal);
    const mask = maskOf(request);
    return mask === null || record === null ? record : mask.record(record);
  };
  const download: FileSource['download'] = async (request, receive, signal) => {
    const isMasked = maskOf(request) !== null;
    const receiving: typeof receive = (file, within) =>
      receive(isMasked ? { ...file, name: null } : file, within);
    return await source.download(request, receiving, signal);
  };
  return { ...source, list, get, download };
}

/** Whose records a connector reads. A sink remembers it, and takes no records of another origin. */
export interface ConnectorOrigin {
  /** The base URL of an API; of a service itself scheme, host and port of all that gets the credentials. */
  readonly baseUrl: string;
  readonly connectorId: ConnectorId;
  /**
   * The service has named the account. Otherwise `connectorId` is no proof of whose records are read: another account
   * there has the same.
   */
  readonly isAccount: boolean;
}

/** `account`: as the service names it, which it may do as it likes; null: it does not. */
export function accountOrigin(baseUrl: string, account: string | null): ConnectorOrigin {
  const name = account ?? 'unnamed';
  const id = isConnectorId(name) ? name : createHash('sha256').update(name).digest('hex');
  if (!isConnectorId(id)) throw new TypeError('expected a text that can be an id');
  return { baseUrl, connectorId: id, isAccount: account !== null };
}
