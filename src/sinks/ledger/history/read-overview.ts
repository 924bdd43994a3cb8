import type { ConnectorName } from '../../../core/names.ts';
import { parseReport } from '../../stored-json.ts';
import type {
  ConnectorOverview,
  EntityFreshness,
  EntityMissing,
  PausedConnector,
  RunFacts,
} from '../../ledger-reader.ts';
import type { StoredIdentity } from '../../lease.ts';
import type { RunReport } from '../../run-report.ts';
import { grouped } from '../grouped.ts';
import type { Tx } from '../../../sql/database.ts';
import { newestRunsSql, runColumns } from './read-runs.ts';

interface Of {
  readonly connector: ConnectorName;
}

/**
 * The states of all connectors. One statement for each kind of fact, whatever the number of connectors; only those
 * reports are read in which something is missing.
 */
export async function readOverview(tx: Tx): Promise<readonly ConnectorOverview[]> {
  const identities = await tx.rows<StoredIdentity & Of>(
    `SELECT connector, definition, connector_id, base_url FROM _sync_connectors`,
  );
  const identityOf = byConnector(identities.map(({ connector, ...identity }) => ({ connector, identity })));
  const pauses = byConnector(await readPauses(tx));
  const lastRuns = byConnector(await tx.rows<RunFacts>(newestRunsSql(runColumns)));
  const ended = byConnector(await tx.rows<RunFacts>(newestRunsSql(runColumns, 'AND one.report IS NOT NULL')));
  const freshness = grouped(
    await tx.rows<EntityFreshness & Of>(
      `SELECT connector, entity, as_of FROM _sync_tables ORDER BY connector, entity`,
    ),
    ({ connector }) => connector,
  );
  const missing = await readReports(tx, somethingMissing, ({ entities }) =>
    entities
      .map(({ entity, withheld, pending }): EntityMissing => ({ entity, withheld, pending }))
      .filter(({ withheld, pending }) => withheld + pending > 0),
  );
  const unproven = await readReports(tx, `run.report LIKE '%"unproven":[{%'`, (report) =>
    report.unproven.map(({ entity, listings }) => ({ entity, listings })),
  );
  return [...new Set([...identityOf.keys(), ...pauses.keys()])].toSorted().map((connector) => ({
    connector,
    identity: identityOf.get(connector)?.identity ?? null,
    paused: pauses.get(connector) ?? null,
    lastRun: lastRuns.get(connector) ?? null,
    lastEnded: ended.get(connector) ?? null,
    freshness: freshness.get(connector) ?? [],
    missing: missing.get(connector) ?? [],
    unproven: unproven.get(connector) ?? [],
  }));
}

const somethingMissing = `(replace(run.report, '"withheld":0', '') LIKE '%"withheld":%' OR replace(run.report, '"pending":0', '') LIKE '%"pending":%')`;

/** From the newest reports: most hold nothing of the kind, and their text shows that before it is parsed. */
async function readReports<Said>(
  tx: Tx,
  which: string,
  read: (report: RunReport) => readonly Said[],
): Promise<ReadonlyMap<ConnectorName, readonly Said[]>> {
  const reports = await tx.rows<Of & { readonly report: string }>(
    `${newestRunsSql('run.connector, run.report', 'AND one.report IS NOT NULL')} WHERE ${which}`,
  );
  return new Map(reports.map(({ connector, report }) => [connector, read(parseReport(report))]));
}

export async function readPauses(tx: Tx): Promise<readonly PausedConnector[]> {
  return await tx.rows(`SELECT connector, since, reason FROM _sync_pauses ORDER BY connector`);
}

export async function readPause(tx: Tx, connector: ConnectorName): Promise<PausedConnector | null> {
  const sql = `SELECT connector, since, reason FROM _sync_pauses WHERE connector = :connector`;
  return (await tx.first<PausedConnector>(sql, { connector })) ?? null;
}

export async function readFreshness(tx: Tx, connector: ConnectorName): Promise<readonly EntityFreshness[]> {
  const sql = `SELECT entity, as_of FROM _sync_tables WHERE connector = :connector ORDER BY entity`;
  return await tx.rows(sql, { connector });
}

function byConnector<Row extends Of>(rows: readonly Row[]): ReadonlyMap<ConnectorName, Row> {
  return new Map(rows.map((row) => [row.connector, row]));
}
