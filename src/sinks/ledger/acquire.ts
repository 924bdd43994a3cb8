import { hostname } from 'node:os';
import { instant, type Clock, type Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import {
  copiedAwayError,
  identityDifferences,
  IdentityChangedError,
  sharedTablesError,
  unfinishedCopyError,
} from '../acquire-errors.ts';
import { checkAdoption } from '../decisions/repair-scope.ts';
import type { ConnectorIdentity } from '../lease.ts';
import type { AdoptedIdentity } from '../repair.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { readCopiedAway, readUnfinishedCopy } from './copies/read-copies.ts';
import { forbidContinuing, interruptRunning } from './runs/runs.ts';
import type { Tx } from '../../sql/database.ts';
import { holdConnector, rivalOf, storedIdentity } from './connectors.ts';

/** No record is written outside a run, so no run stands beside one. */
export const noRun = '' as RunId;

/**
 * Takes the connector and marks the runs of a killed holder `interrupted`: what it had not committed is lost with it.
 * Throws `ConnectorBusyError`, `IdentityChangedError`, COPIED_AWAY.
 */
export async function acquireConnector(ledger: Ledger, identity: ConnectorIdentity): Promise<HeldConnector> {
  const { connector, definitionHash, holder } = identity;
  const taken = await ledger.take(connector, holder, async (tx, epoch) => {
    await checkIdentity(tx, identity);
    await ledger.lines?.recover(tx, connector);
    await Promise.all([interruptRunning(tx, connector), holdConnector(tx, identity, epoch)]);
  });
  return { ...taken, definitionHash, run: null };
}

async function checkIdentity(tx: Tx, given: ConnectorIdentity): Promise<void> {
  const { connector } = given;
  const [, stored, away] = await Promise.all([
    checkWhole(tx, connector),
    storedIdentity(tx, connector),
    readCopiedAway(tx, connector),
  ]);
  const differences = stored === undefined ? [] : identityDifferences(stored, given);
  if (differences.length > 0) throw new IdentityChangedError(connector, differences);
  if (away !== null) throw copiedAwayError(away);
}

/** Throws where another connector's tables have the same names, and where only a part of this one is here. */
export async function checkWhole(tx: Tx, connector: ConnectorName): Promise<void> {
  const [rival, unfinished] = await Promise.all([rivalOf(tx, connector), readUnfinishedCopy(tx, connector)]);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/**
 * One transaction of somebody who repairs the connector, and holds it meanwhile. Its identity and its last holder stay
 * as they are.
 */
export async function holdingMeanwhile<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  const taken = await ledger.take(connector, repairer(connector, ledger.clock), async (tx) => {
    await checkWhole(tx, connector);
  });
  try {
    return await taken.inTurn(async () => await taken.transact(noRun, work, { isLong: true }));
  } finally {
    await taken.release();
  }
}

function repairer(connector: ConnectorName, clock: Clock): ConnectorIdentity['holder'] {
  const command = `repair of ${connector}`;
  return { pid: process.pid, host: hostname(), command, since: instant(clock.now()) };
}

/** `Repair.adopt`. A resumed walk would send positions of the old address to the new one: unfinished runs end here. */
export async function adopt(ledger: Ledger, identity: AdoptedIdentity, now: Instant): Promise<void> {
  const { connector, baseUrl, connectorId } = identity;
  await holdingMeanwhile(ledger, connector, async (tx) => {
    const stored = await storedIdentity(tx, connector);
    checkAdoption(identity, stored?.definition);
    await interruptRunning(tx, connector);
    await forbidContinuing(tx, connector);
    await tx.run(
      `UPDATE _sync_connectors SET base_url = :baseUrl, connector_id = :connectorId WHERE connector = :connector`,
      { connector, baseUrl, connectorId },
    );
    await tx.run(`UPDATE _sync_tables SET adopted_at = :now WHERE connector = :connector`, {
      connector,
      now,
    });
  });
}
