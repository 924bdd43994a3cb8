import { type Clock, instant, type Instant, slept, systemClock } from '../core/clock.ts';
import type { OnRunEvent } from '../core/events.ts';
import type { Definition } from '../definitions/definition.ts';
import type { ConnectorIdentity, Lease } from '../sinks/lease.ts';
import type { RunPlan } from '../sinks/sink.ts';
import type { Sink } from '../sinks/sink-access.ts';
import type { Source } from '../source/source.ts';
import { readableEntities, type ChosenEntities } from './chosen-entities.ts';
import { fileTally, type FileOptions, runTally, nothingDone, nothingReported } from './run-tally.ts';
import { planRun, withWindow, ordinaryRun, type RunOptions, newRunId } from './plan-run.ts';
import { knownSchema } from './prepare/schema-policy.ts';
import { hasCode, SyncError, ThrottledError } from '../core/errors.ts';
import type { EntityName, RunId } from '../core/names.ts';
import type { EntityCounts, EntityTable } from '../core/records.ts';
import type { RunKind, RunOutcome, RunReport } from '../sinks/run-report.ts';

export interface SyncOptions {
  readonly identity: ConnectorIdentity;
  readonly definition: Definition;
  /** Closed over ancestors: a child without its parent in it would never be found. */
  readonly entities: ChosenEntities;
  readonly source: Source;
  readonly sink: Sink;
  /** Partitions walked at a time; also records asked for, and files fetched. */
  readonly concurrency: number;
  /** Rate of the source's calls: it bounds requests for single records. */
  readonly requestsPerSecond: number;
  /**
   * The service cannot tell which account it reads: full walks check whether their first page may belong to another
   * one. Absent: it can.
   */
  readonly doubtsAccount?: boolean;
  readonly clock: Clock;
  readonly onEvent: OnRunEvent;
  /** Absent: the run has none. */
  readonly journal?: {
    /** The journal as JSON; null where nothing was added since the last call. */
    readonly text: () => string | null;
    /** Notes how long the sink took to store pages of these entities. */
    readonly stored: (entities: readonly EntityName[], ms: number) => void;
  };
  /** Options of a run that is not an ordinary sync. */
  readonly run?: Partial<RunOptions>;
  /**
   * The files that an ordinary run fetches after its walks. Absent or null: none; which ones are wanted is noted all
   * the same.
   */
  readonly files?: FileOptions | null;
  /** Aborted: received pages are stored, open calls are dropped, the run ends as `interrupted`. */
  readonly signal: AbortSignal;
}

/**
 * One run of one connector while it is under way: its inputs, the entities it reads, and its own account. Every phase
 * takes it.
 */
export type Run = Readonly<Awaited<ReturnType<typeof openRun>>>;

/** Begins a run of a connector that is held: plans it and enters it into the ledger. */
export async function openRun(options: SyncOptions, lease: Lease, beganMs: number) {
  const { sink, source, clock, identity, onEvent, run, files = null } = options;
  const asked: RunOptions = { ...ordinaryRun, ...run };
  const { connector } = identity;
  const { entities: readable, skipped } = readableEntities(options.definition, options.entities);
  const { definition, policies } = await knownSchema(options.definition, readable, sink.drift, connector);
  const entities = withWindow(definition, readable, asked.window);
  const startedMs = clock.now();
  const { serverTime } = source.stats();
  const capMs = serverTime === null ? startedMs : Date.parse(serverTime);
  const plan = planRun(definition, entities, startedMs, asked, capMs);
  const started = await sink.startRun(lease, plan);
  const { run: id, continues, due, earlier, wrote } = started;
  onEvent({ kind: 'run-started', connector, run: id, continues, due });
  const ending = runEnding(options.signal, clock);
  const tables = plan.tables.map(({ entity }) => entity);
  const tally = runTally(tables, earlier);
  for (const [entity, cause] of skipped) tally.refused(entity, unprovenKey(entity, cause));
  return {
    ...options,
    id,
    lease,
    rawKey: asked.rawKey ?? started.rawKey,
    /** Its tables have the columns that were added for undeclared fields. */
    definition,
    /** Entities, in a backfill with the bounds of its window. */
    entities,
    policies,
    asked,
    plan,
    /** The run that this one resumes. */
    continues,
    /** Runs before this one in its chain that have stored records. */
    wrote,
    files,
    /** When its time began to count, before it was connected. */
    beganMs,
    startedMs,
    /** The run's start by the service's clock, in milliseconds: later changes may not have been read. */
    capMs,
    tally,
    fileTally: fileTally(),
    ending,
    /** The signal of `ending`: aborted when the run must stop at once. */
    signal: ending.signal,
  };
}

