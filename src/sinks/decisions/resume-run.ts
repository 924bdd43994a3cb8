import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { writeJson } from '../../core/json-text.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { RunOutcome } from '../run-report.ts';
import type { RunPlan } from '../sink.ts';
import { believedUntil, type ChainReading } from './becoming-due.ts';

/** The newest run of a connector and window, as the next one needs to know it. */
export interface EarlierRun {
  readonly run: RunId;
  /** Number of the first run of its chain. */
  readonly origin: number;
  readonly state: RunOutcome | 'running';
  readonly scope: string;
  /** False after rows were lost, a reset or an adoption. */
  readonly canContinue: boolean;
  readonly isFull: boolean;
  readonly hasStored: boolean;
  /** Until when the service asked for no calls, where that ended the run. */
  readonly resumeAt: Instant | null;
  /**
   * When the chain's newest run that stored a page began; where it ended because the service asked for no calls, until
   * when.
   */
  readonly progressAt: Instant;
}

export interface NewRun extends Pick<RunPlan, 'run' | 'kind' | 'window' | 'isFull' | 'startedAt'> {
  readonly connector: ConnectorName;
  /** What the run reads, as text: only a run of the same scope resumes it. */
  readonly scope: string;
}

/** A run that a lease is in, with what it has from its plan: the same in every sink. */
export interface RunInChain extends Pick<
  RunPlan,
  'run' | 'kind' | 'window' | 'backfill' | 'keepPartitionsSince' | 'isFull'
> {
  /** Number of the first run of its chain. */
  readonly origin: number;
  /** When that one began. */
  readonly chainStartedAt: Instant;
  /** What was not read for longest goes first. */
  readonly isStalestFirst: boolean;
  /** Of the entities that it reads. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
  readonly entities: ReadonlySet<EntityName>;
  /** Entities whose rows are never deleted. */
  readonly keeps: ReadonlySet<EntityName>;
  /** The shortest page that was followed by more, by entity and requested size: of this process. */
  readonly followed: Map<string, number>;
}

/**
 * Whether a plan's run may resume the newest one: it was cut short, reads the same and made progress lately. Work must
 * remain, too.
 */
export function mayResume(newest: EarlierRun, plan: RunPlan, definitionHash: string): boolean {
  const wasCutShort =
    newest.state === 'interrupted' || newest.state === 'failed' || newest.state === 'partial';
  // A chain may last while it makes progress: a service that allows an hour of calls a day is still read to its end.
  const isYoung = newest.progressAt > plan.continueAfter;
  const isFullEnough = newest.isFull || !plan.isFull;
  const readsTheSame = newest.scope === scopeOf(plan, definitionHash);
  return newest.canContinue && wasCutShort && isYoung && isFullEnough && readsTheSame;
}

/**
 * The service asked the resumed run to wait before it gave a page: what that run would have read first is read last.
 */
export function wasKeptWaiting(earlier: EarlierRun | null): boolean {
  return earlier !== null && earlier.resumeAt !== null && !earlier.hasStored;
}

/**
 * What a run reads, as text. A changed definition is another scope: what it stored as positions may mean something else
 * now.
 */
export function scopeOf(plan: RunPlan, definitionHash: string): string {
  return writeJson({
    definition: definitionHash,
    choices: plan.choices,
    entities: [...plan.entities].sort(),
    roots: plan.roots.map(({ entity, params }) => writeJson([entity, params])).sort(),
  });
}

/**
 * How the plan's entities are read in a chain of runs. Throws where the plan lacks it: their partitions would never
 * become ready.
 */
export function chainReadings(
  plan: RunPlan,
  definitionHash: string,
  isFull: boolean,
): ReadonlyMap<EntityName, ChainReading> {
  const leaves = new Set(plan.leaves);
  return new Map(
    plan.entities.map((entity) => {
      const reading = plan.reading.get(entity);
      if (reading === undefined) {
        throw new SyncError(
          `The run's plan does not say how "${entity}" is read. This is a defect: report it with the run's log.`,
          { code: 'INTERNAL', recovery: 'stop', context: { entity } },
        );
      }
      // A leaf concludes nothing from the choices; what leads to others must lead to them all, unchanged or not.
      const scope = writeJson(leaves.has(entity) ? [definitionHash] : [definitionHash, plan.choices]);
      return [entity, { ...reading, isFull, scope, believedUntil: believedUntil(plan.startedAt) }];
    }),
  );
}
