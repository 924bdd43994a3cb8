import { instant, type Instant } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { newForMs } from '../../drift.ts';
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
import { grouped } from '../../../core/grouped.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { readAcknowledged, readFieldNews } from '../drift/field-news.ts';
import { readPurgeWork } from '../purges/complete-steps.ts';
import { readWithheld } from '../purges/retained.ts';
import { hasBegun } from '../runs/runs.ts';
import { newestRunsSql, runColumns } from './read-runs.ts';

interface Of {
  readonly connector: ConnectorName;
}

type Reported = Pick<
  ConnectorOverview,
  'missing' | 'partMissing' | 'unconfirmed' | 'error' | 'failures' | 'quarantined' | 'resumeAt'
>;

const nothingReported: Reported = {
  missing: [],
  partMissing: [],
  unconfirmed: [],
  error: null,
  failures: [],
  quarantined: 0,
  resumeAt: null,
};

/**
 * The states of all connectors, or of `only` these. One statement for each kind of fact, whatever the number of
 * connectors; only those reports are read that say more than "everything is fine".
 */
export async function readOverview(
  tx: Tx,
  only?: readonly ConnectorName[],
): Promise<readonly ConnectorOverview[]> {
  const which = only === undefined ? '' : 'WHERE connector IN {only text}';
  const of = only === undefined ? {} : { only };
  const identities = await tx.rows<StoredIdentity & Of>(
    `SELECT connector, definition, connector_id, base_url FROM _sync_connectors ${which}`,
    of,
  );
  const identityOf = byConnector(
    identities.map(({ connector, ...identity }) => ({
      connector,
      identity: identity.baseUrl === '' ? null : identity,
    })),
  );
  const pauses = byConnector(await readPauses(tx, only));
  const { lastRuns, ended } = await readNewestRuns(tx, only);
  const tables = grouped(
    await tx.rows<EntityFreshness & Of & { readonly rows: number }>(
      `SELECT connector, entity, as_of, rows - deleted AS rows FROM _sync_tables ${which} ORDER BY connector, entity`,
      of,
    ),
    ({ connector }) => connector,
  );
  const reported = await readReports(tx, only);
  const news = await readFieldNews(tx, await newSince(tx), only);
  const isAcknowledged = await readAcknowledged(
    tx,
    news.map(({ connector }) => connector),
  );
  const newFields = grouped(
    news.filter((one) => !isAcknowledged(one)),
    ({ connector }) => connector,
  );
  const withheldByAge = await readWithheld(tx, only);
  const purgeWork = await readPurgeWork(tx, only);
  return [...new Set([...identityOf.keys(), ...pauses.keys()])]
    .toSorted()
    .map((connector): ConnectorOverview => {
      const ofTables = tables.get(connector) ?? [];
      return {
        connector,
        identity: identityOf.get(connector)?.identity ?? null,
        paused: pauses.get(connector) ?? null,
        lastRun: lastRuns.get(connector) ?? null,
        lastEnded: ended.get(connector) ?? null,
        freshness: ofTables,
        rows: ofTables.reduce((sum, { rows }) => sum + rows, 0),
        ...(reported.get(connector) ?? nothingReported),
        newFields: newFields.get(connector) ?? [],
        withheldByAge: withheldByAge.get(connector) ?? [],
        purgeWork: purgeWork.filter((one) => one.connector === connector),
      };
    });
}

/** By the time of the newest run, so that one pass stays cheap where many fields have long been known. */
async function newSince(tx: Tx): Promise<Instant> {
  const newest = await cellOf<Instant>(
    tx,
    'SELECT started_at FROM _sync_runs ORDER BY number DESC LIMIT 1',
    {},
  );
  return newest === undefined ? '' : instant(Date.parse(newest) - newForMs);
}

