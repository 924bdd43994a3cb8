import { setMaxListeners } from 'node:events';
import PQueue from 'p-queue';
import * as z from 'zod';
import { startChild } from '../../child/start-child.ts';
import { type Clock, type Instant, slept } from '../../core/clock.ts';
import { type ErrorCode, SyncError } from '../../core/errors.ts';
import type { JsonObject } from '../../core/json.ts';
import type { Definition } from '../../definitions/definition.ts';
import { withoutMasks } from '../../definitions/record-masks.ts';
import { takeSlot } from '../../http/or-aborted.ts';
import { openSearchProcesses, type SearchProcesses } from '../../search/process/open-search-processes.ts';
import type { SearchAnswer } from '../../search/search-request.ts';
import { answerText, ApiError } from '../api-error.ts';
import { executeAction, executeBody } from '../execution.ts';
import { type KeptConnector, tooLate } from '../provider.ts';
import type { RunOutcome } from '../../sinks/run-report.ts';
import { isSinkThere } from '../../sinks/sqlite/open-database.ts';
import {
  emptyLedger,
  failedWith,
  isUnusable,
  readStoreLedger,
  removeStore,
  searchableEntities,
  storeConnector,
  storeFile,
  type StoreLedger,
  storeOrigin,
} from './store-ledger.ts';

/**
 * `Loading`: the first sync waits, reads or has stored nothing yet. `Building Preview`: it stores records. `Preview`:
 * it ended without everything (what there is can be searched). `Ready`: a sync was complete; later ones that are not
 * leave it so.
 */
export const readiness = z.enum(['Loading', 'Building Preview', 'Preview', 'Ready']);
export type Readiness = z.output<typeof readiness>;

export type StoreStatus = ReturnType<typeof statusOf>;

/** Answer in the form that it has over HTTP. */
export type CallAnswer = ReturnType<typeof failure>;

/**
 * Answers a `list` or a `get` of a store's sync from the connector's provider: `body` is that of an execute call. Never
 * rejects: what fails is an answer too. Resolves in bounded time, also where the provider does not listen to its
 * signal.
 */
async function answerCall(connector: KeptConnector, body: string, signal: AbortSignal) {
  try {
    const call = executeBody.parse(JSON.parse(body));
    const answer = await executeAction({ ...connector, stores, body: call, signal });
    if (answer.kind === 'file') throw new TypeError('a sync of a store downloads nothing');
    const { result, connectorMetadata } = answer;
    const text = answerText({ status: 'success', result, connector_metadata: connectorMetadata });
    return { status: 200, text, retryAfter: null };
  } catch (error) {
    return failure(signal.aborted ? tooLate() : error);
  }
}

/** A store is filled from the third party alone. */
const stores = {
  search: (): Promise<never> => Promise.reject(new TypeError('a sync of a store searches nothing')),
};

function failure(error: unknown) {
  if (!(error instanceof ApiError)) {
    // As over HTTP, internals are not disclosed.
    return { status: 500, text: '{"message":"The server failed to answer this request."}', retryAfter: null };
  }
  const retryAfter = error.headers['retry-after'] ?? null;
  return { status: error.status, text: JSON.stringify(error.body), retryAfter };
}

const firstBackOffMs = 1_000;
const maxBackOffMs = 15 * 60_000;

interface Due {
  readonly readiness: Readiness;
  readonly refreshEveryMs: number | null;
  readonly nowMs: number;
}

/** Whether a sync came as far as it can: a later one would leave out the same. */
export function isSettled(end: StoreProcessEnd, readiness: Readiness): boolean {
  if (end.kind !== 'run') return false;
  return end.outcome === 'ok' || (end.outcome === 'degraded' && readiness === 'Ready');
}

/**
 * When the next sync of a store is due: in milliseconds since the epoch; null: not before a request. One that did not
 * settle is followed by another after a back-off that doubles; `failures` counts those in a row.
 */
export function nextSyncAt(
  end: StoreProcessEnd,
  { readiness, failures, refreshEveryMs, nowMs }: Due & { readonly failures: number },
): number | null {
  if (end.kind === 'run' && end.resumeAt !== null) return Math.max(nowMs, Date.parse(end.resumeAt));
  const refreshAt = refreshEveryMs === null ? null : nowMs + refreshEveryMs;
  if (isSettled(end, readiness)) return refreshAt;
  const retryAt = nowMs + Math.min(maxBackOffMs, firstBackOffMs * 2 ** Math.max(0, failures - 1));
  return refreshAt === null ? retryAt : Math.min(retryAt, refreshAt);
}

