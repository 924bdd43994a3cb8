import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { LeftWork } from '../run-report.ts';
import type { CurrentRun, HeldConnector } from './ledger.ts';

/** The partitions that a run works off: of these entities, living ones (window '') or those of a backfill's window. */
export interface WorkScope {
  readonly connector: ConnectorName;
  readonly window: string;
  readonly entities: readonly EntityName[];
}

/** What is due at the start of a run, and what of it is left at its end. */
export interface DueWork {
  /** Whether the chain left partitions due, or a sweep unfinished. */
  isLeft(scope: WorkScope, origin: number): boolean;
  /** Makes what the chain set aside ready again; positions stay. */
  tryAgain(scope: WorkScope, origin: number): void;
  /**
   * The walk that would be first becomes the last, and those of its entity go behind all others: a service may keep
   * waiting what is about one thing alone, and the rest must have its turn. Holds until they are found again.
   */
  putFirstBack(scope: WorkScope): void;
  /** Partitions that the run would now walk. */
  count(scope: WorkScope): number;
  /** What is due, by entity; listings inside a tree are a part of it. */
  left(scope: WorkScope): readonly LeftWork[];
  /** What a finished chain had met is needed no more. */
  dropSeen(connector: ConnectorName, window: string): void;
}

export interface BoundScope {
  readonly connector: string;
  readonly window: string;
  readonly entities: string;
}

export function boundScope({ connector, window, entities }: WorkScope): BoundScope {
  return { connector, window, entities: JSON.stringify(entities) };
}

export function workScope({ connector }: HeldConnector, { window, entities }: CurrentRun): WorkScope {
  return { connector, window, entities: [...entities] };
}

export const inScope =
  'connector = :connector AND backfill = :window AND entity IN (SELECT value FROM json_each(:entities))';
/** Due below a parent, and not found by the chain. */
export const isLeftover =
  'due_since IS NOT NULL AND origin <> :origin AND parent_key IS NOT NULL AND tree IS NULL AND gone = 0';
type InChain = BoundScope & { readonly origin: number };

export function prepareDueWork(db: Database.Database): DueWork {
  const isLeft = db
    .prepare<[InChain], number>(
      `SELECT EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin)
         OR EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND ${isLeftover})
         OR EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND sweep_origin = :origin)`,
    )
    .pluck();
  const tryAgain = db.prepare<[InChain]>(
    `UPDATE _sync_partitions INDEXED BY _sync_partitions_set_aside SET ready = 1, set_aside_run = NULL
     WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin AND listed = 0 AND set_aside_run IS NOT NULL`,
  );
  const isReady = 'connector = :connector AND backfill = :window AND ready = 1';
  const putFirstBack = db.prepare<[BoundScope]>(
    `WITH first AS (
       SELECT id, entity FROM _sync_partitions INDEXED BY _sync_partitions_ready
       WHERE ${isReady} ORDER BY rank DESC, id LIMIT 1
     ), last AS MATERIALIZED (
       SELECT min(rank) AS rank FROM _sync_partitions INDEXED BY _sync_partitions_ready WHERE ${isReady}
     )
     UPDATE _sync_partitions SET rank = last.rank - iif(_sync_partitions.id = first.id, 2, 1) FROM first, last
     WHERE ${isReady} AND _sync_partitions.entity = first.entity`,
  );
  const count = db
    .prepare<[BoundScope], number>(`SELECT count(*) FROM _sync_partitions WHERE ${isReady}`)
    .pluck();
  const left = db.prepare<[BoundScope], LeftWork>(
    `SELECT entity, count(*) AS partitions FROM _sync_partitions
     WHERE ${inScope} AND due_since IS NOT NULL AND tree IS NULL GROUP BY entity ORDER BY entity`,
  );
  // Also of chains whose runs are past their retention: nobody goes on with those.
  const dropSeen = db.prepare<[string, string, string]>(
    `DELETE FROM _sync_seen WHERE connector = ? AND origin NOT IN
       (SELECT origin FROM _sync_runs WHERE connector = ? AND chain <> ?)`,
  );
  return {
    isLeft: (scope, origin) => isLeft.get({ ...boundScope(scope), origin }) === 1,
    tryAgain: (scope, origin) => void tryAgain.run({ ...boundScope(scope), origin }),
    putFirstBack: (scope) => void putFirstBack.run(boundScope(scope)),
    count: (scope) => count.get(boundScope(scope)) ?? 0,
    left: (scope) => left.all(boundScope(scope)),
    dropSeen: (connector, window) => void dropSeen.run(connector, connector, window),
  };
}
