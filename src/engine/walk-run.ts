import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Partition, WalkFailure } from '../sinks/partition.ts';
import { groupCommits } from './group-commits.ts';
import type { SyncOptions } from './sync-connector.ts';
import { walkContexts } from './walk-contexts.ts';
import { walkPartition, type WalkEnd } from './walk-partition.ts';
import { watchSilence } from './watch-silence.ts';
import { newWake, workPartitions, type WorkOptions } from './work-partitions.ts';
import type { RunUnderWay } from './work-run.ts';

/** How the walks of a run are told to end. */
export interface WalkRunOptions {
  readonly signal: AbortSignal;
  /** Takes what must end the run. */
  readonly endRun: (error: unknown) => void;
  /** True from when nothing more may start. */
  readonly isClosing: () => boolean;
}

/**
 * Works off what is due, and then what nothing led to in this chain of runs. Resolves when every walk has stopped.
 * Throws what the sink refuses, and `SyncError` when nobody answers any more.
 */
export async function walkRun(
  options: SyncOptions,
  { lease, started, run, policies, tally, capMs }: RunUnderWay,
  { signal, endRun, isClosing }: WalkRunOptions,
): Promise<void> {
  const { sink, clock, concurrency, onEvent } = options;
  const commits = groupCommits(sink, lease, { clock, onEvent, onFailed: endRun });
  const wake = newWake();
  const silence = watchSilence();
  const contextOf = walkContexts(
    { ...options, run },
    { started, policies, tally, commits, signal, wake, silence, capMs },
  );
  /** Entities that the service denies as a whole: their other partitions would only be denied one by one. */
  const denied = new Map<EntityName, WalkFailure>();

  async function walk(partition: Partition): Promise<WalkEnd> {
    const failure = denied.get(partition.entity);
    if (failure !== undefined) return { kind: 'set-aside', failure };
    commits.walkOpened();
    try {
      const end = await walkPartition(contextOf(partition.entity), partition);
      if (end.kind === 'sealed') {
        const { entity, params } = partition;
        tally.sealed(partition, end.proof);
        onEvent({ kind: 'walk-sealed', entity, params, proof: end.proof.kind });
      }
      if (end.kind === 'set-aside' && end.failure.recovery === 'skip-entity') {
        denied.set(partition.entity, end.failure);
      }
      return end;
    } finally {
      commits.walkClosed();
    }
  }

  async function setAside(partition: Partition, failure: WalkFailure): Promise<void> {
    const { entity, params } = partition;
    const { code, message } = failure;
    await sink.setAside(lease, { partition: partition.id, run: started.run }, failure);
    tally.setAside(partition, failure);
    onEvent({ kind: 'walk-set-aside', entity, params, code, message });
    if (denied.has(entity) || failure.recovery !== 'retry') return;
    const { verdict, pauseMs } = silence.walkUnanswered(entity, code === 'BODY_INVALID');
    if (verdict === 'deny-entity') denied.set(entity, failure);
    if (verdict === 'end-run') throw silenceError(failure);
    if (pauseMs > 0) await clock.sleep(pauseMs, signal);
  }

  const work: WorkOptions = { sink, lease, concurrency, signal, walk, setAside, onFatal: endRun, isClosing };
  do {
    await workPartitions(work, wake);
    // Only now: what leads to something else may have been among what was walked.
  } while (!signal.aborted && !isClosing() && (await sink.findLeftovers(lease)) > 0);

  // What an earlier run left may be all that is down: then holding on to it would keep everything else from being read.
  if (silence.isUnbroken() && started.continues === null && !signal.aborted) {
    throw silenceError([...denied.values()].at(-1) ?? null);
  }
}

/** Ends the run as failed, so that the next one goes on from here. */
function silenceError(last: WalkFailure | null): SyncError {
  const message = `nobody answers any more: walk after walk failed, the last one with: ${last?.message ?? 'no answer'}`;
  return new SyncError(message, { code: last?.code ?? 'UPSTREAM', recovery: 'retry' });
}
