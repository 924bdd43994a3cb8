import { instant, type Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { EntityReport, RunReport } from '../run-report.ts';

const dayMs = 24 * 60 * 60 * 1_000;
const runDays = 90;
const quarantineDays = 90;

/**
 * Of a connector, newest first. A source that sends a broken record every minute would add 130,000 to the quarantine in
 * 90 days.
 */
export const mostKept = { runs: 1_000, quarantined: 10_000 } as const;

/** What is older is pruned at the end of a run. */
export function keptSince(nowMs: number): { readonly runs: Instant; readonly quarantined: Instant } {
  return { runs: instant(nowMs - runDays * dayMs), quarantined: instant(nowMs - quarantineDays * dayMs) };
}

/** Whether nothing of the run is to be resumed: the rows that its chain has met are no longer needed. */
export function isChainOver({ outcome }: Pick<RunReport, 'outcome'>): boolean {
  return outcome === 'ok' || outcome === 'degraded';
}

/**
 * The run seems to have read another account: a later one that resumed it would take its listings for those of the
 * right one.
 */
export function isDoubted({ error }: Pick<RunReport, 'error'>): boolean {
  return error?.code === 'IDENTITY_CHANGED';
}

/** A full run has met every row of the entity, so that adopted ones are those of the new address. */
export function agreesWithStored(
  {
    isWhole,
    isProven,
    withheld,
    pending,
  }: Pick<EntityReport, 'isWhole' | 'isProven' | 'withheld' | 'pending'>,
  isFull: boolean,
): boolean {
  return isFull && isWhole && isProven && withheld + pending === 0;
}

/**
 * The entities that were read whole without a doubt, and whose walks they come from: an exploded table comes after its
 * entity in `tables`, the plan's order.
 */
export function readWhole(
  { entities }: Pick<RunReport, 'entities'>,
  tables: Iterable<EntityName>,
  walkedEntities: ReadonlySet<EntityName>,
): readonly { readonly entity: EntityName; readonly walked: EntityName }[] {
  const whole = new Set(
    entities.filter(({ isWhole, isProven }) => isWhole && isProven).map(({ entity }) => entity),
  );
  let walked: EntityName | null = null;
  return [...tables].flatMap((entity) => {
    walked = walkedEntities.has(entity) || walked === null ? entity : walked;
    return whole.has(entity) ? [{ entity, walked }] : [];
  });
}