/** The same for a store that is found at the start of the service. */
export function firstSyncAt(ledger: StoreLedger, { readiness, refreshEveryMs, nowMs }: Due): number | null {
  if (readiness !== 'Ready' || ledger.endedAt === null || ledger.problem !== null) return nowMs;
  // A clock that was ahead when the last sync ended puts nothing off for longer than this.
  return refreshEveryMs === null ? null : Math.min(nowMs, Date.parse(ledger.endedAt)) + refreshEveryMs;
}

/** `died`: it was killed, or broke down; `how` is its signal or exit code. */
export type StoreProcessEnd = StoreSyncEnd | { readonly kind: 'died'; readonly how: string };

/** Far more than a sync takes; one that goes beyond ends instead of the machine's memory. */
const maxHeapMiB = 1_024;

/**
 * Runs one sync of a store in a child process, which is killed when the signal is aborted. Resolves when the process
 * has exited, for whatever reason; never rejects. `answer` never rejects either; its signal is aborted when the process
 * has ended.
 */
async function runStoreProcess(
  job: StoreJob,
  answer: (body: string, signal: AbortSignal) => Promise<CallAnswer>,
  onLedger: ServiceCalls['ledger'],
  signal: AbortSignal,
): Promise<StoreProcessEnd> {
  if (signal.aborted) return { kind: 'died', how: 'not begun' };
  const gone = new AbortController();
  // Every call that is being answered listens: many of them are no leak.
  setMaxListeners(0, gone.signal);
  const own: ServiceCalls = { call: (body) => answer(body, gone.signal), ledger: onLedger };
  const module = 'service/store/store-process';
  const child = startChild<StoreCalls>({ module, maxHeapMiB, own, signal, died: (how) => new Error(how) });
  const end = await child.ask('sync', job).catch(() => null);
  // The process ends when the channel closes. If it ended by itself, its answer could be lost.
  if (end === null) child.kill();
  else child.disconnect();
  const how = await child.ended;
  gone.abort(new Error('The process that asked has ended.'));
  return end ?? { kind: 'died', how };
}

/** One sync of one store, as its process gets it. */
export interface StoreJob {
  readonly file: string;
  /** See `storeOrigin`. */
  readonly origin: string;
  readonly connectorId: string;
  readonly definition: Definition;
  /** The service's time, which continues from there in the process. Milliseconds since the epoch. */
  readonly nowMs: number;
}

/** Functions of the process of a sync. */
export type StoreCalls = { readonly sync: (job: StoreJob) => Promise<StoreSyncEnd> };

/** Functions of the service that the process of a sync calls. */
export type ServiceCalls = {
  /**
   * Makes an execute call, given its body as JSON text; resolves with the third party's answer, as it would come over
   * HTTP.
   */
  readonly call: (body: string) => Promise<CallAnswer>;
  /** Reports the stored state: after the first records, at intervals, and at the end. */
  readonly ledger: (ledger: StoreLedger) => void;
};

/** Outcome of a sync of a store. */
export type StoreSyncEnd =
  /** `resumeAt`: the third party asked for quiet until then. */
  | { readonly kind: 'run'; readonly outcome: RunOutcome; readonly resumeAt: Instant | null }
  /** The file holds something else, another connector's records, or is damaged: nothing can be stored in it. */
  | { readonly kind: 'unusable'; readonly code: ErrorCode }
  /** No run could be begun, or its end could not be stored. */
  | { readonly kind: 'error'; readonly code: ErrorCode };

/** See `Readiness`. A connector without anything to search is `Ready` as it is. */
function readinessOf(definition: Definition, ledger: StoreLedger): Readiness {
  const whole = new Set(ledger.entities.filter(({ isWhole }) => isWhole).map(({ entity }) => entity));
  if (searchableEntities(definition).every(({ name }) => whole.has(name))) return 'Ready';
  if (ledger.entities.every(({ records }) => records === 0)) return 'Loading';
  return ledger.endedAt !== null ? 'Preview' : 'Building Preview';
}

