import type { EntityName, RunId, ConnectorName } from '../../../core/names.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { checkCounts } from '../../decisions/add-up.ts';
import type { Repair, UndeletedRows, ResetCounts, ResetScope } from '../../repair.ts';
import { deleteRow } from '../deletes/delete-rows.ts';
import type { Commit, Ledger } from '../ledger.ts';
import { storeRows } from '../store-rows.ts';
import { type InLease, inTransaction } from '../transact.ts';
import { adopt, checkWhole, noRun, readAllAgain, withLock } from '../acquire.ts';
import { checkReset, resetEntities } from '../../decisions/repair-scope.ts';

export function ledgerRepair(ledger: Ledger, inLease: InLease): Repair {
  return {
    reset: async (connector, what) => reset(ledger, connector, what),
    adopt: (identity, now) => adopt(ledger, identity, now),
    canUndelete: ledger.store.canUndelete,
    undelete: async (lease, run, of, limit) => inLease(lease, run, (commit) => undelete(commit, of, limit)),
    storeRecord: async (lease, run, entity, record, isEdited) =>
      inLease(lease, run, (commit) => storeOne(commit, entity, record, isEdited)),
    tombstoneRecord: async (lease, run, entity, keyText) =>
      inLease(lease, run, (commit) => tombstoneOne(commit, entity, keyText)),
  };
}

/** Row by row, table after table, until `limit` of them are back. */
function undelete(commit: Commit, of: RunId, limit: number): UndeletedRows {
  const { ledger, held, current, stamp } = commit;
  const rows: { readonly entity: EntityName; readonly rows: number }[] = [];
  let left = limit;
  for (const [entity, { table }] of current.tables) {
    const tombstoned = left > 0 ? table.tombstonedBy(of, left) : [];
    for (const row of tombstoned) {
      table.revive(row, stamp);
      const keyText = table.row(row)?.keyText ?? '';
      giveBackBelow(commit, entity, keyText);
      ledger.downloads.begin(held.connector, entity, keyText);
    }
    if (tombstoned.length > 0) {
      ledger.tables.addDeleted(held.connector, entity, -tombstoned.length);
      ledger.day.add(held.connector, entity, tombstoned.length, { origin: current.origin, now: stamp.now });
      rows.push({ entity, rows: tombstoned.length });
    }
    left -= tombstoned.length;
  }
  return { rows, isDone: left > 0 };
}

function giveBackBelow({ ledger, held, current, stamp }: Commit, entity: EntityName, keyText: string): void {
  const { transitions } = ledger;
  const { connector } = held;
  transitions.giveBack.run({ connector, entity, keyText, origin: current.origin, now: stamp.now });
}

function storeOne(commit: Commit, entity: EntityName, record: PreparedRecord, isEdited = false): PageCounts {
  const { ledger, current } = commit;
  const before = current.tables.get(entity)?.table.find(record);
  const stored = storeRows(
    commit,
    { entity, records: [record] },
    { isInsertOnly: false, isEdited, home: null, countsAsSeen: true },
  );
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  ledger.counts.add(current.run, entity, counts);
  current.seen.save();
  if (before !== undefined && before.deletedAt !== null) giveBackBelow(commit, entity, record.keyText);
  return counts;
}

/** A person asked for it by its key, with `--allow-deletes`: what lies below goes along, as it does in a sync that is allowed to delete. */
function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): boolean {
  const stored = commit.current.tables.get(entity)?.table.rowOf(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  deleteRow(commit, entity, stored, 'allowed');
  return true;
}

/** Forgets how far an entity or a connector has been read, with `withData` its records too. Takes the lock alone: epoch and identity stay. */
export async function reset(
  ledger: Ledger,
  connector: ConnectorName,
  what: ResetScope,
): Promise<ResetCounts> {
  return await withLock(ledger, connector, async () => {
    const mend = what.withData
      ? () => ({ hasLostRows: false })
      : await ledger.store.findDamage(connector, resetEntities(what), ledger.signal);
    return await inTransaction(ledger, noRun, () => {
      checkWhole(ledger, connector);
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
  });
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
  const others = ['_sync_missing', '_sync_seen', '_sync_runs', '_sync_connectors', '_sync_copies'];
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
