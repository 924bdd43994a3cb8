import type { EntityName } from '../../core/names.ts';
import type { EntityMissing, TombstoneChoice } from '../../sinks/deletes.ts';
import type { WithheldBecause } from '../../sinks/run-report.ts';
import type { Guards } from '../run-options.ts';

/** What may become of an entity's missing rows. */
export interface DeleteVerdict {
  /** Null: nothing is withheld. */
  readonly withheldBecause: WithheldBecause | null;
  /** The rows that may be deleted all the same, where they need nothing more. */
  readonly passing: readonly TombstoneChoice[];
}

/**
 * Whether the rows that seem to be deleted may be believed to be. An entity has too many of them when those that would go now, missing ones and
 * those that would go along with others' together, and those that went in the last 24 hours are more than the guards' share of its
 * rows of 24 hours ago **and** more than their least number. Then its own missing rows are withheld, and so is every record
 * that would take rows of it along. Nothing that was stored is still there: withheld too, until another chain of runs agrees where the entity
 * came back empty, until a person lets it pass where other records stand in its place. What a person has allowed passes and does not count; nor does what
 * `get` returned when it was asked last.
 */
export function judgeDeletes(
  found: readonly EntityMissing[],
  guards: Guards,
): ReadonlyMap<EntityName, DeleteVerdict> {
  const over = new Set(
    found.filter((one) => isOver(one, goingOf(one, found), guards)).map(({ entity }) => entity),
  );
  const adopted = new Set(found.filter(({ isAdopted }) => isAdopted).map(({ entity }) => entity));
  return new Map(found.map((one) => [one.entity, judge(one, over, adopted)]));
}

function judge(
  missing: EntityMissing,
  over: ReadonlySet<EntityName>,
  adopted: ReadonlySet<EntityName>,
): DeleteVerdict {
  // Whether another address serves the same records is not settled by what it leaves out.
  const isAdopted = missing.isAdopted || missing.along.some(({ entity }) => adopted.has(entity));
  if (isAdopted && missing.missing > missing.allowed) {
    return { withheldBecause: 'adopted', passing: ['allowed'] };
  }
  const open = countOpen(missing);
  if (open <= 0) return { withheldBecause: null, passing: ['all'] };
  const isTooMuch = over.has(missing.entity) || missing.along.some(({ entity }) => over.has(entity));
  if (!missing.hasSurvivor) {
    const isReplaced = missing.live > missing.missing;
    if (isReplaced && (missing.missing > 1 || missing.along.length > 0)) {
      return { withheldBecause: 'replaced', passing: ['allowed'] };
    }
    if (!isReplaced && missing.missedTwice < missing.missing) {
      return { withheldBecause: 'empty', passing: isTooMuch ? ['allowed'] : ['allowed', 'missed-twice'] };
    }
  }
  if (!isTooMuch) return { withheldBecause: null, passing: ['all'] };
  return { withheldBecause: over.has(missing.entity) ? 'share' : 'along', passing: ['allowed'] };
}

/** Missing rows that nobody has vouched for or let go. */
function countOpen({ missing, allowed, vouchedFor }: EntityMissing): number {
  return missing - allowed - vouchedFor;
}

/** Own rows and those that would go along with others' records. */
function goingOf(missing: EntityMissing, found: readonly EntityMissing[]): number {
  return found
    .flatMap(({ along }) => along)
    .filter(({ entity }) => entity === missing.entity)
    .reduce((sum, { rows }) => sum + rows, countOpen(missing));
}

function isOver({ dayAgo, deletedInDay }: EntityMissing, going: number, guards: Guards): boolean {
  if (going <= 0 || guards.maxDeleteShare >= 1) return false;
  const inDay = going + deletedInDay;
  // Divided, because 0.57 * 100 is less than 57.
  return inDay / dayAgo > guards.maxDeleteShare && inDay > guards.minDeleteRows;
}
