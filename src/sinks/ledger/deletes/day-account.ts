import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { firstHourOfDay, hourOf } from '../../decisions/last-day.ts';

type DayChanges = Readonly<Record<'added' | 'deleted', number>>;

/** `_sync_hours`: rows that came and went in the last 24 hours, to the hour (up to 25 of them: a limit holds for every 24), so that the rows of a day ago need no look at them. */
export function prepareDayAccount(db: Database.Database) {
  const begin = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET first_origin = ? WHERE connector = ? AND entity = ? AND first_origin IS NULL',
  );
  const add = db.prepare<[string, number, string, string, number]>(
    `INSERT INTO _sync_hours (connector, entity, hour, added, deleted)
     SELECT connector, entity, ?, ?, 0 FROM _sync_tables WHERE connector = ? AND entity = ? AND first_origin <> ?
     ON CONFLICT (connector, entity, hour) DO UPDATE SET added = added + excluded.added`,
  );
  const remove = db.prepare<[string, string, string, number]>(
    `INSERT INTO _sync_hours (connector, entity, hour, added, deleted) VALUES (?, ?, ?, 0, ?)
     ON CONFLICT (connector, entity, hour) DO UPDATE SET deleted = deleted + excluded.deleted`,
  );
  const within = db.prepare<[string, string, string], DayChanges>(
    `SELECT coalesce(sum(added), 0) AS added, coalesce(sum(deleted), 0) AS deleted
     FROM _sync_hours WHERE connector = ? AND entity = ? AND hour >= ?`,
  );
  const prune = db.prepare<[string, string]>('DELETE FROM _sync_hours WHERE connector = ? AND hour < ?');
  return {
    /** Rows inserted or revived by the chain `origin`, save that of the entity's first rows: on its first day they stand for its rows of a day ago. */
    add: (
      connector: ConnectorName,
      entity: EntityName,
      rows: number,
      { origin, now }: { readonly origin: number; readonly now: Instant },
    ): void => {
      if (rows === 0) return;
      begin.run(origin, connector, entity);
      add.run(hourOf(now), rows, connector, entity, origin);
    },
    /** Rows whose delete a guard let pass. What a person allowed is left out: it counts neither as deleted nor as there before. */
    remove: (connector: ConnectorName, entity: EntityName, rows: number, now: Instant): void => {
      if (rows > 0) remove.run(connector, entity, hourOf(now), rows);
    },
    within: (connector: ConnectorName, entity: EntityName, now: Instant): DayChanges =>
      within.get(connector, entity, firstHourOfDay(now)) ?? { added: 0, deleted: 0 },
    prune: (connector: ConnectorName, now: Instant): void => void prune.run(connector, firstHourOfDay(now)),
  };
}
