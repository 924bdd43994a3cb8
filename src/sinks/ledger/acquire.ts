import { hostname } from 'node:os';
import { instant, type Instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import {
  copiedAwayError,
  identityDifferences,
  IdentityChangedError,
  sharedTablesError,
  unfinishedCopyError,
  unfinishedRemovalError,
} from '../acquire-errors.ts';
import { beginAfresh, checkAdoption } from './repair/resets.ts';
import type { ConnectorIdentity, Holder } from '../lease.ts';
import type { RunReport } from '../run-report.ts';
import type { AdoptedIdentity } from '../repair.ts';
import { noteAction } from './actions.ts';
import type { Taken } from './driver.ts';
import { outsideRun, type HeldConnector, type Ledger } from './ledger.ts';
import {
  holdConnector,
  nameConnector,
  readCopiedAway,
  readRemoval,
  readUnfinishedCopy,
  rivalOf,
  storedIdentity,
  storedOrigins,
} from './connectors.ts';
import { forgetRaw } from './row-blocks.ts';
import { forbidContinuing, insertFailedStart, interruptRunning } from './runs/runs.ts';
import type { Tx } from '../../sql/database.ts';

/**
 * Takes the connector and marks the runs of a killed holder `interrupted`: what it had not committed is lost with it.
 * Throws `ConnectorBusyError`, `IdentityChangedError`, COPIED_AWAY.
 */
export async function acquireConnector(ledger: Ledger, identity: ConnectorIdentity): Promise<HeldConnector> {
  const { connector, definitionHash, holder } = identity;
  const taken = await ledger.take(connector, holder, async (tx, epoch) => {
    await checkIdentity(tx, ledger, identity);
    await ledger.lines?.check(tx, connector);
    await Promise.all([interruptRunning(tx, connector), holdConnector(tx, identity, epoch)]);
  });
  return { ...taken, definitionHash, run: null };
}

/** Where no row is stored, any identity is taken. */
async function checkIdentity(tx: Tx, ledger: Ledger, given: ConnectorIdentity): Promise<void> {
  const { connector } = given;
  const [, stored, [origin], away] = await Promise.all([
    checkWhole(tx, connector),
    storedIdentity(tx, connector),
    storedOrigins(tx, [connector]),
    readCopiedAway(tx, connector),
  ]);
  const differences = stored === undefined ? [] : identityDifferences(stored, given);
  if (differences.length > 0 && origin !== undefined) {
    throw new IdentityChangedError(connector, differences);
  }
  if (away !== null) throw copiedAwayError(away);
  if (differences.length === 0) return;
  const { records, clock } = ledger;
  await beginAfresh({ tx, records, connector, now: instant(clock.now()) });
}

/** Throws where another connector's tables have the same names, and where only a part of this one is here. */
export async function checkWhole(tx: Tx, connector: ConnectorName): Promise<void> {
  const [rival, unfinished, removal] = await Promise.all([
    rivalOf(tx, connector),
    readUnfinishedCopy(tx, connector),
    readRemoval(tx, connector),
  ]);
  if (removal !== null) throw unfinishedRemovalError(removal);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/**
 * Enters a run that could not begin, with its report. The stored identity stays as it is, and so does what a killed
 * holder left. Where only a part of the connector is here, nothing is entered: that part does not count. Throws
 * `ConnectorBusyError` where another process holds the connector: then its run is the newest.
 */
export async function enterFailedStart(ledger: Ledger, report: RunReport): Promise<void> {
  const { connector, startedAt: since } = report;
  const holder = { pid: process.pid, host: hostname(), command: `a run of ${connector}`, since };
  await holdingOnce(ledger, connector, holder, async (tx) => {
    const isPart = (await readUnfinishedCopy(tx, connector)) ?? (await readRemoval(tx, connector));
    if (isPart !== null) return;
    await nameConnector(tx, connector, holder);
    await insertFailedStart(tx, report);
  });
}

/**
 * Holds the whole connector for what a person asked for: its identity and its last holder stay as they are. Before a
 * purge no file of lines may be damaged; a repair mends them.
 */
export async function holdingFor<Result>(
  what: 'purge' | 'repair',
  ledger: Ledger,
  connector: ConnectorName,
  work: (taken: Taken) => Promise<Result>,
): Promise<Result> {
  const since = instant(ledger.clock.now());
  const holder = { pid: process.pid, host: hostname(), command: `${what} of ${connector}`, since };
  const check = async (tx: Tx): Promise<void> => {
    await checkWhole(tx, connector);
    if (what === 'purge') await ledger.lines?.check(tx, connector);
  };
  return await holding(ledger, connector, { holder, check }, work);
}

/** One transaction that holds the connector, whatever is stored of it. */
export async function holdingOnce<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  holder: Holder,
  work: (tx: Tx) => Promise<Result>,
): Promise<Result> {
  const check = async (): Promise<void> => undefined;
  return await holding(ledger, connector, { holder, check }, (taken) => outsideRun(taken, work));
}

/** Holds the connector meanwhile. `check` runs in the transaction that takes it. */
export async function holding<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  { holder, check }: { readonly holder: Holder; readonly check: (tx: Tx) => Promise<void> },
  work: (taken: Taken) => Promise<Result>,
): Promise<Result> {
  const taken = await ledger.take(connector, holder, check);
  try {
    return await work(taken);
  } finally {
    await taken.release();
  }
}

/**
 * From now on the connector stands for this address and connector id. Rows stay; no run is resumed, and none deletes
 * before a full run has agreed: a resumed walk would send positions of the old address to the new one. All records of
 * the new address are parsed, also those with the same bytes. Takes the lock. Throws `ConnectorBusyError`, USAGE where
 * the sink holds nothing of that name, `IdentityChangedError` for another connector type.
 */
export async function adopt(ledger: Ledger, identity: AdoptedIdentity, now: Instant): Promise<void> {
  const { connector, baseUrl, connectorId } = identity;
  const repair = async (tx: Tx): Promise<void> => {
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
    const from = { baseUrl: stored?.baseUrl ?? '', connectorId: stored?.connectorId ?? '' };
    noteAction(tx, ledger, { action: 'adopt', connector, detail: { baseUrl, connectorId, from } });
  };
  await holdingFor('repair', ledger, connector, async (taken) => await outsideRun(taken, repair));
}
