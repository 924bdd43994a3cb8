import { hostname } from 'node:os';
import { instant, type Instant } from '../../core/clock.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import {
  copiedAwayError,
  identityDifferences,
  IdentityChangedError,
  sharedTablesError,
  unfinishedCopyError,
  unfinishedRemovalError,
} from '../acquire-errors.ts';
import { checkAdoption } from '../decisions/repair-scope.ts';
import type { ConnectorIdentity, Holder } from '../lease.ts';
import type { AdoptedIdentity } from '../repair.ts';
import { noteAction } from './actions.ts';
import { long, type HeldConnector, type Ledger } from './ledger.ts';
import { readCopiedAway, readUnfinishedCopy } from './copies/read-copies.ts';
import { forgetRaw } from './raw-rows.ts';
import { storedRemoval } from './repair/read-removal.ts';
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
  const [rival, unfinished, removal] = await Promise.all([
    rivalOf(tx, connector),
    readUnfinishedCopy(tx, connector),
    storedRemoval(tx, connector),
  ]);
  if (removal !== null) throw unfinishedRemovalError(removal);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/** A repair of the connector, in one transaction that holds it. Its identity and its last holder stay as they are. */
export async function repairing<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  const since = instant(ledger.clock.now());
  const holder = { pid: process.pid, host: hostname(), command: `repair of ${connector}`, since };
  return await holdingMeanwhile(ledger, connector, holder, work, (tx) => checkWhole(tx, connector));
}

/** One transaction that holds the connector; `check` runs when it is taken. */
export async function holdingMeanwhile<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  holder: Holder,
  work: (tx: Tx) => Promise<Result>,
  check: (tx: Tx) => Promise<void> = async () => undefined,
): Promise<Result> {
  const taken = await ledger.take(connector, holder, check);
  try {
    return await taken.inTurn(async () => await taken.transact(noRun, work, long));
  } finally {
    await taken.release();
  }
}

/**
 * `Repair.adopt`. A resumed walk would send positions of the old address to the new one: unfinished runs end here. All
 * records of the new address are parsed, also those with the same bytes.
 */
export async function adopt(ledger: Ledger, identity: AdoptedIdentity, now: Instant): Promise<void> {
  const { connector, baseUrl, connectorId } = identity;
  await repairing(ledger, connector, async (tx) => {
    const stored = await storedIdentity(tx, connector);
    checkAdoption(identity, stored?.definition);
    await interruptRunning(tx, connector);
    await forbidContinuing(tx, connector);
    await forgetRaw(tx, connector);
    await tx.run(
      `UPDATE _sync_connectors SET base_url = :baseUrl, connector_id = :connectorId WHERE connector = :connector`,
      { connector, baseUrl, connectorId },
    );
    await tx.run(`UPDATE _sync_tables SET adopted_at = :now WHERE connector = :connector`, {
      connector,
      now,
    });
    noteAction(tx, ledger, { action: 'adopt', connector, detail: { baseUrl, connectorId } });
  });
}
