import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { writeJson, readJson } from '../../core/json.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { cellOf, type Tx } from '../../sql/database.ts';
import type { SinkCopies, UnfinishedCopy, ResetScope } from '../requests.ts';
import type { ConnectorIdentity, Holder, StoredIdentity } from '../lease.ts';
import type { StoredOrigin } from '../ledger-reader.ts';
import { parseCopiedTo, parseHolder } from '../stored-json.ts';
import { instant } from '../../core/clock.ts';
import {
  copiedAwayError,
  identityDifferences,
  IdentityChangedError,
  sharedTablesError,
  unfinishedCopyError,
} from '../sink-errors.ts';
import type { RunReport } from '../run-report.ts';
import type { Taken, RecordTables } from './driver.ts';
import { outsideRun, type HeldConnector, type Ledger } from './ledger.ts';
import { ledgerTables } from './ledger-schema.ts';
import { forbidContinuing, insertFailedStart, interruptRunning } from './runs/run-chains.ts';
import * as z from 'zod';
import { transitions } from './partitions/transitions.ts';
import { knownEntities } from './tables.ts';

/** A condition for these connectors, which are `:only`, or for all of them. */
export function among(only: readonly ConnectorName[] | undefined, column = 'connector'): string {
  return only === undefined ? 'true' : `${column} IN {only text}`;
}

/** False for a connector whose runs have all failed to begin. */
export const hasIdentity = `base_url <> ''`;

/** Undefined for an unknown connector, and for one whose runs have all failed to begin. */
export async function storedIdentity(tx: Tx, connector: ConnectorName): Promise<StoredIdentity | undefined> {
  return await tx.first<StoredIdentity>(
    `SELECT base_url, connector_id, definition FROM _sync_connectors WHERE connector = :connector AND ${hasIdentity}`,
    { connector },
  );
}

/** Origins of the rows under these names; names without a row are left out. */
export async function storedOrigins(tx: Tx, connectors: readonly ConnectorName[]) {
  return await tx.rows<StoredOrigin>(
    `SELECT connector, base_url, connector_id, definition FROM _sync_connectors AS known
     WHERE connector IN {connectors text}
       AND EXISTS (SELECT 1 FROM _sync_tables AS stored WHERE stored.connector = known.connector AND stored.rows > 0)
     ORDER BY connector`,
    { connectors },
  );
}

/** Another connector whose table names would be the same (`a-b` and `a_b`). */
export async function rivalOf(tx: Tx, connector: ConnectorName): Promise<ConnectorName | undefined> {
  return await cellOf<ConnectorName>(
    tx,
    `SELECT connector FROM _sync_connectors
     WHERE connector <> :connector AND ${hasIdentity} AND replace(connector, '-', '_') = replace(:connector, '-', '_')`,
    { connector },
  );
}

/** Writes the new holder, definition hash and epoch; of a connector that is known, its key stays. */
export async function holdConnector(
  tx: Tx,
  given: StoredIdentity & Pick<ConnectorIdentity, 'connector' | 'definitionHash' | 'holder'>,
  epoch: number,
): Promise<void> {
  const { holder, ...identity } = given;
  await tx.run(
    `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder, raw_key)
     VALUES (:connector, :baseUrl, :connectorId, :definition, :definitionHash, :epoch, :holder, :rawKey)
     ON CONFLICT (connector) DO UPDATE SET base_url = excluded.base_url, connector_id = excluded.connector_id,
       definition = excluded.definition, definition_hash = excluded.definition_hash, epoch = excluded.epoch,
       holder = excluded.holder, raw_key = coalesce(_sync_connectors.raw_key, excluded.raw_key)`,
    { ...identity, epoch, holder: writeJson(holder), rawKey: newRawKey() },
  );
}

/** `rawKey` of `startRun`; null: no holder has made one. */
export async function storedRawKey(tx: Tx, connector: ConnectorName): Promise<string | null> {
  const sql = 'SELECT raw_key FROM _sync_connectors WHERE connector = :connector';
  return (await cellOf<string | null>(tx, sql, { connector })) ?? null;
}

