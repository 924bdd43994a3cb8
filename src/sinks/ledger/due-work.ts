import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';

/** What is due at the start of a run: the rest of an unfinished chain, or nothing yet. */
export interface DueWork {
  /** Whether the chain left partitions due. */
  isLeft(connector: ConnectorName, origin: number, entities: readonly EntityName[]): boolean;
  /** Makes what the chain set aside ready again; positions stay. */
  tryAgain(connector: ConnectorName, origin: number, entities: readonly EntityName[]): void;
  /**
   * The walk that would be first becomes the last, and those of its entity go behind all others: a service may keep
   * waiting what is about one thing alone, and the rest must have its turn. Holds until they are found again.
   */
  putFirstBack(connector: ConnectorName): void;
  /**
   * For a fresh start: forgets what was due, half-read trees and what the connector's chains have met. Only a partition
   * of `leaves` that was set aside after `keepAfter` keeps its position, for when it is found again.
   */
  clear(connector: ConnectorName, entities: readonly EntityName[], keep: KeptPositions): void;
  /** Partitions that the run would now walk. */
  count(connector: ConnectorName): number;
  /** What a finished chain had met is needed no more. */
  dropSeen(connector: ConnectorName): void;
}

export interface KeptPositions {
  readonly leaves: readonly EntityName[];
  readonly after: Instant;
}

const ofEntities = 'connector = ? AND entity IN (SELECT value FROM json_each(?)) AND due_since IS NOT NULL';

export function prepareDueWork(db: Database.Database): DueWork {
  const isLeft = db
    .prepare<[string, string, number], number>(
      `SELECT 1 FROM _sync_partitions WHERE ${ofEntities} AND origin = ? LIMIT 1`,
    )
    .pluck();
  const rest = db.prepare<[string]>(
    'UPDATE _sync_partitions SET ready = 0 WHERE connector = ? AND ready = 1',
  );
  const tryAgain = db.prepare<[string, string, number]>(
    `UPDATE _sync_partitions INDEXED BY _sync_partitions_set_aside SET ready = 1, set_aside_run = NULL
     WHERE ${ofEntities} AND origin = ? AND listed = 0 AND set_aside_run IS NOT NULL`,
  );
  const putFirstBack = db.prepare<{ connector: string }>(
    `WITH first AS (
       SELECT id, entity FROM _sync_partitions INDEXED BY _sync_partitions_ready
       WHERE connector = :connector AND ready = 1 ORDER BY rank DESC, id LIMIT 1
     ), last AS MATERIALIZED (
       SELECT min(rank) AS rank FROM _sync_partitions INDEXED BY _sync_partitions_ready
       WHERE connector = :connector AND ready = 1
     )
     UPDATE _sync_partitions SET rank = last.rank - iif(_sync_partitions.id = first.id, 2, 1) FROM first, last
     WHERE connector = :connector AND ready = 1 AND _sync_partitions.entity = first.entity`,
  );
  // The index holds the few listings inside trees; any other would lead through all partitions.
  const dropInner = db.prepare<[string, string]>(
    `DELETE FROM _sync_partitions INDEXED BY _sync_partitions_tree
     WHERE connector = ? AND tree IS NOT NULL AND entity IN (SELECT value FROM json_each(?))`,
  );
  const clear = db.prepare<[string, string, string, string]>(
    `UPDATE _sync_partitions SET due_since = NULL, ready = 0, listed = 0, set_aside_run = NULL, failure = NULL,
       failed_at = NULL,
       position = CASE WHEN set_aside_run IS NOT NULL AND failed_at > ? AND entity IN (SELECT value FROM json_each(?))
                       THEN position END
     WHERE ${ofEntities}`,
  );
  const dropSeen = db.prepare<[string]>('DELETE FROM _sync_seen WHERE connector = ?');
  const count = db
    .prepare<[string], number>('SELECT count(*) FROM _sync_partitions WHERE connector = ? AND ready = 1')
    .pluck();
  return {
    isLeft: (connector, origin, entities) =>
      isLeft.get(connector, JSON.stringify(entities), origin) !== undefined,
    tryAgain: (connector, origin, entities) => {
      tryAgain.run(connector, JSON.stringify(entities), origin);
    },
    putFirstBack: (connector) => void putFirstBack.run({ connector }),
    clear: (connector, entities, { leaves, after }) => {
      dropInner.run(connector, JSON.stringify(entities));
      clear.run(after, JSON.stringify(leaves), connector, JSON.stringify(entities));
      rest.run(connector);
      dropSeen.run(connector);
    },
    count: (connector) => count.get(connector) ?? 0,
    dropSeen: (connector) => void dropSeen.run(connector),
  };
}
