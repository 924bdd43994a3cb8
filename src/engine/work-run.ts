import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Lease, StartedRun, WalkFailure } from '../sinks/sink.ts';
import { groupCommits } from './group-commits.ts';
import { noteEnding, toSyncError, type Ending } from './note-ending.ts';
import type { RunTally } from './run-tally.ts';
import type { SyncOptions } from './sync-connector.ts';
import { walkContexts } from './walk-contexts.ts';
import { walkPartition } from './walk-partition.ts';
import { watchSilence } from './watch-silence.ts';
import { newWake, workPartitions } from './work-partitions.ts';

/**
 * Works off what is due in a run, and notes in `ending` what ended it early. Resolves when every walk has stopped;
 * never rejects.
 */
export async function workRun(
  options: SyncOptions,
  lease: Lease,
  started: StartedRun,
  tally: RunTally,
  ending: Ending,
): Promise<void> {
  const { sink, clock, onEvent } = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const endRun = (error: unknown): void => {
    noteEnding(ending, error, { signal, nowMs: clock.now() });
    stop.abort(error);
  };
  const commits = groupCommits(sink, lease, { clock, onEvent, onFailed: endRun });
  const wake = newWake();
  const silence = watchSilence();
  const contextOf = walkContexts(options, { started, tally, commits, signal, wake, silence });
  /** Entities that the service denies as a whole: their other partitions would only be denied one by one. */
  const denied = new Map<EntityName, WalkFailure>();

  await workPartitions(
    {
      sink,
      lease,
      concurrency: options.concurrency,
      signal,
      walk: async (partition) => {
        const failure = denied.get(partition.entity);
        if (failure !== undefined) return { kind: 'set-aside', failure };
        commits.walkOpened();
        try {
          const end = await walkPartition(contextOf(partition.entity), partition);
          if (end.kind === 'sealed') {
            tally.sealed(partition, end.proof);
            onEvent({
              kind: 'walk-sealed',
              entity: partition.entity,
              params: partition.params,
              proof: end.proof.kind,
            });
          }
          if (end.kind === 'set-aside' && end.failure.recovery === 'skip-entity')
            denied.set(partition.entity, end.failure);
          return end;
        } finally {
          commits.walkClosed();
        }
      },
      setAside: async (partition, failure) => {
        await sink.setAside(lease, { partition: partition.id, run: started.run }, failure);
        tally.setAside(partition, failure);
        onEvent({
          kind: 'walk-set-aside',
          entity: partition.entity,
          params: partition.params,
          code: failure.code,
          message: failure.message,
        });
        if (denied.has(partition.entity) || failure.recovery !== 'retry') return;
        const { verdict, pauseMs } = silence.walkUnanswered(partition.entity);
        if (verdict === 'deny-entity') denied.set(partition.entity, failure);
        if (verdict === 'end-run') throw silenceError(failure);
        if (pauseMs > 0) await clock.sleep(pauseMs, signal);
      },
      onFatal: endRun,
    },
    wake,
  ).catch(endRun);
  // What an earlier run left may be all that is down: then holding on to it would keep everything else from being read.
  if (silence.isUnbroken() && started.continues === null && !signal.aborted) {
    ending.error ??= silenceError([...denied.values()].at(-1) ?? null);
  }
  try {
    tally.check();
  } catch (error) {
    ending.error ??= toSyncError(error);
  }
}

/** Ends the run as failed, so that the next one goes on from here. */
function silenceError(last: WalkFailure | null): SyncError {
  const message = `nobody answers any more: walk after walk failed, the last one with: ${last?.message ?? 'no answer'}`;
  return new SyncError(message, { code: last?.code ?? 'UPSTREAM', recovery: 'retry' });
}
