import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { FoundPartition, Position, WalkFailure, WalkMode } from '../partition.ts';
import { prepareFinding, type Finding } from './find-partition.ts';
import { writeJson } from './json-text.ts';
import { positionText } from './position-text.ts';

/** A partition as a commit needs it. */
export interface PartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly tree: number | null;
  readonly dueSince: Instant | null;
  readonly listed: number;
  /** The partition that its records are at home in: of a listing inside a tree the tree's, of a backfill's the living one. */
  readonly home: number;
}

/** A known partition that becomes ready in a chain of runs. */
export interface Beginning extends Omit<Finding, 'window'> {
  readonly id: number;
  readonly entity: EntityName;
  readonly mode: WalkMode;
}

/** `_sync_partitions`: finding them, and how far their walks have come. */
export interface Partitions {
  /** Throws `SyncError` FENCED when the connector has no such partition (any more). */
  get(connector: ConnectorName, id: number): PartitionRow;
  /** Makes a partition due unless this chain already found it or nothing has changed in it; true when it became due. */
  find(found: FoundPartition, finding: Finding): boolean;
  /** Makes a partition ready. What an earlier chain has kept of its position counts only for a walk of the same mode. */
  begin(beginning: Beginning): void;
  advance(id: number, position: Position): void;
  setAside(id: number, run: string, why: WalkFailure): void;
}

export function preparePartitions(db: Database.Database): Partitions {
  const get = db.prepare<[number, string], PartitionRow>(
    `SELECT id, entity, tree, due_since AS dueSince, listed, coalesce(base,
       (SELECT coalesce(root.base, root.id) FROM _sync_partitions AS root WHERE root.id = one.tree), id) AS home
     FROM _sync_partitions AS one WHERE id = ? AND connector = ?`,
  );
  // A full walk that is due stays due, whatever breaks it off: the one before it counts no more.
  const beginWalk = db.prepare<BeginningValues, { midway: number }>(
    `UPDATE _sync_partitions SET origin = :origin, due_since = coalesce(due_since, :now), ready = :ready, listed = 0,
       midway = position IS NOT NULL AND mode IS :mode, position = CASE WHEN mode IS :mode THEN position END,
       mode = :mode, full_at = CASE WHEN :mode = 'full' THEN NULL ELSE full_at END, set_aside_run = NULL
     WHERE id = :id RETURNING midway`,
  );
  const takeOver = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET taken_over = ? WHERE connector = ? AND entity = ?',
  );
  const advance = db.prepare<[string, number]>('UPDATE _sync_partitions SET position = ? WHERE id = ?');
  const setAside = db.prepare<AsideValues>(
    `UPDATE _sync_partitions SET ready = 0, set_aside_run = :run, failure = :failure, failed_at = :at,
       position = CASE WHEN :dropPosition OR :dropWatermark THEN NULL ELSE position END,
       watermark = CASE WHEN :dropWatermark THEN NULL ELSE watermark END,
       full_at = CASE WHEN :dropWatermark THEN NULL ELSE full_at END,
       midway = CASE WHEN :dropPosition OR :dropWatermark THEN 0 ELSE midway END,
       mode = CASE WHEN :dropWatermark THEN 'full' ELSE mode END
     WHERE id = :id AND due_since IS NOT NULL`,
  );

  const begin: Partitions['begin'] = ({ id, connector, entity, origin, now, mode, reading }) => {
    const begun = beginWalk.get({ id, origin, now, mode, ready: reading === undefined ? 0 : 1 });
    if (begun?.midway === 1) takeOver.run(origin, connector, entity);
  };

  return {
    get: (connector, id) => {
      const row = get.get(id, connector);
      if (row === undefined) {
        throw new SyncError(
          `Partition ${id} of connector "${connector}" is not in the ledger (any more). End this run; a newer one goes on.`,
          { code: 'FENCED', recovery: 'stop', context: { connector, partition: id } },
        );
      }
      return row;
    },
    find: prepareFinding(db, begin),
    begin,
    advance: (id, position) => void advance.run(positionText(position), id),
    setAside: (id, run, why) => {
      const failure = writeJson(why);
      const drop = { dropPosition: Number(why.dropPosition), dropWatermark: Number(why.dropWatermark) };
      setAside.run({ id, run, failure, at: why.at, ...drop });
    },
  };
}

interface BeginningValues extends Pick<Beginning, 'id' | 'origin' | 'now' | 'mode'> {
  readonly ready: number;
}

interface AsideValues {
  readonly id: number;
  readonly run: string;
  readonly failure: string;
  readonly at: Instant;
  readonly dropPosition: number;
  readonly dropWatermark: number;
}
