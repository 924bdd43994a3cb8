import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { Absence, Seal } from '../partition.ts';
import { writeJson } from './json-text.ts';
import type { CurrentRun } from './ledger.ts';
import type { PartitionRow } from './partitions.ts';

/**
 * Ends walks. A listing with inner listings counts as sealed only when all of them are read too; they are ledger rows
 * until then, and go in the same transaction. A partition without inner listings is a tree of one.
 */
export interface Trees {
  seal(partition: PartitionRow, current: SealingRun, seal: Seal, now: Instant): void;
}

type SealingRun = Pick<CurrentRun, 'run' | 'chainStartedAt' | 'reading'>;

export function prepareTrees(db: Database.Database): Trees {
  // What failed in an earlier run of the chain is forgotten here: the listing has now been read to its end.
  const endListing = db.prepare<[string, string | null, number]>(
    `UPDATE _sync_partitions SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
       failed_at = NULL, proof = ?, absence = ?
     WHERE id = ?`,
  );
  const endInner = db.prepare<[string, string, number]>(
    'UPDATE _sync_partitions SET due_since = NULL, sealed_at = ?, sealed_run = ? WHERE id = ?',
  );
  const isUnread = db
    .prepare<[number], number>(`SELECT 1 FROM _sync_partitions WHERE tree = ? AND due_since >= '' LIMIT 1`)
    .pluck();
  const absences = db
    .prepare<[number, number], Absence>(
      'SELECT absence FROM _sync_partitions WHERE id = ? UNION SELECT absence FROM _sync_partitions WHERE tree = ?',
    )
    .pluck();
  // A full walk says how far the records go whatever was thought before: a clock that was wrong once may have said further.
  // A walk that began where one of an earlier chain had stopped has not seen its first half as it is now: what it did not
  // meet says nothing, and the next walk is a full one, whatever the parent's change value says by then.
  const endTree = db.prepare<TreeEnd>(
    `UPDATE _sync_partitions SET due_since = NULL, listed = 0, sealed_at = :now, sealed_run = :run,
       sealed_scope = :scope, absence = :absence,
       watermark = CASE WHEN :watermark IS NULL OR mode <> 'full' AND watermark >= :watermark THEN watermark ELSE :watermark END,
       marker = found_marker,
       full_at = CASE WHEN midway = 1 AND (mode = 'full' OR found_marker IS NOT NULL) THEN NULL
                      WHEN mode = 'full' AND :absence IS NULL THEN :chainStartedAt ELSE full_at END,
       full_origin = CASE WHEN mode = 'full' AND midway = 0 AND :absence IS NOT NULL THEN origin ELSE full_origin END,
       sweep_origin = CASE WHEN mode = 'full' AND midway = 0 AND :absence IS NOT NULL THEN origin END, swept_to = 0
     WHERE id = :id AND listed = 1 AND due_since IS NOT NULL`,
  );
  const dropInner = db.prepare<[number]>('DELETE FROM _sync_partitions WHERE tree = ?');
  return {
    seal: (partition, { run, chainStartedAt, reading }, { proof, absence, watermark, ...shown }, now) => {
      endListing.run(writeJson({ ...proof, ...shown }), absence, partition.id);
      if (partition.tree !== null) endInner.run(now, run, partition.id);
      const id = partition.tree ?? partition.id;
      if (isUnread.get(id) !== undefined) return;
      const end = {
        id,
        run,
        now,
        chainStartedAt,
        scope: reading.get(partition.entity)?.scope ?? null,
        absence: weakest(absences.all(id, id)),
        watermark: partition.tree === null ? watermark : null,
      };
      if (endTree.run(end).changes > 0) dropInner.run(id);
    },
  };
}

interface TreeEnd {
  readonly id: number;
  readonly run: string;
  readonly now: Instant;
  readonly chainStartedAt: Instant;
  readonly scope: string | null;
  readonly absence: Absence;
  readonly watermark: Instant | null;
}

const byStrength: readonly Absence[] = [null, 'walk', 'get', 'nothing'];

/** What a tree says of what it did not meet is what its least certain listing says. */
function weakest(absences: readonly Absence[]): Absence {
  return byStrength.find((absence) => absences.includes(absence)) ?? null;
}
