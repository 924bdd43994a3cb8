import type { ConnectorName } from '../../../core/names.ts';
import type { Cells, Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { versionsName } from '../../records/own-names.ts';
import { rowsTable, versionsTable } from '../../records/whole-rows.ts';
import type { CellColumn, CellTable, CellType, numbered, RecordTables } from '../driver.ts';
import { transitions } from '../partitions/transitions.ts';
import { ledgerSql } from '../schema.ts';
import type { WholeTable } from '../tables.ts';

/** A table as a copy reads it in one sink and writes it in another. */
export interface CopiedTable extends CellTable {
  /** Its name in the source; `name` is that in the target. */
  readonly from: string;
  /** The table of records that it is; null: it has versions of records, or what the ledger knows. */
  readonly whole: WholeTable | null;
  readonly columns: readonly CopiedColumn[];
  /** The rows of `:connector`. */
  readonly where: string;
  readonly order: string;
}

interface CopiedColumn extends CellColumn {
  /** Numbers that the target raises: other connectors may have them there. 0 and null stand for none. */
  readonly of?: keyof typeof numbered;
}

/** What is added to numbers of the source. */
export type Shift = Readonly<Record<keyof typeof numbered, number>>;

/** Tables of what a ledger knows of a connector, runs before their counts. */
const factNames = [
  '_sync_runs',
  '_sync_counts',
  '_sync_partitions',
  '_sync_seen',
  '_sync_also',
  '_sync_missing',
  '_sync_drift',
  '_sync_windows',
  '_sync_hours',
  '_sync_quarantine',
  '_sync_downloads',
  '_sync_versions',
  '_sync_days',
  '_sync_masks',
  '_sync_actions',
  '_sync_conditions',
  '_sync_purge_keys',
  '_sync_purged',
  '_sync_purge_work',
  '_sync_retained',
] as const;

const numbers: Readonly<Record<string, keyof typeof numbered>> = {
  number: 'runs',
  origin: 'runs',
  full_origin: 'runs',
  sweep_origin: 'runs',
  first_origin: 'runs',
  taken_over: 'runs',
  id: 'partitions',
  base: 'partitions',
  tree: 'partitions',
  partition: 'partitions',
};

const cellTypes: Readonly<Record<string, CellType>> = {
  TEXT: 'string',
  BIGINT: 'integer',
  INTEGER: 'flag',
  BYTEA: 'bytes',
};

const orders: Readonly<Record<string, string>> = {
  _sync_runs: 'ORDER BY number',
  _sync_tables: 'ORDER BY entity',
};

/** A table of the ledger as `ledger/schema.ts` has it. */
function ledgerTable(name: string): CopiedTable {
  const definition = new RegExp(`^CREATE TABLE ${name} \\(([^;]*);`, 'm').exec(ledgerSql)?.[1] ?? '';
  const columns = [...definition.matchAll(/^ {2}"?([a-z]\w*)"? (TEXT|BIGINT|INTEGER|BYTEA)\b/gm)];
  const isOrdered = columns.some(([, column]) => column === 'id');
  return {
    name,
    from: name,
    key: null,
    whole: null,
    columns: columns.flatMap(([, column = '', type = '']) => {
      // Other ids than those of partitions say only in which order rows came: the target gives new ones.
      if (column === 'id' && name !== '_sync_partitions') return [];
      const of = numbers[column];
      return [{ name: column, type: cellTypes[type] ?? 'string', ...(of === undefined ? {} : { of }) }];
    }),
    where:
      name === '_sync_counts'
        ? 'run IN (SELECT run FROM _sync_runs WHERE connector = :connector)'
        : 'connector = :connector',
    order: isOrdered ? 'ORDER BY id' : (orders[name] ?? ''),
  };
}

const factTables = factNames.map(ledgerTable);
/** Tables that make the others count. */
export const lastTables = ['_sync_tables', '_sync_pauses'].map(ledgerTable);

/** Whether the table has what the ledger knows, which may change without a change of records. */
export function isOfFacts(table: CopiedTable): boolean {
  return factTables.includes(table);
}

/** The connector's tables in the order in which they are copied. */
export function copiedTables(
  source: Pick<RecordTables, 'tableName'>,
  target: Pick<RecordTables, 'tableName' | 'keepsVersions'>,
  connector: ConnectorName,
  tables: readonly WholeTable[],
): readonly CopiedTable[] {
  const ofRows = tables.flatMap((whole): readonly CopiedTable[] => {
    const table = { ...whole, hasVersions: whole.hasVersions && target.keepsVersions };
    const { name, key, columns } = rowsTable(target, connector, table);
    const from = source.tableName(connector, whole.entity);
    const rows: CopiedTable = {
      name,
      from,
      key,
      whole,
      columns: columns.map((column) =>
        column.name === '_partition' ? { ...column, of: 'partitions' } : column,
      ),
      where: 'true',
      order: 'ORDER BY _row',
    };
    if (!table.hasVersions) return [rows];
    const versions = versionsTable(target, connector, table);
    const { where } = rows;
    return [rows, { ...versions, from: versionsName(from), whole: null, where, order: 'ORDER BY _seq_to' }];
  });
  return [...ofRows, ...factTables.filter(({ name }) => target.keepsVersions || name !== '_sync_versions')];
}

/** Reads the rows of `:connector`, cells in the order of the columns, from the table of this name. */
export function selectCells({ columns, where, order }: CopiedTable, name: string): string {
  const cells = columns.map((column, index) => `${quoted(column.name)} AS c${index}`);
  return `SELECT ${cells.join(', ')} FROM ${quoted(name)} WHERE ${where} ${order}`;
}

/** Cells as every database takes them, with numbers of the target. */
export function movedCells({ columns }: CopiedTable, cells: Cells, shift: Shift): Cells {
  return cells.map((cell, index) => {
    const of = columns[index]?.of;
    if (of !== undefined && typeof cell === 'number' && cell !== 0) return cell + shift[of];
    return typeof cell === 'boolean' ? Number(cell) : cell;
  });
}

export async function clearTable(
  tx: Tx,
  { name, where }: CopiedTable,
  connector: ConnectorName,
): Promise<void> {
  if (name === '_sync_partitions') await transitions.dropConnector(tx, { connector });
  else await tx.run(`DELETE FROM ${quoted(name)} WHERE ${where}`, { connector });
}

/** Removes what the ledger knows of the connector, without the tables `kept`. */
export async function dropFacts(
  tx: Tx,
  connector: ConnectorName,
  kept: readonly (typeof factNames)[number][] = [],
): Promise<void> {
  for (const table of factTables.toReversed()) {
    if (!kept.some((name) => name === table.name)) await clearTable(tx, table, connector);
  }
}
