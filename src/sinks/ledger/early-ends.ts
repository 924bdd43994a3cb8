import type Database from 'better-sqlite3';
import * as z from 'zod';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { PageLength, WalkMode } from '../partition.ts';
import type { UnsealedWalk } from '../sink.ts';
import { readJson } from './json-text.ts';
import type { CurrentRun } from './ledger.ts';
import type { WriteStamp } from './record-store.ts';

/** Walks that a short page ended, although more comes after pages of that length. */
export interface EarlyEnds {
  /**
   * Makes those that this chain has sealed due again, as if they had never been read: in full, and neither a watermark nor what
   * they did not meet counts. Gives how many they are, and those of this run.
   */
  unseal(
    of: EarlyEndsOf,
    stamp: WriteStamp,
  ): { readonly due: number; readonly ofRun: readonly UnsealedWalk[] };
}

export interface EarlyEndsOf {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly current: Pick<CurrentRun, 'run' | 'origin' | 'window'>;
  readonly followed: PageLength;
}

interface EarlyEnd {
  readonly id: number;
  readonly mode: WalkMode;
  readonly proof: string;
  readonly sealedRun: string;
}

const storedProof = z.object({ kind: z.enum(['single', 'seam', 'token', 'keyset']), isOrdered: z.boolean() });

export function prepareEarlyEnds(db: Database.Database): EarlyEnds {
  const ended = db.prepare<
    [{ connector: string; entity: string; window: string; origin: number; size: number; records: number }],
    EarlyEnd
  >(
    `SELECT id, mode, proof, sealed_run AS sealedRun FROM _sync_partitions AS one
     WHERE connector = :connector AND entity = :entity AND backfill = :window AND origin = :origin AND gone = 0
       AND (due_since IS NULL OR listed = 1)
       AND json_extract(proof, '$.lastPage.size') = :size AND json_extract(proof, '$.lastPage.records') >= :records
       AND (listed = 1 OR EXISTS (SELECT 1 FROM _sync_runs WHERE run = one.sealed_run AND origin = :origin))`,
  );
  const unseal = db.prepare<[string, number, number]>(
    `UPDATE _sync_partitions SET due_since = ?, ready = 1, listed = 0, position = NULL, mode = 'full', midway = 0,
       watermark = NULL, proof = NULL, absence = NULL, full_at = NULL, full_origin = nullif(full_origin, ?), sweep_origin = NULL,
       swept_to = 0
     WHERE id = ?`,
  );
  return {
    unseal: ({ connector, entity, current: { run, origin, window }, followed }, { now }) => {
      const early = ended.all({ connector, entity, window, origin, ...followed });
      for (const { id } of early) unseal.run(now, origin, id);
      const ofRun = early.filter(({ sealedRun }) => sealedRun === run);
      return {
        due: early.length,
        ofRun: ofRun.map(({ mode, proof }) => ({ mode, proof: storedProof.parse(readJson(proof)) })),
      };
    },
  };
}
