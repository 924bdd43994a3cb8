import type { Instant } from '../../../core/clock.ts';
import type { SyncError } from '../../../core/errors.ts';
import type { EntityName, ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { checkCounts } from '../../decisions/add-up.ts';
import type { AdoptedIdentity, ResetCounts, ResetScope } from '../../repair.ts';
import type { Holder } from '../../lease.ts';
import { noteAction } from '../actions.ts';
import { addCounts } from '../counts.ts';
import { deleteRows } from '../deletes/delete-rows.ts';
import { adopt, repairing } from '../acquire.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { checkReset, resetEntities } from '../../decisions/repair-scope.ts';
import type { Tx } from '../../../sql/database.ts';
import { storedIdentity } from '../connectors.ts';
import type { Taken } from '../driver.ts';
import { knownEntities } from '../tables.ts';
import { openRemoval } from './removal.ts';
import { resetConnector, resetEntity, type Resetting } from './resets.ts';
import { giveBackBelow, undo } from './undone-runs.ts';

/** What a person does to a sink outside a sync. */
export function ledgerRepair(ledger: Ledger, inLease: InLease) {
  return {
    reset: (connector: ConnectorName, what: ResetScope) => reset(ledger, connector, what),
    adopt: (identity: AdoptedIdentity, now: Instant) => adopt(ledger, identity, now),
    remove: (connector: ConnectorName, holder: Holder) => openRemoval(ledger, connector, holder),
    undo: inLease(undo, long),
    storeRecord: inLease(storeOne),
    tombstoneRecord: inLease(tombstoneOne),
  };
}

/**
 * Stores one record outside a walk, inside the lease's run. `isEdited`: the values of its row are not those of its
 * hash, so it is written in any case.
 */
async function storeOne(
  commit: Commit,
  entity: EntityName,
  record: PreparedRecord,
  isEdited = false,
): Promise<PageCounts> {
  const { current, tx } = commit;
  const { keyText } = record;
  if (current.purged?.isPurged(entity, record) === true) throw purgedError(entity);
  const before = (await current.tables.get(entity)?.find(tx, [record]))?.get(keyText);
  const shown = [{ entity, records: [record], isInsertOnly: false, isEdited, owner: null }];
  const [stored] = await storeRows(commit, shown, await readStored(commit, shown));
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  addCounts(tx, current.run, [{ entity, counts }]);
  current.seen.save(tx);
  if (before !== undefined && before.deletedAt !== null) await giveBackBelow(commit, entity, [keyText]);
  return counts;
}

function purgedError(entity: EntityName): SyncError {
  return usage(
    `This record of ${entity}, or the one that it belongs to, was purged, and purged records stay away. To let it return, purge it once more with --allow-return.`,
  );
}

/**
 * Tombstones the row of this key, if there is one; true when it was alive. A person asked for it by its key, with
 * `--allow-deletes`: what lies below goes along, as it does in a sync that is allowed to delete.
 */
async function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): Promise<boolean> {
  const table = commit.current.tables.get(entity);
  const stored = (await table?.rowsOf(commit.tx, [keyText]))?.get(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  await deleteRows(commit, entity, [{ row: stored.row, keyText: stored.keyText, permission: 'allowed' }]);
  return true;
}

/**
 * Forgets how far an entity (with what it is exploded into) or a whole connector has been read, with `withData` its
 * records too. The connector's identity stays as it is; the number of its newest change stays even when the connector
 * is forgotten, so that none is given twice. Takes the lock, whatever the identity. Throws `ConnectorBusyError`, and
 * USAGE where there is nothing of that name.
 */
async function reset(ledger: Ledger, connector: ConnectorName, what: ResetScope): Promise<ResetCounts> {
  const before = async (taken: Taken): Promise<void> => {
    if (!what.withData) await ledger.lines?.mend(taken, resetEntities(what));
  };
  const after = async (taken: Taken): Promise<void> => {
    if (what.withData) await ledger.lines?.tidy(taken, resetEntities(what));
  };
  const forget = async (tx: Tx): Promise<ResetCounts> => {
    const resetting: Resetting = { tx, records: ledger.records, connector, what };
    const entities = await knownEntities(tx, connector);
    const isKnown = what.entity !== null || (await storedIdentity(tx, connector)) !== undefined;
    checkReset(connector, what, isKnown ? entities : null);
    const chosen = resetEntities(what);
    const counts =
      chosen === null ? await resetConnector(resetting, entities) : await resetEntity(resetting, chosen);
    const { entity, withData } = what;
    noteAction(tx, ledger, { action: 'reset', connector, entity, detail: { withData, ...counts } });
    return counts;
  };
  return await repairing(ledger, connector, forget, { before, after });
}
