import type { ConnectorName, EntityName } from '../core/names.ts';
import type { EntityTable } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { unfinishedCopyError } from '../sinks/acquire-errors.ts';
import { knownTables } from '../sinks/ledger/tables.ts';
import type { Tx } from '../sql/database.ts';
import type { ConnectorOverview, ConnectorStatus } from '../sinks/ledger-reader.ts';
import type { LedgerReader } from '../sinks/sink-access.ts';
import type { SearchAnswer } from './search-request.ts';
import { searchTarget, type SearchTarget, type TableName } from './search-target.ts';

/** An entity of a connector that is searched. */
export interface Searched {
  readonly connector: ConnectorName;
  readonly entity: Entity;
  /** The columns that the search may read; left out: all. */
  readonly only?: readonly string[] | undefined;
  /** Whether the answer has how the connector stands. */
  readonly withState?: boolean | undefined;
}

/** How a connector stands in the state that was searched. */
export interface SearchedState {
  readonly status: ConnectorStatus | null;
  readonly freshness: ConnectorOverview['freshness'];
}

/** `state`: where it was asked for. */
export interface StatedAnswer extends SearchAnswer {
  readonly state?: SearchedState;
}

/** For the answer; `history` is of the state that is searched. Throws COPY_UNFINISHED. */
export async function searchedState(
  history: Pick<LedgerReader, 'connectors' | 'freshness' | 'unfinishedCopy'>,
  { connector, withState = false }: Searched,
): Promise<Pick<StatedAnswer, 'state'>> {
  if (!withState) return {};
  const unfinished = await history.unfinishedCopy(connector);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
  const [status = null] = await history.connectors([connector]);
  return { state: { status, freshness: await history.freshness(connector) } };
}

/** How the entity is searched as its tables are now. `isThere`: its rows have a table. */
export async function readTarget(
  tx: Tx,
  { connector, entity, only }: Searched,
  tableName: TableName,
): Promise<{ readonly target: SearchTarget; readonly isThere: boolean }> {
  const { table, explodedTable } = entity;
  const entities = [table, ...(explodedTable === null ? [] : [explodedTable])].map((one) => one.entity);
  const known = await knownTables(tx, { connector, entities });
  const stored = (name: EntityName): EntityTable | null => {
    const found = known.get(name);
    return found === undefined ? null : { entity: name, columns: found.stored, key: found.key };
  };
  const target = searchTarget(entity, connector, stored, { only: only && new Set(only), tableName });
  return { target, isThere: known.has((explodedTable ?? table).entity) };
}
