import { hostname } from 'node:os';
import { answerParent, explainedAs } from '../../child/start-child.ts';
import { type Clock, instant, systemClock } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { OnRunEvent } from '../../core/events.ts';
import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import { syncConnector } from '../../engine/sync-connector.ts';
import { indexEntity } from '../../search/sqlite-index.ts';
import { openSqlite } from '../../sql/sqlite/open-sqlite.ts';
import { isSqliteError } from '../../sql/sqlite/sqlite-error.ts';
import { openSqliteSink } from '../../sinks/sqlite/sqlite-sink.ts';
import { openApiCaller, type HttpTransport } from '../../source/api/api-caller.ts';
import { defaultApiLimits } from '../../source/api/api-limits.ts';
import { openCallBudget } from '../../source/api/call-with-retries.ts';
import { recordCalls } from '../../source/api/open-api-source.ts';
import { orAborted } from '../../http/or-aborted.ts';
import { redactMessage } from '../../http/redact-message.ts';
import type { Source } from '../../source/source.ts';
import type { ServiceCalls, StoreCalls, StoreJob, StoreSyncEnd } from './open-context-stores.ts';
import {
  checkedId,
  isUnusable,
  readStoreLedger,
  searchableEntities,
  storeConnector,
  storeDefinition,
  storeEntities,
} from './store-ledger.ts';

/**
 * The process of one sync of one store: asks the service for pages, stores them, answers with the result, and ends when
 * its parent closes the channel. Killed at any moment it leaves a store that the next sync resumes.
 */
const calls: StoreCalls = { sync: syncStore };
const explain = explainedAs('The sync of a store failed unexpectedly', 'INTERNAL', 'stop');
const askService = answerParent<ServiceCalls>(calls, { explain });

/**
 * Runs one sync of a store, and updates the search index after it. Resolves with the outcome; rejects only with faults
 * of the program.
 */
async function syncStore(job: StoreJob): Promise<StoreSyncEnd> {
  try {
    const { report, ledger } = await sync(job);
    if (report.error?.code === 'SINK_FAILED' && !isSound(job.file)) {
      return { kind: 'unusable', code: 'SINK_FAILED' };
    }
    try {
      for (const entity of searchableEntities(job.definition)) {
        await indexEntity(job.file, storeConnector, entity);
      }
    } finally {
      // Reported only now: without an index, a search of a large store is slow. If the index cannot be made, the stored
      // records remain.
      void askService('ledger', ledger);
    }
    return { kind: 'run', outcome: report.outcome, resumeAt: report.resumeAt };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return { kind: isUnusable(error) ? 'unusable' : 'error', code: error.code };
  }
}

/** Interval of reports about stored records during a sync, once there are some. */
const tellEveryMs = 2_000;

async function sync(job: StoreJob) {
  const { file, origin } = job;
  const startedMs = performance.now();
  const clock = { ...systemClock, now: () => Math.floor(job.nowMs + performance.now() - startedMs) };
  const definition = storeDefinition(job.definition);
  const connectorId = checkedId(job.connectorId);
  // Derived data: records that a power loss takes are read again.
  await using sink = await openSqliteSink({ file, durability: 'normal', clock });
  let toldAtMs = -Infinity;
  /** One after the other, so that the newest is reported last. */
  let telling = Promise.resolve();
  const tell = async (): Promise<void> =>
    await askService('ledger', await readStoreLedger(file, definition, origin));
  const onEvent: OnRunEvent = (event) => {
    if (event.kind !== 'page-committed' || event.counts.inserted === 0) return;
    if (clock.now() - toldAtMs < tellEveryMs) return;
    toldAtMs = clock.now();
    telling = telling.then(tell);
    telling.catch(() => undefined); // The end of the sync waits for it.
  };
  await using source = openStoreSource(definition, connectorId, clock, onEvent);
  const report = await syncConnector({
    identity: {
      connector: storeConnector,
      baseUrl: origin,
      connectorId,
      definition: definition.name,
      definitionHash: definition.contentHash,
      holder: { pid: process.pid, host: hostname(), command: 'serve', since: instant(clock.now()) },
    },
    definition,
    entities: storeEntities(definition),
    source,
    sink,
    ...definition.rateLimit,
    clock,
    // No person approves deletes here, and a record deleted by mistake comes back with the next sync.
    run: { allowDeletes: true },
    onEvent,
    // The process is killed instead.
    signal: new AbortController().signal,
  });
  await telling;
  return { report, ledger: await readStoreLedger(file, definition, origin) };
}

/** Whether SQLite finds nothing wrong with a file. Reads all of it. False also where it cannot be opened. */
function isSound(file: string): boolean {
  try {
    const db = openSqlite(file, { readonly: true, fileMustExist: true });
    try {
      return db.pragma('quick_check(1)', { simple: true }) === 'ok';
    } finally {
      db.close();
    }
  } catch (error) {
    // A file that SQLite cannot even check is damaged; anything else is a fault of the program.
    if (isSqliteError(error)) return false;
    throw error;
  }
}

/** The third party keeps its own pace, for this process as for every other caller of the service. */
const requestsPerSecond = 10_000;

/**
 * Source of a store's sync: the connector's provider, which lives in the service's own process. The same calls as over
 * HTTP, so failures are classified and tried again by the same table.
 */
function openStoreSource(
  definition: Definition,
  connectorId: ConnectorId,
  clock: Clock,
  onEvent: OnRunEvent,
): Source {
  const limits = defaultApiLimits;
  const budget = openCallBudget({
    concurrency: 2 * definition.rateLimit.concurrency,
    requestsPerSecond,
    clock,
    maxThrottleWaitMs: limits.maxThrottleWaitMs,
  });
  const redact = (text: string): string => redactMessage(text, []);
  const call = openApiCaller({ transport, tokens: null, headers: {}, clock, limits, redact });
  const records = recordCalls(definition, connectorId);

  return {
    // There is nothing to check: a provider that rejects the credentials rejects the first call.
    connect: () => Promise.resolve(),
    list: async (request, signal) => await call(records.list(request), budget, onEvent, signal),
    get: async (request, signal) => {
      try {
        return await call(records.get(request), budget, onEvent, signal);
      } catch (error) {
        if (error instanceof SyncError && error.code === 'NOT_FOUND') return null;
        throw error;
      }
    },
    stats: () => ({ ...budget.stats(), serverTime: null }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/**
 * Sends calls to the service over the channel to it, in place of `http-transport.ts`. The service keeps the time limit.
 */
const transport: HttpTransport = {
  send: async ({ body }, signal) => {
    signal.throwIfAborted();
    const { status, text, retryAfter } = await orAborted(askService('call', body ?? ''), signal);
    const header = (name: string): string | null => (name === 'retry-after' ? retryAfter : null);
    const answer = Buffer.from(text);
    return { status, body: answer, header, wireBytes: answer.byteLength };
  },
  open: () => Promise.reject(new TypeError('a sync of a store downloads nothing')),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};
