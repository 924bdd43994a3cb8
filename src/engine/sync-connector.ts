import { instant } from '../core/clock.ts';
import { hasCode, SyncError, type ErrorCode, type Recovery } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Definition } from '../definitions/definition.ts';
import {
  completenessOf,
  type Completeness,
  withoutKey,
  type EntityReport,
  type RunOutcome,
  type RunReport,
} from '../sinks/run-report.ts';
import type { ChosenEntities } from './chosen-entities.ts';
import { evolvingTables } from './prepare/schema-policy.ts';
import { newRunId } from './plan-run.ts';
import { keepJournal, toSyncError, watchTime, openRun, type Run, type SyncOptions } from './run.ts';
import { nothingReported, reportedFailures, type FileOptions } from './run-tally.ts';
import { getsWithoutLimits, sweepPhase } from './sweep/sweep-run.ts';
import type { Partition, WalkFailure } from '../sinks/partition.ts';
import { openAccountCheck } from './check-account.ts';
import { groupCommits, walkContext, walkPartition, type WalkContext } from './walk.ts';
import type { RememberedRows } from './prepare/prepare-page.ts';
import { knownOrMade } from '../core/grouped.ts';
import type { FileFailure, WantedFile } from '../sinks/files.ts';

/**
 * Runs one connector: takes it, works off due listings, and reports, whatever the outcome; `partial` where the service
 * asks for a long pause (`resumeAt`) or the budget is spent. Throws only where no run could be begun (busy, another
 * identity, no connection) or its end could not be stored.
 */
export async function syncConnector(options: SyncOptions): Promise<RunReport> {
  const beganMs = options.clock.now();
  await options.source.connect(options.signal);
  await using lease = await options.sink.acquire(options.identity);
  const run = await openRun(options, lease, beganMs);
  await runPhases(run);
  return await report(run);
}

/**
 * Runs the phases. Each leaves the reason of an early end in `run.ending`. Later phases then do no work: the sweep only
 * reports missing rows. Never rejects.
 */
async function runPhases(run: Run): Promise<void> {
  const { asked, beganMs, clock, ending } = run;
  using _time = watchTime(asked.budgetMs, beganMs, { clock, onSpent: ending.endNow });
  await using _journal = keepJournal(run);
  await walkPhase(run).catch(ending.end);
  checkAccount(run);
  noteNothingRead(run);
  await sweepPhase(run);
  checkAccount(run);
  // After all that stores records: later ones would not be prepared for the new columns.
  await evolveColumns(run);
  if (!ending.isOver) await fetchFiles(run).catch(ending.end);
}

function checkAccount({ tally, ending }: Run): void {
  try {
    tally.check();
  } catch (error) {
    ending.fail(error);
  }
}

/** A resumed run may find nothing but what failed before: then the rest was read all the same. */
function noteNothingRead({ ending, continues, tally }: Run): void {
  if (ending.isOver || continues !== null || !tally.nothingRead()) return;
  const [first] = tally.failures().reported;
  const hasRecords = tally.entities().some(({ counts }) => counts.fetched > 0);
  const what = hasRecords ? 'no listing could be read to its end' : 'nothing could be read';
  ending.fail(
    new SyncError(`${what}: ${first?.message ?? 'every listing failed'}`, {
      code: first?.code ?? 'UPSTREAM',
      recovery: first !== undefined && mayPass.has(first.recovery) ? 'retry' : 'stop',
    }),
  );
}

/** Failures of the service rather than of the configuration: the same run may succeed later. */
const mayPass = new Set<Recovery>(['retry', 'throttle', 'smaller-page', 'restart-walk']);

/** Adds the new columns to the tables. A table's refusal concerns its entity alone: the values stay in `_extra`. */
async function evolveColumns({ ending, sink, lease, id, definition, entities, tally }: Run): Promise<void> {
  for (const table of evolvingTables(definition, entities)) {
    if (ending.isOver) return;
    await sink.drift.evolve(lease, id, table).catch((reason: unknown) => {
      const error = toSyncError(reason);
      if (!ofTables.has(error.code) || error.recovery !== 'stop') return ending.end(reason);
      tally.refused(table, error);
    });
  }
}

