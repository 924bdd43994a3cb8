import type Database from 'better-sqlite3';
import { z } from 'zod';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, FieldType } from '../../core/records.ts';

/** What changed between the table as it is stored and as it is declared now. */
export interface TableChange {
  readonly stored: readonly Column[];
  readonly filled: readonly Column[];
}

/** `_sync_tables`: the columns each entity's table has had, how many rows are in it, and how old they are at most. */
export interface Tables {
  /**
   * Notes the declared columns; gives those that the table already has and those to be filled from `_extra`.
   * Throws `SyncError` SINK_INCOMPATIBLE for another key or a column of another type.
   */
  declare(connector: ConnectorName, table: EntityTable): TableChange;
  addRows(connector: ConnectorName, entity: EntityName, rows: number): void;
  /**
   * The chain of this run has read all of the entity, whose records come from walks of `walked`. As old as the chain, then;
   * unless it began in the middle of one, because that one's first half is older.
   */
  wasRead(connector: ConnectorName, entity: EntityName, run: RunId, walked: EntityName): void;
}

export function prepareTables(db: Database.Database): Tables {
  const read = db.prepare<[string, string], { key: string; stored: string; declared: string }>(
    'SELECT key, stored, declared FROM _sync_tables WHERE connector = ? AND entity = ?',
  );
  const write = db.prepare<[string, string, string, string, string]>(
    `INSERT INTO _sync_tables (connector, entity, key, stored, declared, rows) VALUES (?, ?, ?, ?, ?, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET stored = excluded.stored, declared = excluded.declared`,
  );
  const addRows = db.prepare<[number, string, string]>(
    'UPDATE _sync_tables SET rows = rows + ? WHERE connector = ? AND entity = ?',
  );
  // The chain's first run may be past its retention; then nothing is known of its start.
  const wasRead = db.prepare<[string, string, string, string, string]>(
    `UPDATE _sync_tables SET as_of = coalesce(
       (SELECT first.started_at FROM _sync_runs AS run JOIN _sync_runs AS first ON first.number = run.origin
        WHERE run.run = ? AND run.origin IS NOT
          (SELECT taken_over FROM _sync_tables WHERE connector = ? AND entity = ?)), as_of)
     WHERE connector = ? AND entity = ?`,
  );
  return {
    declare: (connector, table) => {
      const known = read.get(connector, table.entity);
      const stored = known === undefined ? [] : parseColumns(known.stored);
      const before = known === undefined ? table.columns : parseColumns(known.declared);
      if (known !== undefined) {
        checkKey(connector, table, parseNames(known.key));
        checkTypes(connector, table, stored);
      }
      const added = columnsMissingIn(table.columns, stored);
      const filled = columnsMissingIn(table.columns, before);
      const key = JSON.stringify(table.key);
      const all = JSON.stringify([...stored, ...added]);
      write.run(connector, table.entity, key, all, JSON.stringify(table.columns));
      return { stored, filled };
    },
    addRows: (connector, entity, rows) => {
      if (rows !== 0) {
        addRows.run(rows, connector, entity);
      }
    },
    wasRead: (connector, entity, run, walked) => void wasRead.run(run, connector, walked, connector, entity),
  };
}

export function columnsMissingIn(columns: readonly Column[], others: readonly Column[]): readonly Column[] {
  const names = new Set(others.map(({ name }) => name));
  return columns.filter(({ name }) => !names.has(name));
}

/** Columns of these types hold JSON text alike, so that one may become another. */
export function isJsonColumn(type: FieldType): boolean {
  return type === 'object' || type === 'array' || type === 'any';
}

function checkKey(connector: ConnectorName, table: EntityTable, stored: readonly string[]): void {
  const declared = table.key.join(', ');
  if (stored.join(', ') !== declared) {
    throw incompatible(
      connector,
      table,
      `its rows are keyed by (${stored.join(', ')}) and the definition now says (${declared})`,
    );
  }
}

function checkTypes(connector: ConnectorName, table: EntityTable, stored: readonly Column[]): void {
  const storedType = new Map(stored.map(({ name, type }) => [name, type]));
  for (const { name, type } of table.columns) {
    const before = storedType.get(name) ?? type;
    if (before !== type && !(isJsonColumn(before) && isJsonColumn(type))) {
      throw incompatible(
        connector,
        table,
        `column "${name}" holds ${before} values and the definition now says ${type}`,
      );
    }
  }
}

function incompatible(connector: ConnectorName, table: EntityTable, found: string): SyncError {
  return new SyncError(
    `The stored table of ${connector}/${table.entity} does not fit its definition: ${found}. ` +
      'Use another connector name for the new shape, or go back to the old definition.',
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity: table.entity } },
  );
}

const columns = z.array(
  z.object({
    name: z.string(),
    type: z.enum(['string', 'integer', 'number', 'boolean', 'object', 'array', 'any']),
  }),
);

function parseColumns(text: string): readonly Column[] {
  return columns.parse(JSON.parse(text));
}

function parseNames(text: string): readonly string[] {
  return z.array(z.string()).parse(JSON.parse(text));
}
