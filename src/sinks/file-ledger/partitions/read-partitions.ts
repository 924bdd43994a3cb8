import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { noPartitionError } from '../../acquire-errors.ts';
import type { KnownWalks } from '../../decisions/becoming-due.ts';
import type { FoundPartition, Partition } from '../../partition.ts';
import type { LeftWork } from '../../run-report.ts';
import { parseDifferences, parseParams, parsePosition } from '../../stored-json.ts';
import { standing } from '../../decisions/standing.ts';

/** The partitions that a run works off: of these entities, living ones (window '') or those of a backfill's window. */
export interface WorkScope {
  readonly connector: ConnectorName;
  readonly window: string;
  readonly entities: readonly EntityName[];
}

export interface BoundScope {
  readonly connector: string;
  readonly window: string;
  /** JSON array of names. */
  readonly entities: string;
}

export function boundScope({ connector, window, entities }: WorkScope): BoundScope {
  return { connector, window, entities: JSON.stringify(entities) };
}

export const inScope =
  'connector = :connector AND backfill = :window AND entity IN (SELECT value FROM json_each(:entities))';

export interface PartitionRow {
  readonly id: number;
  readonly entity: EntityName;
  readonly tree: number | null;
  readonly dueSince: Instant | null;
  readonly listed: number;
  /** How its walk before ended, as it is stored. */
  readonly proof: string | null;
  readonly fullAt: Instant | null;
  readonly sealedAt: Instant | null;
  /** The partition that its records are at home in: of a listing inside a tree the tree's, of a backfill's the living one. */
  readonly home: number;
}

export interface KnownRow extends KnownWalks {
  readonly id: number;
  readonly origin: number;
  readonly gone: number;
}

export interface Leftover extends KnownWalks {
  readonly id: number;
  readonly parentEntity: EntityName;
  readonly parentKey: string;
  readonly foundOrigin: number;
}

interface InChain extends BoundScope {
  readonly origin: number;
}

type OfEntity = Omit<InChain, 'entities'> & { readonly entity: EntityName };