const ofTables = new Set<ErrorCode>(['SINK_FAILED', 'SINK_INCOMPATIBLE']);

/** Stores the report, and with it the run's end. */
async function report(run: Run): Promise<RunReport> {
  const { identity, sink, lease, id, plan, tally, fileTally, ending, clock, onEvent } = run;
  const { startedMs, requestsPerSecond } = run;
  const outcome = outcomeOf(run);
  const isRead = outcome === 'ok' || outcome === 'degraded';
  const partMissing = await sink.partMissing(lease);
  for (const { params: _params, ...found } of partMissing.map(withoutKey)) {
    onEvent({ kind: 'part-missing', ...found });
  }
  const unconfirmed = await sink.unconfirmed(lease);
  const left = await sink.left(lease);
  const entities = wholeEntities(
    run.definition,
    run.entities,
    tally.entities().map((entity) => (isRead ? entity : { ...entity, isWhole: false })),
    { partMissing: namesOf(partMissing), unconfirmed: namesOf(unconfirmed), left: namesOf(left) },
    // A backfill reads a window, which is never the whole; one that ended early may have finished an entity.
    (entity) =>
      isRead
        ? plan.kind === 'sync' && !entity.isWhole
        : outcome === 'failed' && Object.values(entity.proofs).every((walks) => walks === 0),
  );
  const { error } = ending;
  const { serverTime: _serverTime, ...costs } = run.source.stats();
  const ofWalks = tally.failures();
  const ofFiles = fileTally.failures(reportedFailures - ofWalks.reported.length);
  const report: RunReport = {
    run: id,
    kind: plan.kind,
    connector: identity.connector,
    outcome,
    startedAt: plan.startedAt,
    finishedAt: instant(clock.now()),
    continues: run.continues,
    entities,
    ...costs,
    failures: [...ofWalks.reported, ...ofFiles.reported],
    failuresOmitted: ofWalks.omitted + ofFiles.omitted,
    error: error === null ? null : { code: error.code, recovery: error.recovery, message: error.message },
    resumeAt: outcome === 'partial' ? ending.resumeAt : null,
    ...(outcome === 'partial' && ending.resumeBecause !== null
      ? { resumeBecause: ending.resumeBecause }
      : {}),
    left,
    ...(entities.some(({ toConfirm }) => toConfirm > 0)
      ? { confirmation: { callsPerRun: getsWithoutLimits(requestsPerSecond) } }
      : {}),
    partMissing,
    unconfirmed,
    files: fileTally.entities(await sink.files.left(lease, id, fetchedEntities(run))),
  };
  await sink.finish(lease, id, report, run.journal?.text() ?? undefined);
  const ms = clock.now() - startedMs;
  const { waitedMs } = costs;
  onEvent({ kind: 'run-finished', connector: identity.connector, run: id, outcome, ms, waitedMs });
  return report;
}

/** The report of a run that could not begin. */
export function failedStart(
  of: Pick<RunReport, 'connector' | 'kind' | 'startedAt' | 'finishedAt'>,
  reason: unknown,
): RunReport {
  const { code, recovery, message } = toSyncError(reason);
  const run = newRunId(Date.parse(of.startedAt));
  return { ...nothingReported, ...of, run, outcome: 'failed', error: { code, recovery, message } };
}

function outcomeOf({ ending, signal, tally, fileTally }: Run): RunOutcome {
  if (ending.error !== null) return 'failed';
  if (ending.resumeAt !== null || ending.isSpent) return 'partial';
  if (signal.aborted) return 'interrupted';
  return tally.isDegraded() || fileTally.isDegraded() ? 'degraded' : 'ok';
}

