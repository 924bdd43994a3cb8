import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import type { OtherPlace } from '../../decisions/missing-rows.ts';
import { readFlags, type Flagged } from '../flags.ts';
import { standing } from '../../decisions/standing.ts';

/** A row of an entity, and a partition that has shown it although it is not its home. */
interface RowAt {
  readonly connector: ConnectorName;
  readonly entity: EntityName;
  readonly row: number;
  readonly partition: number;
}

type OfRow = Omit<RowAt, 'partition'>;

/** `_sync_also`: where rows have been met besides their home. */
export function preparePlaces(db: Database.Database) {
  const ofRow = 'connector = :connector AND entity = :entity AND row = :row';
  const place = `place.gone IS ${standing.live} AS isLive, place.due_since IS NOT NULL AS isDue,
    coalesce(place.origin, 0) AS origin, coalesce(place.found_at, '') AS foundAt,
    place.parent_key IS NOT NULL AS isBelowRecord, place.full_origin AS fullOrigin, place.absence`;
  const others = db.prepare<[OfRow], Flagged<OtherPlace>>(
    `SELECT also.partition, also.origin AS metBy, ${place}
     FROM _sync_also AS also LEFT JOIN _sync_partitions AS place ON place.id = also.partition
     WHERE also.connector = :connector AND also.entity = :entity AND also.row = :row ORDER BY also.partition`,
  );
  const one = db.prepare<[id: number], Flagged<OtherPlace>>(
    `SELECT id AS partition, 0 AS metBy, ${place} FROM _sync_partitions AS place WHERE id = ?`,
  );
  return {
    meet: db.prepare<[RowAt & { readonly origin: number }]>(
      `INSERT INTO _sync_also (connector, entity, row, partition, origin) VALUES (:connector, :entity, :row, :partition, :origin)
       ON CONFLICT (connector, entity, row, partition) DO UPDATE SET origin = excluded.origin
       WHERE origin <> excluded.origin`,
    ),
    leave: db.prepare<[RowAt]>(`DELETE FROM _sync_also WHERE ${ofRow} AND partition = :partition`),
    leaveAll: db.prepare<[OfRow]>(`DELETE FROM _sync_also WHERE ${ofRow}`),
    dropGuests: db.prepare<[partition: number]>('DELETE FROM _sync_also WHERE partition = ?'),
    /** Up to `limit` rows behind row `after` that the partition has shown, and the chains that met them there last. */
    guests: db.prepare<
      [Omit<RowAt, 'row'> & { readonly after: number; readonly limit: number }],
      { readonly row: number; readonly origin: number }
    >(
      `SELECT row, origin FROM _sync_also INDEXED BY _sync_also_partition
       WHERE partition = :partition AND connector = :connector AND entity = :entity AND row > :after ORDER BY row LIMIT :limit`,
    ),
    others: (row: OfRow): readonly OtherPlace[] => others.all(row).map(readPlace),
    one: (partition: number): OtherPlace | undefined => {
      const found = one.get(partition);
      return found === undefined ? undefined : readPlace(found);
    },
  };
}

function readPlace(row: Flagged<OtherPlace>): OtherPlace {
  return readFlags(row, 'isLive', 'isDue', 'isBelowRecord');
}