/** From now on no row counts as stored from the same bytes: each is compared with its record once more. */
export async function forgetHashes(tx: Tx, connector: ConnectorName): Promise<void> {
  const sql = 'UPDATE _sync_connectors SET raw_key = :rawKey WHERE connector = :connector';
  await tx.run(sql, { connector, rawKey: newRawKey() });
}

function newRawKey(): string {
  return randomBytes(32).toString('hex');
}

/** Stores the holder for the error that the next process gets; the epoch stays. */
export async function noteHolder(tx: Tx, connector: ConnectorName, holder: Holder): Promise<void> {
  const sql = 'UPDATE _sync_connectors SET holder = :holder WHERE connector = :connector';
  await tx.run(sql, { connector, holder: writeJson(holder) });
}

/**
 * The sink in which the connector's syncs continue (`parseCopiedTo`), or null: in this one. False where that was
 * already stored.
 */
export async function noteCopiedTo(tx: Tx, connector: ConnectorName, copiedTo: string | null) {
  const changed = await tx.run(
    `UPDATE _sync_connectors SET copied_to = :copiedTo
     WHERE connector = :connector AND copied_to IS DISTINCT FROM :copiedTo`,
    { connector, copiedTo },
  );
  return changed > 0;
}

/** Epoch of the connector's last holder; 0 for an unknown connector. */
export async function storedEpoch(tx: Tx, connector: ConnectorName): Promise<number> {
  const sql = 'SELECT epoch FROM _sync_connectors WHERE connector = :connector';
  return (await cellOf<number>(tx, sql, { connector })) ?? 0;
}

/** The connector's present or last holder. An unfinished copy has no other row with one yet. */
export async function holderOf(tx: Tx, connector: ConnectorName): Promise<Holder | null> {
  const found = await cellOf<string>(
    tx,
    `SELECT holder FROM _sync_connectors WHERE connector = :connector
     UNION ALL SELECT holder FROM _sync_copies WHERE connector = :connector AND finished_at IS NULL`,
    { connector },
  );
  return found === undefined ? null : parseHolder(found);
}

/** The copy that would have to be completed before the connector may be used; null where there is none. */
export async function readUnfinishedCopy(tx: Tx, connector: ConnectorName): Promise<UnfinishedCopy | null> {
  return (await readCopies(tx, [connector])).unfinished.get(connector) ?? null;
}

/** Unfinished copies into this sink and finished ones out of it, of all connectors or of `only` these. */
export async function readCopies(tx: Tx, only?: readonly ConnectorName[]): Promise<SinkCopies> {
  const named = { only: only ?? [] };
  const unfinished = await tx.rows<UnfinishedCopy>(
    `SELECT connector, source_name AS "from", target_name AS "to", since FROM _sync_copies
     WHERE finished_at IS NULL AND ${among(only)}`,
    named,
  );
  const away = await tx.rows<{ readonly connector: ConnectorName; readonly copiedTo: string }>(
    `SELECT connector, copied_to FROM _sync_connectors WHERE copied_to IS NOT NULL AND ${among(only)}`,
    named,
  );
  return {
    unfinished: new Map(unfinished.map((one) => [one.connector, one])),
    away: new Map(
      away.map(({ connector, copiedTo }) => [connector, { connector, ...parseCopiedTo(copiedTo) }]),
    ),
  };
}

/**
 * Takes the connector and marks the runs of a killed holder `interrupted`: uncommitted work of that holder is lost.
 * Throws `ConnectorBusyError`, `IdentityChangedError`, COPIED_AWAY.
 */
export async function acquireConnector(ledger: Ledger, identity: ConnectorIdentity): Promise<HeldConnector> {
  const { connector, definitionHash, holder } = identity;
  const taken = await ledger.take(connector, holder, async (tx, epoch) => {
    await checkIdentity(tx, ledger, identity);
    await ledger.lines?.check(tx, connector);
    await Promise.all([interruptRunning(tx, { connector }), holdConnector(tx, identity, epoch)]);
  });
  return { ...taken, definitionHash, run: null };
}