function statusOf(
  definition: Definition,
  ledger: StoreLedger,
  more: {
    /** A process is at work on the store. */
    readonly isSyncing: boolean;
    /** Why the last sync was not complete; null: it was. No secret, no value of a record. */
    readonly problem: string | null;
  },
) {
  const readiness = readinessOf(definition, ledger);
  const recordsOf = new Map(ledger.entities.map(({ entity, records }) => [entity, records]));
  const entities = searchableEntities(definition).map(({ name }) => ({
    entity: String(name),
    /** Records of a search without a filter; null: it cannot be searched, or was declared since the last sync. */
    records: ['Preview', 'Ready'].includes(readiness) ? (recordsOf.get(name) ?? null) : null,
  }));
  return { readiness, entities, ...more };
}

interface KeepStoreOptions {
  readonly folder: string;
  readonly connector: KeptConnector;
  readonly clock: Clock;
  readonly refreshEveryMs: number | null;
  /** Lets only so many syncs run at a time. */
  readonly slots: PQueue;
  /** Queue for reads of the stores: each read has files open. */
  readonly reads: PQueue;
  /** Resolves when the file may be used; null: at once. Never rejects. */
  readonly after: Promise<void> | null;
}

type KeptStore = ReturnType<typeof keepStore>;

/**
 * The store of one connector: its syncs, one after the other, and its state, which is read from its file once, then
 * updated by its syncs. Disposed, it leaves no process. Throws `SyncError` USAGE for a connector id that makes no file
 * name.
 */
function keepStore(options: KeepStoreOptions) {
  const { clock, slots, reads, refreshEveryMs } = options;
  let { connector } = options;
  const file = storeFile(options.folder, connector.connectorId);
  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  const pause = openPause(clock);
  let ledger = emptyLedger;
  let problem: string | null = null;
  let isSyncing = false;
  /** The file is of no use and must go before the next sync. */
  let isUseless = false;

  const status = (): StoreStatus => statusOf(connector.definition, ledger, { isSyncing, problem });
  const damaged = (code: ErrorCode): void => {
    isUseless = true;
    ledger = emptyLedger;
    problem = `The store could not be used (${code}) and is made again from nothing.`;
  };
  /** Reads the file while no sync uses it. Never rejects: the status reports failures. */
  const read = async (): Promise<void> => {
    const { definition } = connector;
    try {
      ledger = await readStoreLedger(file, definition, storeOrigin(definition));
      ({ problem } = ledger);
    } catch (error) {
      // A file that SQLite reads well may still hold no valid ledger: a changed bit of a text, for example.
      if (!(error instanceof SyncError)) damaged('SINK_FAILED');
      else if (isUnusable(error)) damaged(error.code);
      else problem = failedWith(error.code);
    }
  };

  const syncOnce = async (): Promise<StoreProcessEnd> => {
    if (isUseless) await removeStore(file);
    isSyncing = true;
    isUseless = false;
    const { connectorId, definition } = connector;
    const origin = storeOrigin(definition);
    return await runStoreProcess(
      { file, origin, connectorId, definition: withoutMasks(definition), nowMs: clock.now() },
      // The connector as it is when the call comes: its credentials may have changed.
      (body, signal) => answerCall(connector, body, signal),
      (told) => {
        // A search may have found meanwhile that it cannot be read.
        if (!isUseless) ledger = told;
      },
      closing.signal,
    );
  };

  const ended = async (end: StoreProcessEnd): Promise<void> => {
    isSyncing = false;
    switch (end.kind) {
      case 'run':
        if (!isUseless) ({ problem } = ledger);
        return;
      case 'unusable':
        damaged(end.code);
        return;
      case 'error':
        problem = failedWith(end.code);
        return;
      case 'died':
        if (isUseless) return;
        await read();
        problem ??= `The process of the last sync ended too early (${end.how}); the next one resumes.`;
    }
  };

  const work = async (): Promise<void> => {
    await reads.add(read);
    // At once: clear values that masks hide by now do not wait on the disk for a slot.
    if (isUseless) await removeStore(file);
    let { readiness } = status();
    let dueAt = firstSyncAt(ledger, { readiness, refreshEveryMs, nowMs: clock.now() });
    let failures = 0;
    for (;;) {
      await pause.until(dueAt);
      const giveBack = await takeSlot(slots, closing.signal);
      // A wake-up from here on requests another sync.
      pause.clear();
      const end = await syncOnce().catch(storageFailure).finally(giveBack);
      await ended(end);
      ({ readiness } = status());
      failures = isSettled(end, readiness) ? 0 : failures + 1;
      dueAt = nextSyncAt(end, { readiness, failures, refreshEveryMs, nowMs: clock.now() });
    }
  };

  const start = async (): Promise<void> => {
    if (options.after !== null) await options.after;
    // Where there is nothing to search, there is nothing to store.
    if (searchableEntities(connector.definition).length > 0) await work();
  };
  const working = start().catch(() => {
    if (!closing.signal.aborted) void ended({ kind: 'error', code: 'INTERNAL' });
  });

  return {
    file,
    get connector(): KeptConnector {
      return connector;
    },
    /** Takes the connector as it is now, with other credentials for example, and syncs at once. */
    change(changed: KeptConnector): void {
      connector = changed;
      pause.wake();
    },
    status,
    /** The file cannot be read: it is made again from nothing. */
    damaged(code: ErrorCode): void {
      damaged(code);
      pause.wake();
    },
    async [Symbol.asyncDispose](): Promise<void> {
      closing.abort();
      pause.wake();
      await working;
    },
  };
}

