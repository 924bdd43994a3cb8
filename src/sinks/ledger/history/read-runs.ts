import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { IdentityDoubt, RunFacts, RunFilter, RunSummary, ScopeChange } from '../../ledger-reader.ts';
import { parseReport, parseScope } from '../../stored-json.ts';
import { grouped } from '../../../core/grouped.ts';
import { hasBegun } from '../runs/runs.ts';
import { hasWritten } from '../counts.ts';

export const runColumns = 'run, kind, run.connector, state, started_at, finished_at, continues';

export interface RunRow extends RunFacts {
  readonly report: string | null;
}

export function runSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

/** Runs, newest first. */
export async function readRuns(
  tx: Tx,
  { connector, kind, state, limit }: RunFilter,
): Promise<readonly RunSummary[]> {
  const which = [
    ...(connector === undefined ? [] : ['connector = :connector']),
    ...(kind === undefined ? [] : ['kind = :kind']),
    ...(state === undefined ? [] : ['state = :state']),
  ];
  const where = which.length === 0 ? '' : `WHERE ${which.join(' AND ')}`;
  const runs = await tx.rows<RunRow>(
    `SELECT ${runColumns}, report FROM _sync_runs AS run ${where} ORDER BY number DESC LIMIT :limit`,
    { connector: connector ?? null, kind: kind ?? null, state: state ?? null, limit },
  );
  return runs.map(runSummary);
}

/**
 * The newest runs of each of these connectors, newest first, without their reports, which may be long. One search in
 * the index of runs for each connector.
 */
export async function readRecentRuns(
  tx: Tx,
  connectors: readonly ConnectorName[],
  limit: number,
): Promise<ReadonlyMap<ConnectorName, readonly RunFacts[]>> {
  const runs = await tx.rows<RunFacts>(
    `SELECT ${runColumns} FROM {v: connector text}
       JOIN _sync_runs AS run ON run.connector = v.connector AND run.number >= coalesce((
         SELECT number FROM _sync_runs AS one WHERE one.connector = v.connector
         ORDER BY number DESC LIMIT 1 OFFSET :before), 0)
     ORDER BY number DESC`,
    { v: connectors.map((connector) => ({ connector })), before: limit - 1 },
  );
  return grouped(runs, ({ connector }) => connector);
}

export async function readRun(tx: Tx, run: RunId): Promise<RunSummary | null> {
  const sql = `SELECT ${runColumns}, report FROM _sync_runs AS run WHERE run = :run`;
  const found = await tx.first<RunRow>(sql, { run });
  return found === undefined ? null : runSummary(found);
}

/** The newest syncs that read something else than the sync before, newest first. */
export async function readScopeChanges(
  tx: Tx,
  connector: ConnectorName,
  limit: number,
): Promise<readonly ScopeChange[]> {
  const changes = await tx.rows<{ run: RunId; startedAt: Instant; scope: string; before: string }>(
    `SELECT run, started_at, scope, before FROM (
       SELECT run, started_at, scope, number, lag(scope) OVER (ORDER BY number) AS before
       FROM _sync_runs WHERE connector = :connector AND kind = 'sync' AND ${hasBegun}
     ) AS run WHERE scope <> before ORDER BY number DESC LIMIT :limit`,
    { connector, limit },
  );
  return changes.map(({ run, startedAt, scope, before }) => {
    const [now, then] = [parseScope(scope), parseScope(before)];
    return {
      run,
      at: startedAt,
      isOtherDefinition: now.definition !== then.definition,
      added: now.entities.filter((entity) => !then.entities.includes(entity)),
      removed: then.entities.filter((entity) => !now.entities.includes(entity)),
    };
  });
}

/** Runs that seem to have read another account, newest first, until that is settled. */
export async function readDoubts(
  tx: Tx,
  connectors: readonly ConnectorName[],
): Promise<readonly IdentityDoubt[]> {
  const found = await tx.rows<Pick<IdentityDoubt, 'connector' | 'run'> & { readonly settled: number | null }>(
    `WITH doubted AS (
       SELECT DISTINCT run.connector, run.run, run.number, CASE
           WHEN NOT ${hasWritten} THEN run.number
           ELSE (SELECT max(undo.number) FROM _sync_actions AS act JOIN _sync_runs AS undo ON undo.run = act.run
             WHERE act.connector = run.connector AND act.action = 'undo' AND undo.state = 'ok'
               AND act.detail LIKE '%"' || run.run || '"%') END AS settled
       FROM _sync_runs AS failed JOIN _sync_runs AS run
         ON run.connector = failed.connector AND run.origin = failed.origin AND run.number <= failed.number
       WHERE failed.connector IN {connectors text} AND failed.state = 'failed'
         AND failed.report LIKE '%"code":"IDENTITY_CHANGED"%' AND (run.number = failed.number OR ${hasWritten})
         AND NOT EXISTS (SELECT 1 FROM _sync_actions AS act
           WHERE act.connector = failed.connector AND act.action = 'adopt' AND act.at >= failed.finished_at))
     SELECT connector, run, settled FROM doubted
     WHERE settled IS NULL OR NOT EXISTS (SELECT 1 FROM _sync_runs AS good
       WHERE good.connector = doubted.connector AND good.number > doubted.settled AND good.kind = 'sync'
         AND good.state IN ('ok', 'degraded'))
     ORDER BY number DESC`,
    { connectors },
  );
  return found.map(({ settled, ...doubt }) => ({ ...doubt, isToUndo: settled === null }));
}

/** The newest of kind `sync`; null where there was none. */
export async function readLastRun(tx: Tx, connector: ConnectorName): Promise<RunFacts | null> {
  const found = await tx.first<RunFacts>(
    `SELECT ${runColumns} FROM _sync_runs AS run WHERE connector = :connector AND kind = 'sync'
     ORDER BY number DESC LIMIT 1`,
    { connector },
  );
  return found ?? null;
}

/**
 * The newest of kind `sync` of each connector. One search in the index of runs for each: thousands of runs may be kept.
 */
export function newestRunsSql(columns: string, which = ''): string {
  return `SELECT ${columns} FROM _sync_connectors AS known JOIN _sync_runs AS run ON run.number = (
    SELECT number FROM _sync_runs AS one WHERE one.connector = known.connector AND one.kind = 'sync' ${which}
    ORDER BY number DESC LIMIT 1)`;
}