function unprovenKey(entity: EntityName, cause: EntityName): SyncError {
  const of = cause === entity ? 'its key' : `the key of ${cause}`;
  return new SyncError(
    `not read: ${of} is a guess that nothing has proven. "connector-sync definitions try <file> ${cause} --prove" tests it; or write "accept: [key]" beside it in the definition.`,
    { code: 'UNPROVEN', recovery: 'skip-entity' },
  );
}

/**
 * Reasons that end a run before its work is done. A failure outweighs a pause, because a person may have to act on it;
 * a pause outweighs a budget. `outer`: the caller's signal.
 */
export function runEnding(outer: AbortSignal, clock: Clock) {
  const stop = new AbortController();
  const signal = AbortSignal.any([outer, stop.signal]);

  /** Notes the first reason that ended the run. Consequences of the end itself are ignored. */
  function note(reason: unknown): void {
    if (hasCode(reason, 'BUDGET_SPENT')) ending.isSpent = true;
    else if (signal.aborted && isAbort(reason, signal)) return;
    else if (!(reason instanceof ThrottledError)) fail(reason);
    else if (!signal.aborted) {
      ending.resumeAt = instant(clock.now() + reason.retryAfterMs);
      ending.resumeBecause = reason.because;
    }
  }

  function fail(reason: unknown): void {
    ending.error ??= toSyncError(reason);
  }

  function endNow(reason: unknown): void {
    note(reason);
    stop.abort(reason);
  }

  const ending = {
    error: null as SyncError | null,
    /** Time before which no call may be made; it is too far away to wait for it. */
    resumeAt: null as Instant | null,
    /** The answer that led to the pause, where the service did not ask for it. */
    resumeBecause: null as string | null,
    /** The time or the calls that the run was given are used up: nothing more may start. */
    isSpent: false,
    /** The run ended early or was asked to: the phases to come are left to a later run. */
    get isOver(): boolean {
      return this.error !== null || this.resumeAt !== null || this.isSpent || signal.aborted;
    },
    /** Aborted when the run must stop at once: by the caller, by `endNow`, or by `end`. */
    signal,
    note,
    /** Notes a failure that does not stop the run: the remaining steps must still be reported. */
    fail,
    /** Notes it and stops the run. Calls that were paid for when the budget was spent may still be stored. */
    end: (reason: unknown): void => (hasCode(reason, 'BUDGET_SPENT') ? note(reason) : endNow(reason)),
    /** Like `end`, but does not wait for calls that were paid for. */
    endNow,
  };
  return ending;
}

export function toSyncError(error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SyncError(message, { code: 'INTERNAL', recovery: 'stop', cause: error });
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof Error && error.name === 'AbortError');
}

/** Timers do not reach further: 24 days. */
const longestMs = 2 ** 31 - 1;

/** Calls `onSpent` with BUDGET_SPENT once, `budgetMs` after `beganMs`, unless it is disposed before. Null: never. */
export function watchTime(
  budgetMs: number | null,
  beganMs: number,
  { clock, onSpent }: { readonly clock: Clock; readonly onSpent: (error: SyncError) => void },
): Disposable {
  const over = new AbortController();
  if (budgetMs !== null) {
    const leftMs = Math.min(longestMs, Math.max(0, beganMs + budgetMs - clock.now()));
    void slept(clock, leftMs, over.signal).then((isOver) => {
      if (isOver) onSpent(spentError(budgetMs));
    });
  }
  return { [Symbol.dispose]: () => over.abort() };
}