/** A file that cannot be removed, a process that cannot be started: it may pass. */
function storageFailure(error: unknown): StoreProcessEnd {
  if (error instanceof Error && 'syscall' in error) return { kind: 'error', code: 'SINK_FAILED' };
  throw error;
}

/** Timers take no longer time than this: it is waited for in parts. */
const longestMs = 2 ** 31 - 1;

/** A wait that can be cut short from outside. */
function openPause(clock: Clock) {
  let isWoken = false;
  let cutShort: AbortController | null = null;
  return {
    /** Resolves at `ms` (null: never) or when it is woken; at once where it was woken since `clear`. Never rejects. */
    async until(ms: number | null): Promise<void> {
      for (;;) {
        const leftMs = ms === null ? longestMs : ms - clock.now();
        if (isWoken || leftMs <= 0) return;
        cutShort = new AbortController();
        // Woken: the next turn sees it.
        await slept(clock, Math.min(longestMs, leftMs), cutShort.signal);
      }
    },
    wake(): void {
      isWoken = true;
      cutShort?.abort(new Error('woken'));
    },
    /** Forgets earlier wake-ups: the sync that they requested begins. */
    clear(): void {
      isWoken = false;
    },
  };
}

export interface ContextStoresOptions {
  /** Where the stores lie, below it in `stores/`. Null: none are kept, every connector stays `Loading`. */
  readonly folder: string | null;
  /**
   * False: no stores are kept though there is a folder; existing ones are removed with their connectors. Default true.
   */
  readonly isKept?: boolean;
  readonly clock: Clock;
  /** Time from the end of one sync to the beginning of the next. Null: syncs start only on request. */
  readonly refreshEveryMs: number | null;
  readonly search: { readonly deadlineMs: number; readonly processes: number };
  /** Signs the cursors of searches. */
  readonly cursorKey: Buffer;
}

/** Syncs at a time, over all connectors: each takes a processor while it has pages. */
const maxSyncs = 2;
/** Files read at a time when a service begins: thousands of open ones are more than a process may have. */
const maxReads = 4;
/** Searches that may wait for a process; the next one is refused with 429. */
const maxWaiting = 64;

export type ContextStores = ReturnType<typeof openContextStores>;

/**
 * The indexed stores of all connectors: one SQLite sink each, filled and refreshed by syncs that run in processes of
 * their own, searched in others. This process only transfers pages, queries and answers, so it continues to answer
 * meanwhile. Nothing is opened or started before a connector is kept. The folder belongs to one service at a time.
 * Where no stores are kept, every connector stays `Loading`, and says why; stores that an earlier service left are
 * removed with their connectors.
 */
