import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { Tx } from '../../sql/database.ts';
import type { LedgerReader } from '../sink-access.ts';
import { storedTables } from '../ledger/tables.ts';
import { parseDescribed } from '../stored-json.ts';

/** A table whose view of current rows is open to untrusted queries. */
export interface OfferedTable {
  /** Name of the table for its readers. */
  readonly label: string;
  readonly connector: ConnectorName;
  /** Entity whose listing the rows come from. */
  readonly owner: EntityName;
  readonly entity: EntityName;
  /** The declared columns that are offered; null: all that is stored. */
  readonly only: readonly string[] | null;
}

/** View of an offered table, and its offered columns. */
export interface OfferedView extends OfferedTable {
  readonly name: string;
  readonly columns: readonly string[];
}

/**
 * The views that there are of these tables. A column that is made of others is offered where all of those are.
 * `columnsOf`: of a view, in its order.
 */
export async function offeredViews(
  tx: Tx,
  offered: readonly OfferedTable[],
  columnsOf: (tx: Tx, view: string) => Promise<readonly string[]>,
): Promise<readonly OfferedView[]> {
  const views: OfferedView[] = [];
  for (const connector of new Set(offered.map((one) => one.connector))) {
    const tables = new Map((await storedTables(tx, connector)).map((table) => [table.entity, table]));
    for (const one of offered) {
      const table = tables.get(one.entity);
      if (one.connector !== connector || typeof table?.currentView !== 'string') continue;
      const { only } = one;
      const { derived } = parseDescribed(table.described);
      const isOffered = (column: string): boolean =>
        only === null ||
        only.includes(column) ||
        derived.some(({ name, from }) => name === column && from.every((source) => only.includes(source)));
      const columns = (await columnsOf(tx, table.currentView)).filter(isOffered);
      if (columns.length > 0) views.push({ ...one, name: table.currentView, columns });
    }
  }
  return views;
}

/** `read`: views that a query reads; `history`: the sink's facts in the same state. */
export type OnViews<Facts> = (read: readonly OfferedView[], history: LedgerReader) => Promise<Facts>;

const mostNamed = 20;

/** The message is for the one who wrote the query. */
export function queryRefused(why: string, views: readonly OfferedView[]): SyncError {
  const names = views.slice(0, mostNamed).map(({ name }) => name);
  const more = names.length < views.length ? ', ... ; without a query, all of them are listed' : '';
  return new SyncError(
    `sql: ${why}. Expected one query (SELECT, VALUES or WITH) over these views: ${names.join(', ')}${more}.`,
    { code: 'USAGE', recovery: 'stop' },
  );
}
