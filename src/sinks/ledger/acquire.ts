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
import type { Tx } from '../../sql/postgres/session.ts';
import { fencedTransaction } from './transact.ts';
import { holdConnector, rivalOf, storedIdentity } from './connectors.ts';
import type { Leases } from '../postgres/lease/leases.ts';

/** No record is written outside a run, so no run stands beside one. */
export const noRun = '' as RunId;

/**
 * Takes the connector's lease and marks the runs of a killed holder `interrupted`: what it had not committed is gone with it.
 * Throws `ConnectorBusyError`, `IdentityChangedError`, COPIED_AWAY.
 */
export async function acquireConnector(
  { at }: Ledger,
  leases: Leases,
  identity: ConnectorIdentity,
): Promise<HeldConnector> {
  const { connector, definitionHash, holder } = identity;
  const taken = await leases.take(connector, holder, async (tx, epoch) => {
    await checkIdentity(tx, at, identity);
    await Promise.all([interruptRunning(tx, at, connector), holdConnector(tx, at, identity, epoch)]);
  });
  return { ...taken, definitionHash, run: null };
}

async function checkIdentity(tx: Tx, at: string, given: ConnectorIdentity): Promise<void> {
  const { connector } = given;
  const [, stored, away] = await Promise.all([
    checkWhole(tx, at, connector),
    storedIdentity(tx, at, connector),
    readCopiedAway(tx, at, connector),
  ]);
  const differences = stored === undefined ? [] : identityDifferences(stored, given);
  if (differences.length > 0) throw new IdentityChangedError(connector, differences);
  if (away !== null) throw copiedAwayError(away);
}

/** Throws where another connector's tables have the same names, and where only a part of this one is here. */
export async function checkWhole(tx: Tx, at: string, connector: ConnectorName): Promise<void> {
  const [rival, unfinished] = await Promise.all([
    rivalOf(tx, at, connector),
    readUnfinishedCopy(tx, at, connector),
  ]);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/** One transaction of somebody who repairs the connector, and holds it meanwhile. Its identity and its last holder stay as they are. */
export async function holdingMeanwhile<Result>(
  ledger: Ledger,
  leases: Leases,
  connector: ConnectorName,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  const taken = await leases.take(connector, repairer(connector, ledger.clock), async (tx) => {
    await checkWhole(tx, ledger.at, connector);
  });
  try {
    const held: HeldConnector = { ...taken, definitionHash: '', run: null };
    return await taken.inTurn(
      async () => await fencedTransaction(ledger, held, noRun, work, { isLong: true }),
    );
  } finally {
    await taken.release();
  }
}

function repairer(connector: ConnectorName, clock: Clock): ConnectorIdentity['holder'] {
  const command = `repair of ${connector}`;
  return { pid: process.pid, host: hostname(), command, since: instant(clock.now()) };
}

/** `Repair.adopt`. A resumed walk would send positions of the old address to the new one: unfinished runs end here. */
export async function adopt(
  ledger: Ledger,
  leases: Leases,
  identity: AdoptedIdentity,
  now: Instant,
): Promise<void> {
  const { at } = ledger;
  const { connector, baseUrl, connectorId } = identity;
  await holdingMeanwhile(ledger, leases, connector, async (tx) => {
    const stored = await storedIdentity(tx, at, connector);
    checkAdoption(identity, stored?.definition);
    await interruptRunning(tx, at, connector);
    await forbidContinuing(tx, at, connector);
    await tx.run(
      `UPDATE ${at}_sync_connectors SET base_url = :baseUrl, connector_id = :connectorId WHERE connector = :connector`,
      { connector, baseUrl, connectorId },
    );
    await tx.run(`UPDATE ${at}_sync_tables SET adopted_at = :now WHERE connector = :connector`, {
      connector,
      now,
    });
  });
}