export function openContextStores(options: ContextStoresOptions) {
  const { folder, isKept = true, clock, refreshEveryMs, cursorKey } = options;
  const missing = folder === null ? 'without a data folder' : isKept ? null : 'to keep none';
  const problem = missing === null ? null : `This server keeps no indexed stores: it was started ${missing}.`;
  const connectors = new Map<string, KeptConnector>();
  const stores = new Map<string, KeptStore>();
  /** Stores that are being removed: one of the same connector waits for it. */
  const leaving = new Map<string, Promise<void>>();
  const slots = new PQueue({ concurrency: maxSyncs });
  const reads = new PQueue({ concurrency: maxReads });
  let isClosed = false;
  const processes = openSearchProcesses({ ...options.search, maxWaiting, cursorKey, clock });

  const remove = async (connectorId: string, store: KeptStore | undefined): Promise<void> => {
    await leaving.get(connectorId);
    await store?.[Symbol.asyncDispose]();
    if (folder !== null) await removeStore(storeFile(folder, connectorId));
  };

  return {
    /**
     * Begins to keep the connector's store: its first sync, or, where a store already exists, a refresh when it is due.
     * An existing store is known before the next event: no request finds it missing.
     */
    keep(connector: KeptConnector): void {
      // A request that is still being handled while the service closes must not start a sync.
      if (isClosed) return;
      const { connectorId } = connector;
      connectors.set(connectorId, connector);
      const kept = stores.get(connectorId);
      if (kept !== undefined) kept.change(connector);
      if (kept !== undefined || folder === null || !isKept) return;
      // If removal failed, the old store is reused.
      const after = leaving.get(connectorId)?.catch(() => undefined) ?? null;
      stores.set(connectorId, keepStore({ folder, connector, clock, refreshEveryMs, slots, reads, after }));
    },
    /** Ends the connector's work and removes its store. Resolves when its files are removed. */
    async drop(connectorId: string): Promise<void> {
      const store = stores.get(connectorId);
      stores.delete(connectorId);
      connectors.delete(connectorId);
      const removed = remove(connectorId, store);
      leaving.set(connectorId, removed);
      await removed.finally(() => {
        if (leaving.get(connectorId) === removed) leaving.delete(connectorId);
      });
    },
    status(connectorId: string): StoreStatus {
      const connector = connectors.get(connectorId);
      const without = { isSyncing: false, problem };
      if (connector === undefined) return { readiness: 'Loading', entities: [], ...without };
      return stores.get(connectorId)?.status() ?? statusOf(connector.definition, emptyLedger, without);
    },
    /**
     * `params` as an execute call brings them: query, limit, cursor, fields. Throws `ApiError`: 400 for a query that
     * cannot be asked, that takes too long, or while the store is not ready (`context_store_not_ready`); 429 when too
     * many wait.
     */
    async search(connectorId: string, entity: string, params: JsonObject, signal: AbortSignal) {
      const store = stores.get(connectorId);
      if (store === undefined) throw notReady();
      return await searchStore(processes, store, entity, params, signal);
    },
    async [Symbol.asyncDispose](): Promise<void> {
      isClosed = true;
      await Promise.all([...stores.values()].map((store) => store[Symbol.asyncDispose]()));
      await Promise.allSettled(leaving.values());
      await processes[Symbol.asyncDispose]();
    },
  };
}

/** Searches one entity of a store in another process. Throws as `search` of the stores does. */
async function searchStore(
  processes: SearchProcesses,
  store: KeptStore,
  name: string,
  params: JsonObject,
  signal: AbortSignal,
): Promise<SearchAnswer> {
  const { file, connector } = store;
  const entity = [...connector.definition.entities.values()].find((one) => one.name === name);
  const status = store.status().entities.find((one) => one.entity === name);
  if (entity === undefined || status === undefined) {
    throw new ApiError(400, `Entity '${name}' is not in the context store of this connector.`, {
      field: 'body.entity',
      errorCode: 'unknown_entity',
    });
  }
  if (status.records === null) throw notReady();
  const scope = JSON.stringify([connector.connectorId, entity.name]);
  try {
    return await processes.search({ file, connector: storeConnector, entity, params, scope }, signal);
  } catch (error) {
    // A file that was removed is treated like a damaged one.
    const isLost = error instanceof SyncError && (isUnusable(error) || !isSinkThere(file));
    if (!isLost) throw toApiError(error);
    store.damaged(error.code);
    throw notReady();
  }
}

/** The hosted service's status code for it is not known; 400 is ours. */
function notReady(): ApiError {
  return new ApiError(400, 'The context store of this connector is not ready', {
    errorCode: 'context_store_not_ready',
  });
}

function toApiError(error: unknown): unknown {
  if (!(error instanceof SyncError)) return error;
  const { code, message, context } = error;
  if (code === 'SEARCH_INVALID') {
    const path = context['path'];
    const field = typeof path === 'string' && path !== '' ? `params.${path}` : 'params';
    return new ApiError(400, message, { field, errorCode: 'search_invalid' });
  }
  if (code === 'SEARCH_TOO_SLOW') {
    return new ApiError(400, message, { field: 'params.query', errorCode: 'search_too_slow' });
  }
  if (code !== 'SEARCH_BUSY') return error;
  // Searches that wait have ended, or were given up, in about this time.
  return new ApiError(429, message, { errorCode: 'search_busy', headers: { 'retry-after': '2' } });
}
