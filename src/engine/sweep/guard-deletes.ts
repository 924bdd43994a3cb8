import type { EntityMissing, TombstoneChoice } from '../../sinks/deletes.ts';
import type { Guards } from '../run-options.ts';

/** What may become of an entity's missing rows. */
export interface DeleteVerdict {
  /** Null: nothing is withheld. */
  readonly withheldBecause: 'share' | 'empty' | null;
  /** The rows that may be tombstoned all the same, where they need nothing more. */
  readonly passing: readonly TombstoneChoice[];
}

/**
 * Whether the rows that seem to be gone may be believed to be: not when they are more than the guards' share of the entity
 * **and** more than its least number; and when the entity has come back empty, only those that another chain of runs has
 * missed too. What a person has allowed passes and does not count; nor does what `get` has returned before: listings are known to
 * leave it out, and one by one it is asked for again.
 */
export function guardDeletes(missing: EntityMissing, guards: Guards): DeleteVerdict {
  const open = missing.missing - missing.allowed - missing.vouchedFor;
  if (open <= 0) return { withheldBecause: null, passing: ['all'] };
  // Divided, because 0.57 * 100 is less than 57.
  const isLarge = open / missing.live > guards.maxDeleteShare && open > guards.minDeleteRows;
  if (missing.isEmpty && missing.missedTwice < missing.missing) {
    return { withheldBecause: 'empty', passing: isLarge ? ['allowed'] : ['allowed', 'missed-twice'] };
  }
  return isLarge
    ? { withheldBecause: 'share', passing: ['allowed'] }
    : { withheldBecause: null, passing: ['all'] };
}
