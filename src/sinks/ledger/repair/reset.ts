import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { checkReset, resetEntities } from '../../decisions/repair-scope.ts';
import type { ResetCounts, ResetScope } from '../../repair.ts';
import { lockConnector, noRun, readAllAgain } from '../acquire.ts';
import type { Ledger } from '../ledger.ts';
import { inTransaction } from '../transact.ts';

/** Forgets how far an entity or a connector has been read, with `withData` its records too. Takes the lock alone: epoch and identity stay. */
export async function reset(
  ledger: Ledger,
  connector: ConnectorName,
  what: ResetScope,
): Promise<ResetCounts> {
  const lock = lockConnector(ledger, connector);
  try {
    const mend = what.withData
      ? () => ({ hasLostRows: false })
      : await ledger.store.findDamage(connector, resetEntities(what), ledger.signal);
    return await inTransaction(ledger, noRun, () => {
      const all = knownEntities(ledger, connector);
      const isKnown = ledger.connectors.identity.get(connector) !== undefined;
      checkReset(connector, what, what.entity !== null || isKnown ? all : null);
      if (mend().hasLostRows) readAllAgain(ledger, connector);
      const entities = resetEntities(what) ?? all;
      const partitions = readAgain(ledger, connector, entities, what);
      if (what.entity === null) {
        deleteOf(ledger, ['_sync_windows'], { connector });
        ledger.runs.forbidContinuing.run(connector);
      }
      const rows = what.withData ? dropRecords(ledger, connector, entities) : 0;
      if (what.withData && what.entity === null) dropConnector(ledger, connector);
      return { partitions, rows };
    });
  } finally {
    lock.release();
  }
}

/** Every entity of which there is anything, tables made from others' records included. */
function knownEntities({ db }: Ledger, connector: ConnectorName): readonly EntityName[] {
  return db
    .prepare<{ connector: string }, EntityName>(
      `SELECT entity FROM _sync_tables WHERE connector = :connector
       UNION SELECT entity FROM _sync_partitions WHERE connector = :connector ORDER BY 1`,
    )
    .pluck()
    .all({ connector });
}

/** Makes the entities' living partitions due from their start; gives how many. Ready where an unfinished chain reads the entity, for a run that resumes it. */
function readAgain(
  ledger: Ledger,
  connector: ConnectorName,
  entities: readonly EntityName[],
  { now }: Pick<ResetScope, 'now'>,
): number {
  const { transitions } = ledger;
  const which = { connector, entities: JSON.stringify(entities) };
  transitions.dropUnfinished.run(which);
  for (const entity of entities) deleteOf(ledger, ['_sync_missing', '_sync_seen'], { connector, entity });
  return transitions.readAgain.run({ ...which, now }).changes;
}

/** `_sync_files` is the store's own: it needs what it says until the files are removed. */
const tablesOfRecords = [
  '_sync_tables',
  '_sync_hours',
  '_sync_also',
  '_sync_quarantine',
  '_sync_drift',
  '_sync_downloads',
];

/** The records and what the ledger says of them; gives how many there were. The partitions stay. */
function dropRecords(ledger: Ledger, connector: ConnectorName, entities: readonly EntityName[]): number {
  const stored = ledger.db
    .prepare<[string, string], number>('SELECT rows FROM _sync_tables WHERE connector = ? AND entity = ?')
    .pluck();
  let rows = 0;
  for (const entity of entities) {
    ledger.store.drop(connector, entity);
    rows += stored.get(connector, entity) ?? 0;
    deleteOf(ledger, tablesOfRecords, { connector, entity });
  }
  return rows;
}

/** The rest of a connector: its partitions, runs and identity. A pause stays: it says what people want, not what was read. */
function dropConnector(ledger: Ledger, connector: ConnectorName): void {
  const { db, transitions } = ledger;
  db.prepare<[string]>(
    'DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE connector = ?)',
  ).run(connector);
  transitions.dropConnector.run({ connector });
  const others = ['_sync_missing', '_sync_seen', '_sync_runs', '_sync_connectors'];
  deleteOf(ledger, [...tablesOfRecords, ...others], { connector });
}

/** Every statement names the connector: nothing of another one is touched. */
function deleteOf(
  { db }: Ledger,
  tables: readonly string[],
  of: { readonly connector: ConnectorName; readonly entity?: EntityName },
): void {
  const which = of.entity === undefined ? '' : ' AND entity = :entity';
  for (const table of tables) db.prepare(`DELETE FROM ${table} WHERE connector = :connector${which}`).run(of);
}
