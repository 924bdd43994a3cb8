import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { ConnectorOverview, EntityFreshness, EntityMissing, RunFacts } from '../ledger-reader.ts';
import type { Pause } from '../lease.ts';
import { asOfByReports } from './migrations.ts';
import { versionOf } from './read-operations.ts';

type Identity = NonNullable<ConnectorOverview['identity']>;
interface Of {
  readonly connector: ConnectorName;
}

/** How all connectors stand: one statement for each kind of fact, made for each question, as the file may be migrated meanwhile. SQLite takes the numbers out of reports. */
export function readOverview(db: Database.Database): readonly ConnectorOverview[] {
  const version = versionOf(db);
  const identities = byConnector(
    db.prepare<[], Identity & Of>(
      'SELECT connector, definition, connector_id AS connectorId, base_url AS baseUrl FROM _sync_connectors',
    ),
  );
  const pauses = byConnector(
    version < firstWithPauses
      ? null
      : db.prepare<[], Pause & Of>('SELECT connector, since, reason FROM _sync_pauses'),
  );
  const lastRuns = new Map<ConnectorName, RunFacts>();
  const lastEnded = new Map<ConnectorName, RunFacts>();
  const ended = db.prepare<[ConnectorName], RunRow>(newestRunSql(version, 'AND report IS NOT NULL'));
  for (const { hasReport, ...run } of db.prepare<[], RunRow>(newestRunsSql(version)).all()) {
    lastRuns.set(run.connector, run);
    const found = hasReport === 1 ? run : ended.get(run.connector);
    if (found !== undefined) lastEnded.set(run.connector, found);
  }
  const freshness = grouped(
    db.prepare<[], EntityFreshness & Of>(
      `SELECT connector, entity, ${version < firstWithPauses ? asOfByReports : 'as_of'} AS asOf
       FROM _sync_tables ORDER BY connector, entity`,
    ),
  );
  const missing = grouped(db.prepare<[], EntityMissing & Of>(missingSql(version)));
  return [...new Set([...identities.keys(), ...pauses.keys()])].toSorted().map((connector) => ({
    connector,
    identity: identities.get(connector) ?? null,
    paused: pauses.get(connector) ?? null,
    lastRun: lastRuns.get(connector) ?? null,
    lastEnded: lastEnded.get(connector) ?? null,
    freshness: freshness.get(connector) ?? [],
    missing: missing.get(connector) ?? [],
  }));
}

/** Version 1 has neither pauses nor the column `as_of`. */
const firstWithPauses = 2;
/** Versions before know of syncs alone. */
const firstWithKinds = 3;

interface RunRow extends RunFacts {
  readonly hasReport: 0 | 1;
}

function runColumns(version: number): string {
  const kind = version < firstWithKinds ? "'sync'" : 'kind';
  return `run, ${kind} AS kind, run.connector AS connector, state, started_at AS startedAt, finished_at AS finishedAt,
    continues, report IS NOT NULL AS hasReport`;
}

/** The newest of kind `sync`; null where there was none. */
export function readLastRun(db: Database.Database, connector: ConnectorName): RunFacts | null {
  const version = versionOf(db);
  const found = db.prepare<[ConnectorName], RunRow>(newestRunSql(version, '')).get(connector);
  if (found === undefined) return null;
  const { hasReport: _hasReport, ...run } = found;
  return run;
}

/** A search in the index of runs for each connector: thousands of runs may be kept of each. */
function newestRunsSql(version: number): string {
  return `SELECT ${runColumns(version)} FROM _sync_connectors AS known
    JOIN _sync_runs AS run ON run.number = (${newestNumberSql(version, 'known.connector', '')})`;
}

function newestRunSql(version: number, which: string): string {
  return `SELECT ${runColumns(version)} FROM _sync_runs AS run WHERE run.number = (${newestNumberSql(version, '?', which)})`;
}

function newestNumberSql(version: number, connector: string, which: string): string {
  const ofKind = version < firstWithKinds ? '' : "AND kind = 'sync'";
  return `SELECT number FROM _sync_runs WHERE connector = ${connector} ${ofKind} ${which} ORDER BY number DESC LIMIT 1`;
}

/** Most reports have nothing missing: their text says so before it is taken apart. */
function missingSql(version: number): string {
  const rows = (name: string): string => `coalesce(json_extract(reported.value, '$.${name}'), 0)`;
  return `SELECT known.connector AS connector, json_extract(reported.value, '$.entity') AS entity,
      ${rows('withheld')} AS withheld, ${rows('pending')} AS pending
    FROM _sync_connectors AS known
      JOIN _sync_runs AS run ON run.number = (${newestNumberSql(version, 'known.connector', 'AND report IS NOT NULL')})
        AND (run.report GLOB '*"withheld":[1-9]*' OR run.report GLOB '*"pending":[1-9]*'),
      json_each(run.report, '$.entities') AS reported
    WHERE ${rows('withheld')} + ${rows('pending')} > 0`;
}

function byConnector<Row extends Of>(
  statement: Database.Statement<[], Row> | null,
): ReadonlyMap<ConnectorName, Row> {
  return new Map(statement?.all().map((row) => [row.connector, row]));
}

function grouped<Row extends Of & { readonly entity: EntityName }>(
  statement: Database.Statement<[], Row>,
): ReadonlyMap<ConnectorName, readonly Row[]> {
  const rows = new Map<ConnectorName, Row[]>();
  for (const row of statement.all()) {
    const known = rows.get(row.connector) ?? [];
    rows.set(row.connector, known);
    known.push(row);
  }
  return rows;
}
