import type { Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import {
  ConnectorBusyError,
  copiedAwayError,
  identityDifferences,
  IdentityChangedError,
  sharedTablesError,
  unfinishedCopyError,
} from '../acquire-errors.ts';
import { checkAdoption } from '../decisions/repair-scope.ts';
import type { AdoptedIdentity } from '../repair.ts';
import type { ConnectorIdentity } from '../lease.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { readCopiedAway, readUnfinishedCopy } from './copies/read-copies.ts';
import { takeLock, type Lock } from '../../sql/sqlite/lock.ts';
import { toSinkError } from '../sqlite-next/sink-error.ts';
import { inTransaction } from './transact.ts';

/** No record is written outside a run, so no run stands beside one. */
export const noRun = '' as RunId;

/** Takes the lock, raises the epoch, repairs what a killed holder left. Throws `ConnectorBusyError`, `IdentityChangedError`, COPIED_AWAY. */
export async function acquireConnector(ledger: Ledger, identity: ConnectorIdentity): Promise<HeldConnector> {
  const { connector } = identity;
  const lock = lockConnector(ledger, connector);
  try {
    const epoch = await inTransaction(ledger, noRun, () => {
      checkIdentity(ledger, identity);
      const { hasLostRows } = ledger.store.recover(connector);
      ledger.runs.interruptRunning.run(connector);
      if (hasLostRows) {
        ledger.runs.forbidContinuing.run(connector);
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
  checkWhole(ledger, given.connector);
  const stored = ledger.connectors.identity.get(given.connector);
  const differences = stored === undefined ? [] : identityDifferences(stored, given);
  if (differences.length > 0) throw new IdentityChangedError(given.connector, differences);
  const away = readCopiedAway(ledger.db, given.connector);
  if (away !== null) throw copiedAwayError(away);
}

/** Throws where another connector's tables have the same names, and where only a part of this one is here. */
export function checkWhole(ledger: Ledger, connector: ConnectorName): void {
  const rival = ledger.connectors.rival(connector);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  const unfinished = readUnfinishedCopy(ledger.db, connector);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/** The kernel's lock of one connector in this sink. Throws `ConnectorBusyError`, which names the holder. */
export function lockConnector(ledger: Ledger, connector: ConnectorName): Lock {
  let lock: Lock | null;
  try {
    lock = takeLock(`${ledger.file}.${connector}.lock`);
  } catch (error) {
    throw toSinkError(error, ledger.file);
  }
  if (lock === null) throw new ConnectorBusyError(connector, ledger.connectors.holder(connector));
  return lock;
}

/** Work that takes the lock alone: epoch and identity stay as they are. */
export async function withLock<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  work: () => Promise<Result>,
): Promise<Result> {
  const lock = lockConnector(ledger, connector);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

/** `Repair.adopt`. A resumed walk would send positions of the old address to the new one: unfinished runs end here. */
export async function adopt(ledger: Ledger, identity: AdoptedIdentity, now: Instant): Promise<void> {
  const { connector, baseUrl, connectorId } = identity;
  await withLock(ledger, connector, async () => {
    await inTransaction(ledger, noRun, () => {
      checkWhole(ledger, connector);
      checkAdoption(identity, ledger.connectors.identity.get(connector)?.definition);
      ledger.runs.interruptRunning.run(connector);
      ledger.runs.forbidContinuing.run(connector);
      ledger.db
        .prepare('UPDATE _sync_connectors SET base_url = ?, connector_id = ? WHERE connector = ?')
        .run(baseUrl, connectorId, connector);
      ledger.db.prepare('UPDATE _sync_tables SET adopted_at = ? WHERE connector = ?').run(now, connector);
    });
  });
}
