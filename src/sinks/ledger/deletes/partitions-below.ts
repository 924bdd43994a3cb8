import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';

/** The partitions that a record has led to. */
export interface PartitionsBelow {
  /**
   * The record is gone: they are not walked any more, and what was known of them is forgotten but for who set them aside. Also
   * those that it has ended before: rows of theirs may have come back in another way than by a walk.
   */
  end(connector: ConnectorName, entity: EntityName, keyText: string): void;
  /** Listings leave the record out although it exists (it is in the trash): what lies below rests until one shows it again. */
  rest(connector: ConnectorName, entity: EntityName, keyText: string): void;
  /**
   * It is back, although no walk has found it: they count as found now. Nothing is known of them, so the next chain walks
   * them from the start.
   */
  begin(
    connector: ConnectorName,
    entity: EntityName,
    keyText: string,
    found: { readonly origin: number; readonly now: Instant },
  ): void;
}

/** Those of backfills are left alone: their chains end by themselves. */
const below = "connector = ? AND parent_entity = ? AND parent_key = ? AND backfill = ''";

export function preparePartitionsBelow(db: Database.Database): PartitionsBelow {
  const end = db
    .prepare<[string, string, string], number>(
      `UPDATE _sync_partitions SET gone = 1, due_since = NULL, ready = 0, listed = 0, position = NULL, watermark = NULL,
         marker = NULL, found_marker = NULL, full_at = NULL, full_origin = NULL, sweep_origin = NULL, swept_to = 0,
         failure = NULL, failed_at = NULL
       WHERE ${below} AND gone <> 1 RETURNING id`,
    )
    .pluck();
  const rest = db
    .prepare<[string, string, string], number>(
      `UPDATE _sync_partitions SET gone = 3, due_since = NULL, ready = 0, listed = 0, position = NULL,
         failure = NULL, failed_at = NULL
       WHERE ${below} AND gone = 0 RETURNING id`,
    )
    .pluck();
  const dropInner = db.prepare<[number]>('DELETE FROM _sync_partitions WHERE tree = ?');
  const begin = db.prepare<[number, string, string, string, string]>(
    `UPDATE _sync_partitions SET gone = 0, origin = ?, found_at = ? WHERE ${below} AND gone > 0`,
  );
  const dropListings = (partitions: readonly number[]): void => {
    for (const id of partitions) {
      dropInner.run(id);
    }
  };
  return {
    end: (connector, entity, keyText) => dropListings(end.all(connector, entity, keyText)),
    rest: (connector, entity, keyText) => dropListings(rest.all(connector, entity, keyText)),
    begin: (connector, entity, keyText, { origin, now }) =>
      void begin.run(origin, now, connector, entity, keyText),
  };
}