/**
 * The reports (parents first), with an entity as whole, and with its word, only where all that leads to it is: nothing
 * else would show what an unread parent leads to.
 */
export function wholeEntities(
  definition: Definition,
  chosen: ChosenEntities,
  reports: readonly EntityReport[],
  found: Readonly<Record<'partMissing' | 'unconfirmed' | 'left', ReadonlySet<EntityName>>>,
  isUnread: (report: EntityReport) => boolean = () => false,
): readonly EntityReport[] {
  const originOf = new Map(
    [...definition.entities.values()].flatMap(({ name, explodedTable }) =>
      explodedTable === null ? [] : [[explodedTable.entity, name] as const],
    ),
  );
  const whole = new Set<EntityName>();
  const words = new Map<EntityName, Completeness>();
  return reports.map((report) => {
    const origin = originOf.get(report.entity);
    const leading = chosen.get(report.entity)?.parents ?? (origin === undefined ? [] : [origin]);
    const isWhole = report.isWhole && leading.every((name) => whole.has(name));
    if (isWhole) whole.add(report.entity);
    const completeness = completenessOf(
      {
        isUnread: report.setAside > 0 || found.left.has(report.entity) || isUnread({ ...report, isWhole }),
        isDoubted: found.partMissing.has(report.entity),
        isUnordered: found.unconfirmed.has(report.entity),
      },
      leading.map((name) => words.get(name) ?? 'complete'),
    );
    words.set(report.entity, completeness);
    const isProven = completeness === 'complete' || completeness === 'unconfirmed';
    return { ...report, isWhole, isProven, completeness };
  });
}

function namesOf(found: readonly { readonly entity: EntityName }[]): ReadonlySet<EntityName> {
  return new Set(found.map(({ entity }) => entity));
}

/** Received and not yet stored, over all walks: beyond it a walk stores its page before it asks for the next. */
const maxInFlightBytes = 64 * 1024 * 1024;

/**
 * Walks due listings, then those that nothing led to in this chain. Throws errors of the sink, and `SyncError` when the
 * API stopped responding.
 */
export async function walkPhase(run: Run): Promise<void> {
  const { sink, lease, tally, ending, clock, onEvent, signal } = run;
  const commits = groupCommits(run);
  const inFlight = { bytes: 0, maxBytes: maxInFlightBytes };
  const wake = newWake();
  const silence = watchSilence();
  const account = openAccountCheck(run);
  const remembered: RememberedRows = {
    key: run.rawKey,
    find: async (entity, records) => await sink.stored.find(lease, entity, records),
  };
  const contexts = new Map<EntityName, WalkContext>();
  /** Entities that the service denies as a whole: their other partitions would only be denied one by one. */
  const denied = new Map<EntityName, WalkFailure>();

  function onStored(entity: EntityName, newlyDue: number): void {
    silence.pageStored(entity);
    if (newlyDue > 0) wake.wake();
  }

  function makeContext(name: EntityName): WalkContext {
    const { definition } = run;
    const entity = definition.entities.get(name);
    const shared = { commits, inFlight, remembered, checkAccount: account.ofPage, onStored };
    if (entity !== undefined) return walkContext(run, entity, shared);
    const message = `the ledger knows an entity ${name} that the definition ${definition.name} does not`;
    throw new SyncError(message, { code: 'INTERNAL', recovery: 'stop' });
  }

  async function walk(partition: Partition): Promise<void> {
    const { entity, params } = partition;
    const denial = denied.get(entity);
    if (denial !== undefined) return await setAside(partition, denial);
    const context = knownOrMade(contexts, entity, () => makeContext(entity));
    const end = await walkPartition(context, partition);
    if (end.kind === 'set-aside') {
      if (end.failure.recovery === 'skip-entity') denied.set(entity, end.failure);
      return await setAside(partition, end.failure);
    }
    tally.sealed(partition, end.seal);
    onEvent({ kind: 'walk-sealed', entity, params, proof: end.seal.proof.kind });
  }

  async function setAside(partition: Partition, failure: WalkFailure): Promise<void> {
    const { id, entity, params } = partition;
    const { code, message } = failure;
    await sink.setAside(lease, { partition: id, run: run.id }, failure);
    tally.setAside(partition, failure);
    onEvent({ kind: 'walk-set-aside', entity, params, code, message });
    if (denied.has(entity) || failure.recovery !== 'retry') return;
    const { verdict, pauseMs } = silence.walkUnanswered(entity, code === 'BODY_INVALID');
    if (verdict === 'deny-entity') denied.set(entity, failure);
    if (verdict === 'end-run') throw silenceError(failure);
    if (pauseMs > 0) await clock.sleep(pauseMs, signal);
  }

  const isOver = (): boolean => signal.aborted || ending.isSpent;
  const next = (limit: number): Promise<readonly Partition[]> => sink.nextPartitions(lease, limit);
  do {
    await workPool({ concurrency: run.concurrency, isOver, next, work: walk, onError: ending.end }, wake);
    // Only after the walks: they may have met the records that lead to other listings.
  } while (!isOver() && (await sink.findLeftovers(lease)) > 0);

  await account.ofRun();
  // Where the walks that an earlier run left are all that fails, everything else must still be read.
  if (silence.isUnbroken() && run.continues === null && !signal.aborted) {
    throw silenceError([...denied.values()].at(-1) ?? null);
  }
}

