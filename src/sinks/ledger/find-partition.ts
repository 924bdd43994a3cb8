import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { FoundPartition } from '../partition.ts';
import { decideMode, isUnchanged, neverWalked, type ChainReading, type KnownWalks } from './becoming-due.ts';
import { writeJson } from './json-text.ts';
import type { Beginning } from './partitions.ts';

export interface Finding {
  readonly connector: ConnectorName;
  /** '' for the living partitions. */
  readonly window: string;
  /** Number of the chain's first run. */
  readonly origin: number;
  readonly now: Instant;
  /** Undefined: the run does not read the entity; its partitions are due, but left to a run that does. */
  readonly reading: ChainReading | undefined;
}

interface KnownRow extends KnownWalks {
  readonly id: number;
  readonly origin: number;
  readonly gone: number;
}

/** Makes a partition due unless this chain already found it or nothing has changed in it; true when it became due. */
export function prepareFinding(
  db: Database.Database,
  begin: (beginning: Beginning) => void,
): (found: FoundPartition, finding: Finding) => boolean {
  const known = db.prepare<[string, string, string, string], KnownRow>(
    `SELECT id, origin, gone, due_since AS dueSince, watermark, marker, full_at AS fullAt, sealed_scope AS sealedScope
     FROM _sync_partitions WHERE connector = ? AND entity = ? AND params = ? AND backfill = ?`,
  );
  const insert = db.prepare<FoundValues>(
    `INSERT INTO _sync_partitions (connector, entity, params, backfill, origin, due_since, ready, listed, mode, base,
       inject, rank, tree, tree_depth, parent_entity, parent_key, found_at, found_marker)
     VALUES (:connector, :entity, :params, :window, :origin, :dueSince, :ready, 0, :mode, :base,
       :inject, :rank, :tree, :treeDepth, :parentEntity, :parentKey, :now, :marker)`,
  );
  const meet = db.prepare<FoundValues & { readonly id: number }>(
    `UPDATE _sync_partitions SET origin = :origin, inject = :inject, rank = :rank, tree = :tree, tree_depth = :treeDepth,
       parent_entity = :parentEntity, parent_key = :parentKey, found_at = :now, found_marker = :marker, base = :base,
       failure = NULL, failed_at = NULL
     WHERE id = :id`,
  );
  // A record that is there again starts what lies below it anew.
  const renew = db.prepare<[number]>(
    `UPDATE _sync_partitions SET gone = 0, position = NULL, watermark = NULL, marker = NULL, full_at = NULL WHERE id = ?`,
  );

  /** The living partition that a backfill's stores rows of; made where no sync has found it yet. */
  const baseOf = (found: FoundPartition, finding: Finding): number | null => {
    if (found.base === null) return null;
    const { connector } = finding;
    const params = writeJson(found.base);
    const stored = known.get(connector, found.entity, params, '');
    if (stored !== undefined) return stored.id;
    const values = foundValues({ ...found, base: null }, finding, params);
    const living = { ...values, window: '', origin: 0, dueSince: null, ready: 0, marker: null };
    return Number(insert.run(living).lastInsertRowid);
  };

  return (found, finding) => {
    const { connector, window, origin, reading } = finding;
    const { entity } = found;
    const params = writeJson(found.params);
    const stored = known.get(connector, entity, params, window);
    if (stored?.origin === origin) return false;
    const values = { ...foundValues(found, finding, params), base: baseOf(found, finding) };
    if (stored === undefined) {
      insert.run(values);
      return true;
    }
    const isRenewed = stored.gone > 0;
    if (isRenewed) renew.run(stored.id);
    meet.run({ ...values, id: stored.id });
    const walks = isRenewed ? neverWalked : stored;
    if (isUnchanged(walks, found.marker, reading)) return false;
    begin({ ...finding, id: stored.id, entity, mode: decideMode(walks, reading) });
    return true;
  };
}

type FoundValues = Readonly<Record<string, string | number | null>>;

/** A partition as it is found for the first time: its first walk is a full one. */
function foundValues(
  found: FoundPartition,
  { connector, window, origin, now, reading }: Finding,
  params: string,
): FoundValues {
  const { entity, inject, rank, tree, treeDepth, parent, marker } = found;
  return {
    connector,
    entity,
    params,
    window,
    origin,
    now,
    dueSince: now,
    ready: reading === undefined ? 0 : 1,
    mode: 'full',
    base: null,
    inject: writeJson(inject),
    rank,
    tree,
    treeDepth,
    parentEntity: parent?.entity ?? null,
    parentKey: parent?.keyText ?? null,
    marker: marker !== null && marker.isSettled ? marker.value : null,
  };
}