/** What is read of `_sync_partitions` while runs write it. */
export function preparePartitionReads(db: Database.Database) {
  const isReady = 'connector = ? AND backfill = ? AND ready = 1';
  const isLeftover = `due_since IS NOT NULL AND origin <> :origin AND parent_key IS NOT NULL AND tree IS NULL AND gone = ${standing.live}`;
  const walks = 'due_since AS dueSince, watermark, marker, full_at AS fullAt, sealed_scope AS sealedScope';
  const ready = `id, entity, params, inject, rank, tree, tree_depth AS treeDepth, position, mode, watermark,
      json_extract(proof, '$.clockDifferences') AS clockDifferences FROM _sync_partitions`;
  const get = db.prepare<[number, string], PartitionRow>(
    `SELECT id, entity, tree, due_since AS dueSince, listed, proof, full_at AS fullAt, sealed_at AS sealedAt, coalesce(base,
       (SELECT coalesce(root.base, root.id) FROM _sync_partitions AS root WHERE root.id = one.tree), id) AS home
     FROM _sync_partitions AS one WHERE id = ? AND connector = ?`,
  );
  const deepest = db.prepare<[string, string, number], ReadyRow>(
    `SELECT ${ready} INDEXED BY _sync_partitions_ready WHERE ${isReady} ORDER BY rank DESC, id LIMIT ?`,
  );
  const stalest = db.prepare<[string, string, number], ReadyRow>(
    `SELECT ${ready} INDEXED BY _sync_partitions_overdue WHERE ${isReady} ORDER BY sealed_at, rank DESC, id LIMIT ?`,
  );
  const below = db.prepare<[connector: string, entity: string, keyText: string], BelowRow>(
    `SELECT entity, params, inject, rank, tree_depth AS treeDepth FROM _sync_partitions
     WHERE connector = ? AND parent_entity = ? AND parent_key = ? AND backfill = '' AND tree IS NULL AND gone = ${standing.live}
     ORDER BY id`,
  );
  return {
    /** What the record has led to, as if it were found again; whether anything has changed there is not known. */
    below: (
      connector: ConnectorName,
      parent: { readonly entity: EntityName; readonly keyText: string },
    ): readonly FoundPartition[] =>
      below.all(connector, parent.entity, parent.keyText).map((row) => foundBelow(row, parent)),
    /** Throws `SyncError` FENCED when the connector has no such partition (any more). */
    get: (connector: ConnectorName, id: number): PartitionRow => {
      const row = get.get(id, connector);
      if (row === undefined) throw noPartitionError(connector, id);
      return row;
    },
    /** What a chain still has to walk, deepest first, then in the order found; costs `limit` rows, however many are due. */
    deepest: (connector: ConnectorName, window: string, limit: number): readonly ReadyPartition[] =>
      deepest.all(connector, window, limit).map(readPartition),
    /** The same: those that were not read for longest first, never read ones before all others. */
    stalest: (connector: ConnectorName, window: string, limit: number): readonly ReadyPartition[] =>
      stalest.all(connector, window, limit).map(readPartition),
    known: db.prepare<[connector: string, entity: string, params: string, window: string], KnownRow>(
      `SELECT id, origin, gone, ${walks} FROM _sync_partitions WHERE connector = ? AND entity = ? AND params = ? AND backfill = ?`,
    ),
    /** Whether the chain left partitions due, or a sweep unfinished. */
    isLeft: db
      .prepare<[InChain], number>(
        `SELECT EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND due_since IS NOT NULL AND origin = :origin)
           OR EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND ${isLeftover})
           OR EXISTS (SELECT 1 FROM _sync_partitions WHERE ${inScope} AND sweep_origin = :origin)`,
      )
      .pluck(),
    /** Partitions that the run would now walk. */
    countReady: db
      .prepare<[connector: string, window: string], number>(
        `SELECT count(*) FROM _sync_partitions WHERE ${isReady}`,
      )
      .pluck(),
    /** What is due, by entity; listings inside a tree are a part of it. */
    left: db.prepare<[BoundScope], LeftWork>(
      `SELECT entity, count(*) AS partitions FROM _sync_partitions
       WHERE ${inScope} AND due_since IS NOT NULL AND tree IS NULL GROUP BY entity ORDER BY entity`,
    ),
    /** The next thousand of what is due below a parent although the chain has not found it. */
    leftovers: db.prepare<[OfEntity & { readonly after: number }], Leftover>(
      `SELECT id, parent_entity AS parentEntity, parent_key AS parentKey, origin AS foundOrigin, ${walks}
       FROM _sync_partitions INDEXED BY _sync_partitions_due
       WHERE connector = :connector AND entity = :entity AND backfill = :window AND ${isLeftover} AND id > :after
       ORDER BY id LIMIT 1000`,
    ),
    fullOrigin: db
      .prepare<[id: number], number | null>('SELECT full_origin FROM _sync_partitions WHERE id = ?')
      .pluck(),
  };
}

type BelowRow = Pick<FoundPartition, 'entity' | 'rank' | 'treeDepth'> &
  Readonly<Record<'params' | 'inject', string>>;

function foundBelow(
  { params, inject, ...row }: BelowRow,
  parent: NonNullable<FoundPartition['parent']>,
): FoundPartition {
  const rest = { tree: null, parent, marker: null, base: null };
  return { ...row, ...rest, params: parseParams(params), inject: parseParams(inject) };
}

export type ReadyPartition = Omit<Partition, 'storedRows'>;

interface ReadyRow extends Omit<
  Partition,
  'params' | 'inject' | 'position' | 'storedRows' | 'clockDifferences'
> {
  readonly params: string;
  readonly inject: string;
  readonly position: string | null;
  readonly clockDifferences: string | null;
}

function readPartition(row: ReadyRow): ReadyPartition {
  return {
    ...row,
    params: parseParams(row.params),
    inject: parseParams(row.inject),
    position: row.position === null ? null : parsePosition(row.position),
    clockDifferences: row.clockDifferences === null ? [] : parseDifferences(row.clockDifferences),
  };
}
