import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import { identityDifferences, IdentityChangedError } from '../acquire-errors.ts';
import type { ConnectorIdentity } from '../sink.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { lockConnector } from './lock-connector.ts';
import { inTransaction } from './transact.ts';

/** Rows are never written while a connector is only being taken, so no run stands beside them. */
const noRun = '' as RunId;

/**
 * Takes the connector's lock, raises its epoch, repairs what a killed holder left and marks its runs `interrupted`.
 * Throws `ConnectorBusyError`, `IdentityChangedError`.
 */
export async function acquireConnector(ledger: Ledger, identity: ConnectorIdentity): Promise<HeldConnector> {
  const { connector } = identity;
  const lock = lockConnector(ledger, connector);
  try {
    const epoch = await inTransaction(ledger, noRun, () => {
      checkIdentity(ledger, identity);
      const { hasLostRows } = ledger.store.recover(connector);
      ledger.runs.interruptRunning(connector);
      if (hasLostRows) {
        ledger.runs.forbidContinuing(connector);
        readAllAgain(ledger, connector);
      }
      return ledger.connectors.hold(identity);
    });
    return { connector, epoch, definitionHash: identity.definitionHash, lock, run: null };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Stored rows were lost: every walk begins anew and in full, and windows of backfills that are done are read again. */
export function readAllAgain({ db, transitions }: Ledger, connector: ConnectorName): void {
  transitions.distrust.run({ connector });
  db.prepare<[string]>('DELETE FROM _sync_windows WHERE connector = ?').run(connector);
}

function checkIdentity(ledger: Ledger, given: ConnectorIdentity): void {
  const rival = ledger.connectors.rival(given.connector);
  if (rival !== undefined) {
    throw new SyncError(
      `Connectors "${given.connector}" and "${rival}" would share tables in this sink. Rename one of them.`,
      { code: 'SINK_INCOMPATIBLE', recovery: 'stop', context: { connector: given.connector, rival } },
    );
  }
  const stored = ledger.connectors.identity(given.connector);
  if (stored === undefined) {
    return;
  }
  const differences = identityDifferences(stored, given);
  if (differences.length > 0) {
    throw new IdentityChangedError(given.connector, differences);
  }
}