/** Checks the stored identity. Where no row is stored, any identity is accepted. */
async function checkIdentity(tx: Tx, ledger: Ledger, given: ConnectorIdentity): Promise<void> {
  const { connector } = given;
  const [, stored, [origin], copies] = await Promise.all([
    checkWhole(tx, connector),
    storedIdentity(tx, connector),
    storedOrigins(tx, [connector]),
    readCopies(tx, [connector]),
  ]);
  const differences = stored === undefined ? [] : identityDifferences(stored, given);
  if (differences.length > 0 && origin !== undefined) {
    throw new IdentityChangedError(connector, differences);
  }
  const away = copies.away.get(connector);
  if (away !== undefined) throw copiedAwayError(away);
  if (differences.length === 0) return;
  const { records, clock } = ledger;
  await beginAfresh({ tx, records, connector, now: instant(clock.now()) });
}

/** Throws where another connector's tables have the same names, and where only a part of this one is here. */
export async function checkWhole(tx: Tx, connector: ConnectorName): Promise<void> {
  const [rival, unfinished] = await Promise.all([rivalOf(tx, connector), readUnfinishedCopy(tx, connector)]);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  if (unfinished !== null) throw unfinishedCopyError(unfinished);
}

/**
 * Enters a run that could not begin, with its report. The stored identity and the work of a killed holder stay as they
 * are. Enters nothing where only a part of the connector is here, because that part does not count. Throws
 * `ConnectorBusyError` where another process holds the connector: then its run is the newest.
 */
export async function enterFailedStart(ledger: Ledger, report: RunReport, journal?: string): Promise<void> {
  const { connector, startedAt: since } = report;
  const holder = { pid: process.pid, host: hostname(), command: `a run of ${connector}`, since };
  await holdingOnce(ledger, connector, holder, async (tx) => {
    if ((await readUnfinishedCopy(tx, connector)) !== null) return;
    // A row without an identity; nothing where it has one.
    await tx.run(
      `INSERT INTO _sync_connectors (connector, base_url, connector_id, definition, definition_hash, epoch, holder)
       VALUES (:connector, '', '', '', '', 0, :holder) ON CONFLICT (connector) DO NOTHING`,
      { connector, holder: writeJson(holder) },
    );
    await insertFailedStart(tx, report, journal);
  });
}

/**
 * Holds the whole connector for a request of a person; its identity and its last holder stay as they are. Before a
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
  return await holding(ledger, connector, { holder }, (taken) => outsideRun(taken, work));
}

/** Holds the connector meanwhile. `check` runs in the transaction that takes it; absent: nothing is checked. */
export async function holding<Result>(
  ledger: Ledger,
  connector: ConnectorName,
  { holder, check }: { readonly holder: Holder; readonly check?: (tx: Tx) => Promise<void> },
  work: (taken: Taken) => Promise<Result>,
): Promise<Result> {
  const taken = await ledger.take(connector, holder, check ?? (async () => undefined));
  try {
    return await work(taken);
  } finally {
    await taken.release();
  }
}

/** One connector in a transaction that holds it. */
export interface Resetting {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
  readonly what: Pick<ResetScope, 'withData' | 'now'>;
}

export async function resetEntity(resetting: Resetting, entities: readonly EntityName[]) {
  const partitions = await readAgain(resetting, entities);
  return { partitions, rows: resetting.what.withData ? await dropRecords(resetting, entities) : 0 };
}

export async function resetConnector(resetting: Resetting, entities: readonly EntityName[]) {
  const { tx, connector, what } = resetting;
  const partitions = await readAgain(resetting, entities);
  await deleteOf(resetting, ['_sync_windows']);
  await forbidContinuing(tx, connector);
  if (!what.withData) return { partitions, rows: 0 };
  const rows = await dropRecords(resetting, entities);
  // A pause stays: it is a person's request, not progress.
  await forgetConnector(tx, connector);
  return { partitions, rows };
}

/** Begins a connector afresh that has no stored data, whatever was tried before under its name. */
async function beginAfresh(of: Pick<Resetting, 'tx' | 'records' | 'connector'> & Pick<ResetScope, 'now'>) {
  const { now, ...where } = of;
  const resetting: Resetting = { ...where, what: { withData: false, now } };
  const entities = await knownEntities(of.tx, of.connector);
  await resetConnector(resetting, entities);
  await dropRecords(resetting, entities);
}

/**
 * Makes the living partitions of the entities due from their start, and gives how many; their progress is discarded.
 * They are ready where an unfinished chain reads the entity, so that a run that resumes it walks them too.
 */
