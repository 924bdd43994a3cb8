import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import type { LedgerReader, RunFacts, RunSummary } from '../../ledger-reader.ts';
import { parseReport } from '../../stored-json.ts';

export const runColumns = 'run, kind, run.connector, state, started_at, finished_at, continues';

export interface RunRow extends RunFacts {
  readonly report: string | null;
}

export function runSummary({ report, ...run }: RunRow): RunSummary {
  return { ...run, report: report === null ? null : parseReport(report) };
}

export async function readRuns(
  tx: Tx,
  { connector, kind, limit }: Parameters<LedgerReader['runs']>[0],
): Promise<readonly RunSummary[]> {
  const which = [
    ...(connector === undefined ? [] : ['connector = :connector']),
    ...(kind === undefined ? [] : ['kind = :kind']),
  ];
  const where = which.length === 0 ? '' : `WHERE ${which.join(' AND ')}`;
  const runs = await tx.rows<RunRow>(
    `SELECT ${runColumns}, report FROM _sync_runs AS run ${where} ORDER BY number DESC LIMIT :limit`,
    { connector: connector ?? null, kind: kind ?? null, limit },
  );
  return runs.map(runSummary);
}

export async function readRun(tx: Tx, run: RunId): Promise<RunSummary | null> {
  const sql = `SELECT ${runColumns}, report FROM _sync_runs AS run WHERE run = :run`;
  const found = await tx.first<RunRow>(sql, { run });
  return found === undefined ? null : runSummary(found);
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
