import { SyncError } from '../core/errors.ts';
import type { EntityName } from '../core/names.ts';
import type { Partition, WalkFailure } from '../sinks/partition.ts';
import { isFiltered } from './chosen-entities.ts';
import { openAccountCheck } from './check-account.ts';
import { compileCompletePage } from './complete-page.ts';
import { groupCommits, walkPartition, type WalkContext } from './walk.ts';
import { compilePreparePage, type RememberedRows } from './prepare/prepare-page.ts';
import type { Run } from './run.ts';
import { newWake, workPool } from './work-pool.ts';
import { knownOrMade } from '../core/known-or-made.ts';

/** Received and not yet stored, over all walks: beyond it a walk stores its page before it asks for the next. */
const maxInFlightBytes = 64 * 1024 * 1024;

/**
 * Walks what is due, then what nothing led to in this chain. Throws what the sink refuses, and `SyncError` when the API
 * stopped responding.
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
    same: async (entity, records) => await sink.stored.same(lease, entity, records),
  };
  const contexts = new Map<EntityName, WalkContext>();
  /** Entities that the service denies as a whole: their other partitions would only be denied one by one. */
  const denied = new Map<EntityName, WalkFailure>();

  /** What the walks of an entity share, made when the first of them starts. */
  function makeContext(name: EntityName): WalkContext {
    const { definition, entities } = run;
    const entity = definition.entities.get(name);
    if (entity === undefined) {
      throw new SyncError(
        `the ledger knows an entity ${name} that the definition ${definition.name} does not`,
        { code: 'INTERNAL', recovery: 'stop' },
      );
    }
    const isBackfill = run.asked.window !== null;
    return {
      run,
      commits,
      inFlight,
      entity,
      isBackfill,
      isFiltered: isFiltered(entities.get(name)),
      pageLengths: new Map(),
      slowPages: { halvings: 0 },
      trustsTotal: entities.get(name)?.trustsTotal ?? entity.trustsTotal,
      completePage: compileCompletePage(entity, run),
      checkAccount: account.ofPage,
      preparePage: compilePreparePage({ ...run, isBackfill, remembered }, entity),
      onStored: (newlyDue) => {
        silence.pageStored(name);
        if (newlyDue > 0) wake.wake();
      },
    };
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
  const next = async (limit: number): Promise<readonly Partition[]> =>
    await sink.nextPartitions(lease, limit);
  do {
    await workPool({ concurrency: run.concurrency, isOver, next, work: walk, onError: ending.end }, wake);
    // Only now: what leads to something else may have been among what was walked.
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
    walkUnanswered: (
      entity: EntityName,
      isBroken: boolean,
    ): { readonly verdict: 'go-on' | 'deny-entity' | 'end-run'; readonly pauseMs: number } => {
      const streak = streaks.get(entity) ?? { walks: 0, pagesBefore: pages };
      streak.walks += 1;
      streaks.set(entity, streak);
      if (streak.walks < silentWalks) {
        const pauseMs = isBroken ? 0 : Math.min(longestPauseMs, 1000 * (streak.walks - 1));
        return { verdict: 'go-on', pauseMs };
      }
      return { verdict: unbroken() > 1 ? 'end-run' : 'deny-entity', pauseMs: 0 };
    },
    /** True when nothing was stored since an entity fell silent: for all that is known, the service is down. */
    isUnbroken: (): boolean => unbroken() > 0,
  };
}