/** Most connectors are not running: their newest run is the newest that ended. */
async function readNewestRuns(tx: Tx, asked: readonly ConnectorName[] | undefined) {
  const newest = await tx.rows<RunFacts & { readonly hasReport: boolean }>(
    `${newestRunsSql(`${runColumns}, run.report IS NOT NULL AS has_report`)}
     ${asked === undefined ? '' : 'WHERE known.connector IN {asked text}'}`,
    asked === undefined ? {} : { asked },
  );
  const lastRuns = byConnector(newest.map(({ hasReport: _hasReport, ...run }): RunFacts => run));
  const ended = new Map(
    newest.flatMap(({ connector, hasReport }) => {
      const run = lastRuns.get(connector);
      return hasReport && run !== undefined ? [[connector, run] as const] : [];
    }),
  );
  const only = newest.flatMap(({ connector, hasReport }) => (hasReport ? [] : [connector]));
  const earlier = await tx.rows<RunFacts>(
    `${newestRunsSql(runColumns, 'AND one.report IS NOT NULL')} WHERE known.connector IN {only text}`,
    { only },
  );
  return { lastRuns, ended: new Map([...ended, ...byConnector(earlier)]) };
}

const isWorthReading = `(run.state <> 'ok' OR run.report LIKE '%"partMissing":[{%'
  OR run.report LIKE '%"unconfirmed":[{%'
  OR replace(run.report, '"withheld":0', '') LIKE '%"withheld":%'
  OR replace(run.report, '"pending":0', '') LIKE '%"pending":%'
  OR replace(run.report, '"quarantined":0', '') LIKE '%"quarantined":%')`;

/** From the newest reports: most hold nothing of the kind, and their text shows that before it is parsed. */
async function readReports(
  tx: Tx,
  only: readonly ConnectorName[] | undefined,
): Promise<ReadonlyMap<ConnectorName, Reported>> {
  const which = only === undefined ? '' : 'AND known.connector IN {only text}';
  const of = only === undefined ? {} : { only };
  const reported = new Map<ConnectorName, Reported>();
  const newest = (among: string, where: string) =>
    tx.rows<Of & { readonly report: string }>(
      `${newestRunsSql('run.connector, run.report', `AND one.report IS NOT NULL ${among}`)} WHERE ${where} ${which}`,
      of,
    );
  for (const { connector, report } of await newest(`AND ${hasBegun}`, isWorthReading)) {
    reported.set(connector, reportedIn(parseReport(report)));
  }
  // A run that could not begin says nothing of the records: what the one before it found still holds.
  for (const { connector, report } of await newest('', `NOT ${hasBegun}`)) {
    const { error } = parseReport(report);
    const before = reported.get(connector) ?? nothingReported;
    reported.set(connector, { ...before, error, failures: [], resumeAt: null });
  }
  return reported;
}

function reportedIn({ entities, partMissing, unconfirmed, error, failures, resumeAt }: RunReport): Reported {
  return {
    missing: entities
      .map(({ entity, withheld, pending }): EntityMissing => ({ entity, withheld, pending }))
      .filter(({ withheld, pending }) => withheld + pending > 0),
    partMissing: partMissing.map(({ entity, listings }) => ({ entity, listings })),
    unconfirmed,
    error,
    failures: [...new Map(failures.map(({ code, recovery }) => [code, { code, recovery }])).values()],
    quarantined: entities.reduce((sum, { counts }) => sum + counts.quarantined, 0),
    resumeAt,
  };
}

export async function readPauses(
  tx: Tx,
  only?: readonly ConnectorName[],
): Promise<readonly PausedConnector[]> {
  const which = only === undefined ? '' : 'WHERE connector IN {only text}';
  return await tx.rows(
    `SELECT connector, since, reason FROM _sync_pauses ${which} ORDER BY connector`,
    only === undefined ? {} : { only },
  );
}

export async function readPause(tx: Tx, connector: ConnectorName): Promise<PausedConnector | null> {
  const sql = `SELECT connector, since, reason FROM _sync_pauses WHERE connector = :connector`;
  return (await tx.first<PausedConnector>(sql, { connector })) ?? null;
}

/** How old each entity's records are at most; entities that were never begun are left out. */
export async function readFreshness(tx: Tx, connector: ConnectorName): Promise<readonly EntityFreshness[]> {
  const sql = `SELECT entity, as_of FROM _sync_tables WHERE connector = :connector ORDER BY entity`;
  return await tx.rows(sql, { connector });
}

export function byConnector<Row extends Of>(rows: readonly Row[]): ReadonlyMap<ConnectorName, Row> {
  return new Map(rows.map((row) => [row.connector, row]));
}
