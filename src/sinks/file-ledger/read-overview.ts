import type Database from 'better-sqlite3';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import type { ConnectorOverview, EntityFreshness, EntityMissing, RunFacts } from '../ledger-reader.ts';
import { asOfSql, readPauses, newestNumberSql, readLastRun, runColumns } from './read-runs.ts';

type Identity = NonNullable<ConnectorOverview['identity']>;
interface Of {
  readonly connector: ConnectorName;
}

/** How all connectors stand: one statement for each kind of fact, made for each question, as the file may be migrated meanwhile. SQLite takes the numbers out of reports. */
export function readOverview(db: Database.Database): readonly ConnectorOverview[] {
  const known = db.prepare<[], Identity & Of>(
    'SELECT connector, definition, connector_id AS connectorId, base_url AS baseUrl FROM _sync_connectors',
  );
  const identities = new Map(known.all().map((row) => [row.connector, row]));
  const pauses = new Map(readPauses(db).map((row) => [row.connector, row]));
  const lastRuns = new Map<ConnectorName, RunFacts>();
  const lastEnded = new Map<ConnectorName, RunFacts>();
  for (const { hasReport, ...run } of db.prepare<[], RunRow>(newestRunsSql(db)).all()) {
    lastRuns.set(run.connector, run);
    const ended = hasReport === 1 ? run : readLastRun(db, run.connector, 'AND report IS NOT NULL');
    if (ended !== null) lastEnded.set(run.connector, ended);
  }
  const freshness = grouped(
    db.prepare<[], EntityFreshness & Of>(
      `SELECT connector, entity, ${asOfSql(db)} AS asOf FROM _sync_tables ORDER BY connector, entity`,
    ),
  );
  const missing = grouped(db.prepare<[], EntityMissing & Of>(missingSql(db)));
  const unproven = grouped(db.prepare<[], ConnectorOverview['unproven'][number] & Of>(unprovenSql(db)));
  return [...new Set([...identities.keys(), ...pauses.keys()])].toSorted().map((connector) => ({
    connector,
    identity: identities.get(connector) ?? null,
    paused: pauses.get(connector) ?? null,
    lastRun: lastRuns.get(connector) ?? null,
    lastEnded: lastEnded.get(connector) ?? null,
    freshness: freshness.get(connector) ?? [],
    missing: missing.get(connector) ?? [],
    unproven: unproven.get(connector) ?? [],
  }));
}

interface RunRow extends RunFacts {
  readonly hasReport: 0 | 1;
}

function newestRunsSql(db: Database.Database): string {
  return `SELECT ${runColumns(db)}, report IS NOT NULL AS hasReport FROM _sync_runs
    WHERE number IN (SELECT (${newestNumberSql(db, 'known.connector')}) FROM _sync_connectors AS known)`;
}

/** Most reports have nothing missing: their text says so before it is taken apart. */
function missingSql(db: Database.Database): string {
  const rows = (name: string): string => `coalesce(json_extract(reported.value, '$.${name}'), 0)`;
  return `SELECT known.connector AS connector, json_extract(reported.value, '$.entity') AS entity,
      ${rows('withheld')} AS withheld, ${rows('pending')} AS pending
    FROM _sync_connectors AS known
      JOIN _sync_runs AS run ON run.number = (${newestNumberSql(db, 'known.connector', 'AND report IS NOT NULL')})
        AND (run.report GLOB '*"withheld":[1-9]*' OR run.report GLOB '*"pending":[1-9]*'),
      json_each(run.report, '$.entities') AS reported
    WHERE ${rows('withheld')} + ${rows('pending')} > 0`;
}

function unprovenSql(db: Database.Database): string {
  return `SELECT known.connector AS connector, json_extract(listed.value, '$.entity') AS entity,
      json_extract(listed.value, '$.listings') AS listings
    FROM _sync_connectors AS known
      JOIN _sync_runs AS run ON run.number = (${newestNumberSql(db, 'known.connector', 'AND report IS NOT NULL')})
        AND run.report LIKE '%"unproven":[{%',
      json_each(run.report, '$.unproven') AS listed`;
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
