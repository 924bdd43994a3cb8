import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { RunId } from '../../core/names.ts';
import type { Proof } from '../sink.ts';
import { writeJson } from './json-text.ts';
import type { PartitionRow } from './partitions.ts';

/**
 * Ends walks. A listing with inner listings counts as sealed only when all of them are read too; they are ledger rows
 * until then, and go in the same transaction. A partition without inner listings is a tree of one.
 */
export interface Trees {
  seal(partition: PartitionRow, run: RunId, proof: Proof, now: Instant): void;
}

export function prepareTrees(db: Database.Database): Trees {
  // What failed in an earlier run of the chain is forgotten here: the listing has now been read to its end.
  const endListing = db.prepare<[string, number]>(
    `UPDATE _sync_partitions SET listed = 1, ready = 0, position = NULL, set_aside_run = NULL, failure = NULL,
       failed_at = NULL, proof = ?
     WHERE id = ?`,
  );
  const endInner = db.prepare<[string, string, number]>(
    'UPDATE _sync_partitions SET due_since = NULL, sealed_at = ?, sealed_run = ? WHERE id = ?',
  );
  const isUnread = db
    .prepare<[number], number>(`SELECT 1 FROM _sync_partitions WHERE tree = ? AND due_since >= '' LIMIT 1`)
    .pluck();
  const endTree = db.prepare<[string, string, number]>(
    `UPDATE _sync_partitions SET due_since = NULL, listed = 0, sealed_at = ?, sealed_run = ?
     WHERE id = ? AND listed = 1 AND due_since IS NOT NULL`,
  );
  const dropInner = db.prepare<[number]>('DELETE FROM _sync_partitions WHERE tree = ?');
  return {
    seal: (partition, run, proof, now) => {
      endListing.run(writeJson(proof), partition.id);
      if (partition.tree !== null) {
        endInner.run(now, run, partition.id);
      }
      const root = partition.tree ?? partition.id;
      if (isUnread.get(root) === undefined && endTree.run(now, run, root).changes > 0) {
        dropInner.run(root);
      }
    },
  };
}