/** Ends the run as failed, so that the next one resumes here. */
function silenceError(last: WalkFailure | null): SyncError {
  const message = `the API stopped responding; repeated walks failed, the last one with: ${last?.message ?? 'no answer'}`;
  return new SyncError(message, { code: last?.code ?? 'UPSTREAM', recovery: 'retry' });
}

/** Walks of one entity in a row without an answer: asking for its others is no use then. */
const silentWalks = 20;
const longestPauseMs = 15_000;

/**
 * Tells an entity that is down from a service that is. After twenty silent walks an entity is denied; when a second
 * falls silent and nothing was stored in between, the run ends. Pauses leave open walks time to show that they are
 * alive. A service that answers in another shape needs none.
 */
function watchSilence() {
  let pages = 0;
  /** Silent walks in a row, and the pages that had been stored when the first of them ended. */
  const streaks = new Map<EntityName, { walks: number; readonly pagesBefore: number }>();
  const unbroken = (): number =>
    [...streaks.values()].filter(({ walks, pagesBefore }) => walks >= silentWalks && pagesBefore === pages)
      .length;

  return {
    pageStored: (entity: EntityName): void => {
      pages += 1;
      streaks.delete(entity);
    },
    /** A walk ended without an answer; `isBroken`: with answers of another shape than the API promises. */
    walkUnanswered: (entity: EntityName, isBroken: boolean) => {
      const streak = knownOrMade(streaks, entity, () => ({ walks: 0, pagesBefore: pages }));
      streak.walks += 1;
      if (streak.walks < silentWalks) {
        const pauseMs = isBroken ? 0 : Math.min(longestPauseMs, 1000 * (streak.walks - 1));
        return { verdict: 'go-on', pauseMs } as const;
      }
      return { verdict: unbroken() > 1 ? 'end-run' : 'deny-entity', pauseMs: 0 } as const;
    },
    /** True when nothing was stored since an entity fell silent: for all that is known, the service is down. */
    isUnbroken: (): boolean => unbroken() > 0,
  };
}

type FilesRun = Run & { readonly files: FileOptions };

const batchFiles = 1_000;
/** Files of one entity in a row without an answer: its others would fare no better now. */
const mostUnanswered = 5;

/**
 * The entities whose files a run fetches: a part of those that it reads. Backfills bring records, and leave files to
 * the next sync.
 */