export async function readAgain(resetting: Resetting, entities: readonly EntityName[]): Promise<number> {
  const { tx, connector, what } = resetting;
  await transitions.dropUnfinished(tx, { connector, entities });
  await deleteOf(resetting, ['_sync_missing', '_sync_seen'], entities);
  await forgetHashes(tx, connector);
  // Rows stay known where they were shown, but an unfinished chain has no longer met them there.
  const forget = `UPDATE _sync_also SET origin = 0 WHERE connector = :connector AND entity IN {entities text}`;
  await tx.run(forget, { connector, entities });
  const newest = await cellOf<string>(
    tx,
    `SELECT scope FROM _sync_runs WHERE connector = :connector AND chain = '' ORDER BY number DESC LIMIT 1`,
    { connector },
  );
  const reading = newest === undefined ? [] : readScope.parse(readJson(newest)).entities;
  return await transitions.readAgain(tx, { connector, entities, now: what.now, reading });
}

const readScope = z.object({ entities: z.array(z.string()) });

const tablesOfRecords = [
  '_sync_tables',
  '_sync_versions',
  '_sync_hours',
  '_sync_also',
  '_sync_quarantine',
  '_sync_drift',
  '_sync_downloads',
  '_sync_retained',
  '_sync_masks',
];

/** Drops the records and the ledger's facts about them; returns their number. The partitions stay. */
async function dropRecords(resetting: Resetting, entities: readonly EntityName[]): Promise<number> {
  const { tx, records, connector } = resetting;
  if (entities.length === 0) return 0;
  const stored = await cellOf<number | null>(
    tx,
    `SELECT CAST(sum(rows) AS bigint) FROM _sync_tables WHERE connector = :connector AND entity IN {entities text}`,
    { connector, entities },
  );
  await records.drop(tx, connector, entities);
  await deleteOf(resetting, tablesOfRecords, entities);
  return stored ?? 0;
}

/** Every statement names the connector: nothing of another one is touched. Of all its entities where none are named. */
async function deleteOf(
  { tx, connector }: Resetting,
  tables: readonly string[],
  entities: readonly EntityName[] | null = null,
): Promise<void> {
  for (const table of tables) {
    const from = `DELETE FROM ${table} WHERE connector = :connector`;
    if (entities === null) await tx.run(from, { connector });
    else await tx.run(`${from} AND entity IN {entities text}`, { connector, entities });
  }
}

/** Tables that say which connectors and tables there are, and what waits for them. */
const otherTables = ['_sync_connectors', '_sync_tables', '_sync_pauses', '_sync_copies', '_sync_outbox'];
/** Tables of the ledger's facts about a connector, runs before their counts. */
export const factNames = ledgerTables.filter((name) => !otherTables.includes(name));

/** The rows of `:connector` in a table of the ledger. */
export function whichFacts(table: string): string {
  return table === '_sync_counts'
    ? 'run IN (SELECT run FROM _sync_runs WHERE connector = :connector)'
    : 'connector = :connector';
}

/**
 * Removes the ledger's facts about the connector, and the rows that identify it. Noted actions of people stay, and so
 * do the change counter and the notes of purged records, which would come back otherwise.
 */
export async function forgetConnector(tx: Tx, connector: ConnectorName, also: readonly string[] = []) {
  await dropFacts(tx, connector, ['_sync_actions', '_sync_purge_keys', '_sync_purged', '_sync_purge_work']);
  const small = ['_sync_tables', '_sync_connectors', '_sync_copies'];
  for (const table of [...small, ...also]) await clearFacts(tx, table, connector);
}

/** Removes the ledger's facts about the connector, except the tables `kept`. */
export async function dropFacts(tx: Tx, connector: ConnectorName, kept: readonly string[] = []) {
  for (const table of factNames.toReversed()) {
    if (!kept.includes(table)) await clearFacts(tx, table, connector);
  }
}

export async function clearFacts(tx: Tx, table: string, connector: ConnectorName): Promise<void> {
  if (table === '_sync_partitions') await transitions.dropConnector(tx, { connector });
  else await tx.run(`DELETE FROM ${table} WHERE ${whichFacts(table)}`, { connector });
}
