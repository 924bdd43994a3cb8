import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';

/** What a reset takes out of the ledger. Every statement names the connector: nothing of another one is touched. */
export interface Forgetting {
  isKnown(connector: ConnectorName, entity: EntityName): boolean;
  /** Every entity of which there is anything, tables made from others' records included. */
  entities(connector: ConnectorName): readonly EntityName[];
  /** Makes the living partitions of the entities due from their start, and gives how many; what stood for their progress goes. */
  readAgain(connector: ConnectorName, entities: readonly EntityName[], now: Instant): number;
  /** What the ledger says of the entity's rows; gives how many there were. The partitions stay. */
  dropRecords(connector: ConnectorName, entity: EntityName): number;
  dropWindows(connector: ConnectorName): void;
  /** The rest of a connector: its partitions, runs and identity. A pause stays: it says what people want, not what was read. */
  dropConnector(connector: ConnectorName): void;
}

export function prepareForgetting(db: Database.Database): Forgetting {
  const ofEntities = 'connector = :connector AND entity IN (SELECT value FROM json_each(:entities))';
  const ofEntity = 'connector = :connector AND entity = :entity';
  const run = (sql: string, values: Readonly<Record<string, string>>): number =>
    db.prepare<Readonly<Record<string, string>>>(sql).run(values).changes;
  const names = db
    .prepare<{ connector: string }, EntityName>(
      `SELECT entity FROM _sync_tables WHERE connector = :connector
       UNION SELECT entity FROM _sync_partitions WHERE connector = :connector ORDER BY 1`,
    )
    .pluck();
  const stored = db
    .prepare<{ connector: string; entity: string }, number>(`SELECT rows FROM _sync_tables WHERE ${ofEntity}`)
    .pluck();
  return {
    isKnown: (connector, entity) => names.all({ connector }).includes(entity),
    entities: (connector) => names.all({ connector }),
    readAgain: (connector, entities, now) => {
      const which = { connector, entities: JSON.stringify(entities) };
      run(`DELETE FROM _sync_partitions WHERE ${ofEntities} AND (tree IS NOT NULL OR backfill <> '')`, which);
      for (const table of ['_sync_missing', '_sync_seen']) {
        run(`DELETE FROM ${table} WHERE ${ofEntities}`, which);
      }
      return run(`UPDATE _sync_partitions SET ${fromTheStart} WHERE ${ofEntities} AND gone = 0`, {
        ...which,
        now,
      });
    },
    dropRecords: (connector, entity) => {
      const which = { connector, entity };
      const rows = stored.get(which) ?? 0;
      for (const table of tablesOfRecords) run(`DELETE FROM ${table} WHERE ${ofEntity}`, which);
      return rows;
    },
    dropWindows: (connector) =>
      void run('DELETE FROM _sync_windows WHERE connector = :connector', { connector }),
    dropConnector: (connector) => {
      run('DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE connector = :connector)', {
        connector,
      });
      for (const table of tablesOfConnector) {
        run(`DELETE FROM ${table} WHERE connector = :connector`, { connector });
      }
    },
  };
}

/** Due; and ready where an unfinished chain reads the entity, so that a run that goes on with it walks them too. */
const fromTheStart = `position = NULL, mode = 'full', midway = 0, watermark = NULL, marker = NULL, found_marker = NULL,
  sealed_at = NULL, sealed_run = NULL, sealed_scope = NULL, proof = NULL, absence = NULL, full_at = NULL, full_origin = NULL,
  sweep_origin = NULL, swept_to = 0, listed = 0, set_aside_run = NULL, failure = NULL, failed_at = NULL,
  due_since = :now, ready = entity IN (SELECT value FROM json_each(
    (SELECT scope FROM _sync_runs WHERE connector = :connector AND chain = '' ORDER BY number DESC LIMIT 1), '$.entities'
  ))`;

/** `_sync_files` is the store's own: it needs what it says until the files are removed. */
const tablesOfRecords = [
  '_sync_tables',
  '_sync_hours',
  '_sync_also',
  '_sync_quarantine',
  '_sync_drift',
  '_sync_downloads',
];
const tablesOfConnector = [
  ...tablesOfRecords,
  '_sync_partitions',
  '_sync_missing',
  '_sync_seen',
  '_sync_runs',
  '_sync_connectors',
];