export function fetchedEntities({ files, plan }: Pick<Run, 'files' | 'plan'>): readonly EntityName[] {
  return plan.kind === 'sync' ? plan.entities.filter((entity) => files?.entities.has(entity) === true) : [];
}

/**
 * Fetches files that are wanted and not stored, after the walks and the sweep, each noted by itself; failed ones are
 * set aside. Throws errors that must end the run.
 */
export async function fetchFiles(run: Run): Promise<void> {
  const { sink, lease, id, files, onEvent, signal } = run;
  const entities = fetchedEntities(run);
  if (files === null || entities.length === 0) return;
  const wanted = await sink.files.left(lease, id, entities);
  onEvent({ kind: 'files-started', files: wanted.reduce((sum, one) => sum + one.files, 0) });
  const fetching: FilesRun = { ...run, files };
  await removeReplaced(fetching);
  for (const entity of entities) {
    signal.throwIfAborted();
    await removeUnknown(fetching, entity);
    await fetchEntity(fetching, entity);
    // The file that a killed run stored under an earlier name has a second one beside it only now.
    await removeUnknown(fetching, entity);
  }
  await removeReplaced(fetching);
}

/** Files of earlier versions go when the new ones are there, not before. */
async function removeReplaced({ sink, lease, id, files }: FilesRun): Promise<void> {
  for (;;) {
    const replaced = await sink.files.replaced(lease, id, batchFiles);
    if (replaced.length === 0) return;
    for (const { entity, file, current } of replaced) await files.folder.remove(entity, file, current);
    await sink.files.removed(lease, id, replaced);
  }
}

/** A file whose name has changed twice since a killed run stored it is noted nowhere, and would stay for ever. */
async function removeUnknown({ sink, lease, id, files }: FilesRun, entity: EntityName): Promise<void> {
  const names = await files.folder.prepare(entity);
  if (names.length === 0) return;
  const unknown = await sink.files.unknown(lease, id, entity, names);
  for (const file of unknown) await files.folder.remove(entity, file, null);
}

async function fetchEntity(run: FilesRun, entity: EntityName): Promise<void> {
  const { sink, lease, id, concurrency } = run;
  const endings: unknown[] = [];
  const ending = new AbortController();
  const signal = AbortSignal.any([run.signal, ending.signal]);
  let unanswered = 0;
  await workPool<WantedFile>({
    concurrency,
    isOver: () => endings.length > 0 || signal.aborted || unanswered >= mostUnanswered,
    next: async (limit) => await sink.files.next(lease, id, entity, limit),
    work: async (wanted) => {
      const failure = await fetchOne(run, wanted, signal);
      unanswered = failure !== null && silent.has(failure.code) ? unanswered + 1 : 0;
    },
    onError: (error) => {
      if (ending.signal.aborted && error === ending.signal.reason) return;
      endings.push(error);
      // Open calls are paid for when the last one was spent.
      if (!hasCode(error, 'BUDGET_SPENT')) ending.abort(error);
    },
  });
  // A failure says more than the earlier end of the budget.
  if (endings.length > 0) throw endings.find((error) => !hasCode(error, 'BUDGET_SPENT')) ?? endings[0];
  run.signal.throwIfAborted();
}

