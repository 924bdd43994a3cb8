import { instant, type Clock, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { EntityName, RunId } from '../../core/names.ts';
import type { EntityCounts, EntityTable } from '../../core/records.ts';
import type { RunKind, RunOutcome, RunReport } from '../../sinks/run-report.ts';
import type { ConnectorIdentity, Lease } from '../../sinks/lease.ts';
import type { RunPlan } from '../../sinks/sink.ts';
import type { Sink } from '../../sinks/sink-access.ts';
import { toSyncError } from '../run.ts';
import { newRunId } from '../plan-run.ts';
import { nothingDone, nothingReported } from '../run-tally.ts';

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

interface RepairedEntity extends EntityCounts {
  readonly deleted: number;
}

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
    const wasInterrupted = error instanceof SyncError && error.code === 'INTERRUPTED';
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
