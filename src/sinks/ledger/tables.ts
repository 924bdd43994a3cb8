import type Database from 'better-sqlite3';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../../core/names.ts';
import type { Column, EntityTable, FieldType } from '../../core/records.ts';
import { parseColumns, parseNames, writeColumns } from './table-json.ts';

/** What changed between the table as it is stored and as it is declared now. */
export interface TableChange {
  readonly stored: readonly Column[];
  readonly filled: readonly Column[];
}

/** The columns of a table that was declared, as the ledger has them. */
export interface KnownTable {
  readonly key: readonly string[];
  /** Of the newest plan, added ones among them. */
  readonly declared: readonly Column[];
  /** Every column that it has had so far. */
  readonly stored: readonly Column[];
  /** Added for fields that no definition declares. */
  readonly evolved: readonly Column[];
  /** When the newest chain of runs began that read it whole; null: none ever did. */
  readonly asOf: string | null;
}

export interface TableAccount {
  /** Rows without a tombstone. */
  readonly stored: number;
  /** Since when the rows are those of another address, which no full run has agreed with; null where none are. */
  readonly adoptedAt: string | null;
}

export interface TableRow {
  readonly key: string;
  readonly stored: string;
  readonly declared: string;
  readonly evolved: string;
  readonly asOf: string | null;
}

/** `_sync_tables`: the columns each entity's table has had, how many rows are in it, and how old they are at most. */
export function prepareTables(db: Database.Database) {
  const read = db.prepare<[string, string], TableRow>(
    'SELECT key, stored, declared, evolved, as_of AS asOf FROM _sync_tables WHERE connector = ? AND entity = ?',
  );
  const write = db.prepare<[string, string, string, string, string, string]>(
    `INSERT INTO _sync_tables (connector, entity, key, stored, declared, evolved, rows) VALUES (?, ?, ?, ?, ?, ?, 0)
     ON CONFLICT (connector, entity) DO UPDATE SET stored = excluded.stored, declared = excluded.declared,
       evolved = excluded.evolved`,
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
  const agreed = db.prepare<[string, string]>(
    'UPDATE _sync_tables SET adopted_at = NULL WHERE connector = ? AND entity = ?',
  );
  const known = (connector: ConnectorName, entity: EntityName): KnownTable | undefined => {
    const row = read.get(connector, entity);
    return row === undefined ? undefined : readTable(row);
  };
  const save = (connector: ConnectorName, entity: EntityName, table: Omit<KnownTable, 'asOf'>): void => {
    const [stored, declared, evolved] = [table.stored, table.declared, table.evolved].map(writeColumns);
    write.run(connector, entity, JSON.stringify(table.key), stored ?? '', declared ?? '', evolved ?? '');
  };
  return {
    /**
     * Notes the declared columns; gives those that the table already has and those to be filled from `_extra`.
     * Throws `SyncError` SINK_INCOMPATIBLE for another key or a column of another type.
     */
    declare: (connector: ConnectorName, table: EntityTable): TableChange => {
      const { declared, change } = declareColumns(connector, table, known(connector, table.entity));
      save(connector, table.entity, declared);
      return change;
    },
    /** Undefined for a table that was never declared. */
    known,
    /** Notes columns that were added for undeclared fields; they are declared from now on. */
    addEvolved: (connector: ConnectorName, entity: EntityName, columns: readonly Column[]): void => {
      const before = known(connector, entity);
      if (before === undefined || columns.length === 0) return;
      save(connector, entity, withColumns(before, columns));
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
    agreed: (connector: ConnectorName, entity: EntityName): void => void agreed.run(connector, entity),
    /**
     * The chain of this run has read all of the entity, whose records come from walks of `walked`. As old as the chain, then;
     * unless it began in the middle of one, because that one's first half is older.
     */
    wasRead: (connector: ConnectorName, entity: EntityName, run: RunId, walked: EntityName): void =>
      void wasRead.run(run, connector, walked, connector, entity),
  };
}

/**
 * What is known of a table once it is declared with these columns, and what changes in it. Throws `SyncError` SINK_INCOMPATIBLE for another
 * key or a column of another type.
 */
export function declareColumns(
  connector: ConnectorName,
  table: EntityTable,
  before: KnownTable | undefined,
): { readonly declared: Omit<KnownTable, 'asOf'>; readonly change: TableChange } {
  if (before !== undefined) checkFits(connector, table, before);
  const stored = before?.stored ?? [];
  const filled = columnsMissingIn(table.columns, before?.declared ?? table.columns);
  // What the definition declares by now is no added column any more.
  const declaredNow = table.columns.filter(({ isEvolved }) => isEvolved !== true);
  const declared = {
    key: table.key,
    stored: [...stored, ...columnsMissingIn(table.columns, stored)],
    declared: table.columns,
    evolved: columnsMissingIn(before?.evolved ?? [], declaredNow),
  };
  return { declared, change: { stored, filled } };
}

/** With columns that were added for undeclared fields. */
export function withColumns(before: KnownTable, columns: readonly Column[]): KnownTable {
  return {
    ...before,
    stored: [...before.stored, ...columnsMissingIn(columns, before.stored)],
    declared: [...before.declared, ...columnsMissingIn(columns, before.declared)],
    evolved: [...before.evolved, ...columnsMissingIn(columns, before.evolved)],
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

export function readTable({ key, stored, declared, evolved, asOf }: TableRow): KnownTable {
  return {
    key: parseNames(key),
    stored: parseColumns(stored),
    declared: parseColumns(declared),
    evolved: parseColumns(evolved).map((column) => ({ ...column, isEvolved: true })),
    asOf,
  };
}

function checkFits(connector: ConnectorName, table: EntityTable, before: KnownTable): void {
  const [key, declared] = [before.key.join(', '), table.key.join(', ')];
  if (key !== declared) {
    throw incompatible(
      connector,
      table,
      `its rows are keyed by (${key}) and the definition now says (${declared})`,
    );
  }
  const storedType = new Map(before.stored.map(({ name, type }) => [name, type]));
  for (const { name, type } of table.columns) {
    const held = storedType.get(name) ?? type;
    if (held === type || (isJsonColumn(held) && isJsonColumn(type))) continue;
    const found = `column "${name}" holds ${held} values and the definition now says ${type}`;
    throw incompatible(connector, table, found);
  }
}

function incompatible(connector: ConnectorName, table: EntityTable, found: string): SyncError {
  return new SyncError(
    `The stored table of ${connector}/${table.entity} does not fit its definition: ${found}. ` +
      'Use another connector name for the new shape, go back to the old definition, or drop what is stored: ' +
      `connector-sync reset ${connector}/${table.entity} --data --yes`,
    { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector, entity: table.entity } },
  );
}
