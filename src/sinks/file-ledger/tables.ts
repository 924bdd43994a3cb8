import type Database from 'better-sqlite3';
import type { Instant } from '../../core/clock.ts';
import type { DescribedTable } from '../../core/described-table.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { EntityTable } from '../../core/records.ts';
import { firstHourOfDay, hourOf } from '../decisions/last-day.ts';
import {
  declareTable,
  type DeclaredTable,
  type KnownTable,
  type TableColumns,
} from '../decisions/stored-table.ts';
import { parseColumns, parseNames, writeColumns, writeDescribed } from '../stored-json.ts';

/** `stored`: rows without a tombstone. `adoptedAt`: since when they are those of another address, which no full run has agreed with. */
interface TableAccount {
  readonly stored: number;
  readonly adoptedAt: string | null;
}

type TableRow = Readonly<Record<keyof TableColumns, string>> & Pick<KnownTable, 'asOf'>;

/** `_sync_tables`: the columns each entity's table has had, how many rows are in it, and how old they are at most. */
export function prepareTables(db: Database.Database) {
  const read = db.prepare<[string, string], TableRow>(
    'SELECT key, stored, declared, evolved, as_of AS asOf FROM _sync_tables WHERE connector = ? AND entity = ?',
  );
  const write = db.prepare<[string, string, string, string, string, string]>(
    `INSERT INTO _sync_tables (connector, entity, key, stored, declared, evolved, rows, table_id)
     VALUES (?, ?, ?, ?, ?, ?, 0, lower(hex(randomblob(16))))
     ON CONFLICT (connector, entity) DO UPDATE SET stored = excluded.stored, declared = excluded.declared,
       evolved = excluded.evolved`,
  );
  const describe = db.prepare<[{ connector: string; entity: string; text: string }]>(
    `UPDATE _sync_tables SET described = :text
     WHERE connector = :connector AND entity = :entity AND described <> :text`,
  );
  const addRows = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET rows = rows + ? WHERE connector = ? AND entity = ?',
  );
  const addDeleted = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET deleted = deleted + ? WHERE connector = ? AND entity = ?',
  );
  const account = db.prepare<[string, string], TableAccount>(
    'SELECT rows - deleted AS stored, adopted_at AS adoptedAt FROM _sync_tables WHERE connector = ? AND entity = ?',
  );
  // The chain's first run may be past its retention; then nothing is known of its start.
  const wasRead = db.prepare<[string, string, string, string, string]>(
    `UPDATE _sync_tables SET as_of = coalesce(
       (SELECT first.started_at FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin
        WHERE run.run = ? AND run.origin IS NOT
          (SELECT taken_over FROM _sync_tables WHERE connector = ? AND entity = ?)), as_of)
     WHERE connector = ? AND entity = ?`,
  );
  const known = (connector: ConnectorName, entity: EntityName): KnownTable | undefined => {
    const row = read.get(connector, entity);
    if (row === undefined) return undefined;
    const { key, stored, declared, evolved, asOf } = row;
    return {
      key: parseNames(key),
      stored: parseColumns(stored),
      declared: parseColumns(declared),
      evolved: parseColumns(evolved).map((column) => ({ ...column, isEvolved: true })),
      asOf,
    };
  };
  const save = (connector: ConnectorName, entity: EntityName, table: TableColumns): void => {
    const [stored, declared, evolved] = [table.stored, table.declared, table.evolved].map(writeColumns);
    write.run(connector, entity, JSON.stringify(table.key), stored ?? '', declared ?? '', evolved ?? '');
  };
  return {
    /** Notes the declared columns. Throws as `declareTable`. */
    declare: (connector: ConnectorName, table: EntityTable): Pick<DeclaredTable, 'stored' | 'filled'> => {
      const { columns, ...change } = declareTable(connector, table, known(connector, table.entity));
      save(connector, table.entity, columns);
      return change;
    },
    known,
    save,
    /** What the definition says of tables that are there. */
    describe: (connector: ConnectorName, tables: readonly DescribedTable[]): void => {
      for (const table of tables) {
        const text = writeDescribed(table);
        describe.run({ connector, entity: table.entity, text });
      }
    },
    addRows: (connector: ConnectorName, entity: EntityName, rows: number): void => {
      if (rows !== 0) addRows.run(rows, connector, entity);
    },
    /** Tombstones; fewer than 0 where some were taken back. */
    addDeleted: (connector: ConnectorName, entity: EntityName, rows: number): void => {
      if (rows !== 0) addDeleted.run(rows, connector, entity);
    },
    account: (connector: ConnectorName, entity: EntityName): TableAccount =>
      account.get(connector, entity) ?? { stored: 0, adoptedAt: null },
    /** A full run has met every row, so adopted ones are those of the new address. */
    agreed: db.prepare<[ConnectorName, EntityName]>(
      'UPDATE _sync_tables SET adopted_at = NULL WHERE connector = ? AND entity = ?',
    ),
    /** The run's chain has read all of the entity, whose records come from walks of `walked`: it is as old as the chain, unless that began midway. */
    wasRead: (connector: ConnectorName, entity: EntityName, run: RunId, walked: EntityName): void =>
      void wasRead.run(run, connector, walked, connector, entity),
  };
}

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