/** How much of a journal a kill may cost. */
const journalMs = 2_000;

/** Stores the journal of a run while it is in progress. A run does without what cannot be stored. */
export function keepJournal({ sink, lease, id, journal }: Run): AsyncDisposable {
  const over = new AbortController();
  const keep = async (): Promise<void> => {
    while (await slept(systemClock, journalMs, over.signal)) {
      const text = journal?.text() ?? null;
      if (text !== null) await sink.noteJournal(lease, id, text).catch(() => undefined);
    }
  };
  const keeping = keep();
  return {
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await keeping;
    },
  };
}

function spentError(budgetMs: number): SyncError {
  return new SyncError(`the ${budgetMs} ms that this run was given are over; the next run resumes`, {
    code: 'BUDGET_SPENT',
    recovery: 'stop',
    context: { budgetMs },
  });
}

interface RepairOptions {
  readonly kind: Exclude<RunKind, 'sync' | 'backfill'>;
  /** `RunPlan.act`. */
  readonly act: NonNullable<RunPlan['act']>;
  readonly sink: Sink;
  readonly identity: ConnectorIdentity;
  /** Tables whose rows it may write. */
  readonly tables: readonly EntityTable[];
  readonly clock: Clock;
  /** Costs so far. */
  readonly costs: () => Pick<RunReport, 'calls' | 'retries' | 'waitedMs' | 'bytes'>;
}

type RepairedEntity = EntityCounts & { readonly deleted: number };

/** Writes, and reports each step once it is stored. The last report about an entity counts. */
export type RepairWork = (lease: Lease, run: RunId, onDone: (done: RepairedEntity) => void) => Promise<void>;

/**
 * A run without walks, beside the chain of syncs: repairs stand in the history, and every row names its run. `prepare`
 * is called with the connector held: with null nothing is written. Throws where no run could begin, and errors of the
 * work, after the run has ended with them.
 */
export async function runRepair(options: RepairOptions, prepare: () => Promise<RepairWork | null>) {
  const { kind, sink, identity, tables, clock } = options;
  await using lease = await sink.acquire(identity);
  const work = await prepare();
  if (work === null) return null;
  const startedAt = instant(clock.now());
  const { run } = await sink.startRun(lease, repairPlan(options, startedAt));
  const done = new Map<EntityName, RepairedEntity>();
  const reportOf = (outcome: RunOutcome, error: SyncError | null): RunReport => ({
    ...nothingReported,
    run,
    kind,
    connector: identity.connector,
    outcome,
    startedAt,
    finishedAt: instant(clock.now()),
    entities: tables.map(({ entity }) => ({ ...nothingDone, entity, ...done.get(entity), isWhole: false })),
    ...options.costs(),
    error: error === null ? null : { code: error.code, recovery: error.recovery, message: error.message },
  });
  try {
    await work(lease, run, (one) => void done.set(one.entity, one));
  } catch (error) {
    const wasInterrupted = hasCode(error, 'INTERRUPTED');
    const report = wasInterrupted ? reportOf('interrupted', null) : reportOf('failed', toSyncError(error));
    await sink.finish(lease, run, report).catch(() => undefined); // The error of the work says more.
    throw error;
  }
  const report = reportOf('ok', null);
  await sink.finish(lease, run, report);
  return report;
}

/** Repairs are short and never resumed; the caller retries. */
function repairPlan({ kind, act, tables, clock }: RepairOptions, startedAt: Instant): RunPlan {
  return {
    run: newRunId(clock.now()),
    act,
    kind,
    window: kind,
    backfill: '',
    startedAt,
    isFull: false,
    isBudgeted: false,
    reading: new Map(),
    keeps: [],
    keepPartitionsSince: instant(0),
    tables,
    entities: [],
    roots: [],
    choices: kind,
    leaves: [],
    continueAfter: startedAt,
  };
}