/** Null: it is stored. Rejects with errors that must end the run. */
async function fetchOne(run: FilesRun, wanted: WantedFile, signal: AbortSignal): Promise<FileFailure | null> {
  const { sink, lease, id, files, fileTally: tally, clock, onEvent } = run;
  const { entity, keyText, params, size } = wanted;
  const { maxBytes } = files;
  const startedMs = clock.now();
  try {
    // Known without a call.
    if (size !== null && size > maxBytes) {
      throw new SyncError(
        `download ${entity}: its record says ${size} bytes, and at most ${maxBytes} are fetched; raise downloads.maxBytes to get it`,
        { code: 'BODY_TOO_LARGE', recovery: 'skip-partition' },
      );
    }
    const file = await files.source.download(
      { entity, params, size, maxBytes },
      async ({ name, contentType, bytes }) => ({
        ...(await files.folder.store({ entity, keyText, name: wanted.name ?? name, bytes })),
        contentType,
      }),
      signal,
    );
    await sink.files.stored(lease, id, wanted, file);
    tally.stored(entity, file.bytes);
    onEvent({ kind: 'file-stored', entity, bytes: file.bytes, ms: clock.now() - startedMs });
    return null;
  } catch (error) {
    if (!(error instanceof SyncError) || endsRun(error)) throw error;
    const { code, recovery, message } = error;
    const failure: FileFailure = { code, recovery, message, at: instant(clock.now()) };
    await sink.files.setAside(lease, id, wanted, failure);
    tally.setAside(entity, params, failure);
    onEvent({ kind: 'file-set-aside', entity, code, message });
    return failure;
  }
}

/** Failures of the place where files or their account are kept: they concern every file. */
const ofSink = new Set<ErrorCode>(['SINK_FULL', 'SINK_FAILED', 'SINK_INCOMPATIBLE', 'FENCED']);
/**
 * Failures of one file, whatever they mean for other calls: it lies elsewhere, or its record was noted when the
 * definition asked for it in another way.
 */
const ofFile = new Set<ErrorCode>(['REDIRECTED', 'USAGE']);
/** The service did not answer, as far as is known, or redirected the call. */
const silent = new Set<ErrorCode>(['NETWORK', 'TIMEOUT', 'UPSTREAM', 'REDIRECTED']);

function endsRun({ code, recovery }: SyncError): boolean {
  return ofSink.has(code) || recovery === 'throttle' || (recovery === 'stop' && !ofFile.has(code));
}

export interface Pool<T> {
  readonly concurrency: number;
  /** True once nothing more may start; open items run to their end. */
  readonly isOver: () => boolean;
  /** The next items, at most `limit`; may repeat ones that are open. */
  readonly next: (limit: number) => Promise<readonly T[]>;
  readonly work: (item: T) => Promise<void>;
  /** Takes the errors of `next` and `work`, at once. It must make `isOver` true where nothing more may start. */
  readonly onError: (error: unknown) => void;
}

/**
 * Works off items, at most `concurrency` at a time; `next` says which one starts. Resolves when there is nothing more,
 * or it is over, and nothing is open.
 */
export async function workPool<T extends { readonly id: number }>(pool: Pool<T>, wake = newWake()) {
  const { concurrency, isOver, onError } = pool;
  const open = new Map<number, Promise<void>>();

  async function work(item: T): Promise<void> {
    try {
      await pool.work(item);
    } catch (error) {
      onError(error);
    } finally {
      open.delete(item.id);
      wake.wake();
    }
  }

  try {
    while (!isOver()) {
      const woken = wake.next();
      const free = concurrency - open.size;
      // The answer of `next` may be older than the end of an item that ends meanwhile, and may lack the items it led
      // to.
      const asked = new Set(open.keys());
      // The pool may return items that are already open, so the limit includes them: `free` new ones fit into the rest.
      const next = free > 0 ? await pool.next(concurrency + open.size) : [];
      for (const item of next.filter(({ id }) => !asked.has(id)).slice(0, free)) {
        open.set(item.id, work(item));
      }
      if (open.size === 0 && asked.size === 0) return;
      // Not a race over the open items: each one would keep a reaction per turn until the longest ends.
      await woken;
    }
  } catch (error) {
    onError(error);
  }
  await Promise.all(open.values());
}

export function newWake() {
  let wakeNow: () => void = () => undefined;
  let next = new Promise<void>((resolve) => (wakeNow = resolve));
  return {
    wake: (): void => {
      wakeNow();
      next = new Promise<void>((resolve) => (wakeNow = resolve));
    },
    /** Resolves at the next `wake()`. */
    next: (): Promise<void> => next,
  };
}
