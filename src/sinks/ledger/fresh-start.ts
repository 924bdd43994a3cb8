import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { EntityName } from '../../core/names.ts';
import type { ChainReading } from './becoming-due.ts';
import { boundScope, inScope, type BoundScope, type WorkScope } from './due-work.ts';

export interface FreshStart {
  readonly scope: WorkScope;
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
  /**
   * Entities whose set-aside walks keep their positions, where they failed after `keepAfter`: first reads and incremental ones.
   * What was read whole before begins again, because only a full walk from the start sees deletes.
   */
  readonly leaves: readonly EntityName[];
  readonly keepAfter: Instant;
  readonly now: Instant;
}

/**
 * Begins a chain of syncs: half-read trees and what is to be swept for an earlier chain are forgotten. Roots are found anew
 * by the caller; what was found below a parent stays due until its parent, or the end of the walks, makes it ready, and what
 * has not been read in full for too long becomes due.
 */
export function prepareFreshStart(db: Database.Database): (start: FreshStart) => void {
  // The index holds the few listings inside trees; any other would lead through all partitions.
  const dropInner = db.prepare<[BoundScope]>(
    `DELETE FROM _sync_partitions INDEXED BY _sync_partitions_tree WHERE tree IS NOT NULL AND ${inScope}`,
  );
  const stopSweep = db.prepare<[BoundScope]>(
    `UPDATE _sync_partitions INDEXED BY _sync_partitions_sweep SET sweep_origin = NULL, swept_to = 0
     WHERE sweep_origin IS NOT NULL AND ${inScope}`,
  );
  const clear = db.prepare<[BoundScope & { readonly leaves: string; readonly keepAfter: Instant }]>(
    `UPDATE _sync_partitions SET ready = 0, listed = 0, set_aside_run = NULL,
       position = CASE WHEN set_aside_run IS NOT NULL AND failed_at > :keepAfter
                         AND (sealed_at IS NULL OR mode = 'incremental')
                         AND entity IN (SELECT value FROM json_each(:leaves)) THEN position END,
       due_since = CASE WHEN parent_key IS NOT NULL THEN due_since END,
       failure = CASE WHEN parent_key IS NOT NULL THEN failure END,
       failed_at = CASE WHEN parent_key IS NOT NULL THEN failed_at END
     WHERE ${inScope} AND due_since IS NOT NULL`,
  );
  const rest = db.prepare<[string]>(
    "UPDATE _sync_partitions SET ready = 0 WHERE connector = ? AND backfill = '' AND ready = 1",
  );
  // Without a time, too, or with an impossible one: a full walk that was never swept, or whose proof was taken back. Each is a range of the index.
  const age = ['full_at <= :fullBefore', 'full_at > :believedUntil', 'full_at IS NULL'].map((isAged) =>
    db.prepare<Ageing>(
      `UPDATE _sync_partitions INDEXED BY _sync_partitions_aged SET due_since = :now, ready = 0
       WHERE connector = :connector AND entity = :entity AND due_since IS NULL AND ${isAged}
         AND backfill = '' AND parent_key IS NOT NULL AND tree IS NULL AND gone = 0`,
    ),
  );
  return ({ scope, reading, leaves, keepAfter, now }) => {
    const { connector } = scope;
    const bound = boundScope(scope);
    dropInner.run(bound);
    stopSweep.run(bound);
    clear.run({ ...bound, leaves: JSON.stringify(leaves), keepAfter });
    rest.run(connector);
    for (const [entity, { fullBefore, believedUntil }] of reading) {
      for (const one of age) one.run({ connector, entity, fullBefore, believedUntil, now });
    }
  };
}

interface Ageing extends Pick<ChainReading, 'fullBefore' | 'believedUntil'> {
  readonly connector: string;
  readonly entity: EntityName;
  readonly now: Instant;
}
