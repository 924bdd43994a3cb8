import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId } from '../../../core/names.ts';
import type { EarlierRun, NewRun } from '../../decisions/resume-run.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { RunOutcome, RunReport } from '../../run-report.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';

export async function newestRun(
  tx: Tx,
  connector: ConnectorName,
  window: string,
): Promise<EarlierRun | undefined> {
  return await tx.first<EarlierRun>(
    `SELECT run, origin, resume_at, scope, state, can_continue, is_full,
       EXISTS (SELECT 1 FROM _sync_counts AS counted WHERE counted.run = newest.run) AS has_stored,
       coalesce((
         SELECT coalesce(chain.resume_at, chain.started_at) FROM _sync_runs AS chain
         WHERE chain.connector = newest.connector AND chain.number >= newest.origin AND chain.origin = newest.origin
           AND (chain.number = chain.origin
             OR EXISTS (SELECT 1 FROM _sync_counts AS counted WHERE counted.run = chain.run))
         ORDER BY chain.number DESC LIMIT 1
       ), started_at) AS progress_at
     FROM _sync_runs AS newest WHERE connector = :connector AND chain = :window ORDER BY number DESC LIMIT 1`,
    { connector, window },
  );
}

/** When the chain's first run began. */
export async function chainStartedAt(tx: Tx, origin: number): Promise<Instant | undefined> {
  return await cellOf(tx, `SELECT started_at FROM _sync_runs WHERE number = :origin`, { origin });
}

/** Begins a chain, or resumes the one of `earlier`; gives the number of the chain's first run. */
export async function insertRun(tx: Tx, run: NewRun, earlier: EarlierRun | null): Promise<number> {
  const inserted = await cellOf<number>(
    tx,
    `INSERT INTO _sync_runs (run, connector, origin, scope, continues, can_continue, state, started_at, kind, chain, is_full)
     VALUES (:run, :connector, :origin, :scope, :continues, 1, 'running', :startedAt, :kind, :window, :isFull) RETURNING number`,
    { ...run, origin: earlier?.origin ?? 0, continues: earlier?.run ?? null },
  );
  if (earlier !== null) return earlier.origin;
  const number = inserted ?? 0;
  tx.put(`UPDATE _sync_runs SET origin = number WHERE number = :number`, { number });
  return number;
}

export function endRun(
  tx: Tx,
  run: RunId,
  end: {
    readonly state: RunOutcome;
    readonly finishedAt: Instant;
    readonly resumeAt: Instant | null;
    /** JSON. */
    readonly report: string;
  },
): void {
  tx.put(
    `UPDATE _sync_runs SET state = :state, finished_at = :finishedAt, resume_at = :resumeAt, report = :report
     WHERE run = :run`,
    { run, ...end },
  );
}

/** `chain` of runs that could not begin: no plan has it, so no run resumes them, and no chain of runs knows of them. */
const notBegun = '-';
export const hasBegun = `chain <> '${notBegun}'`;
/** Of a connector: a schedule that fails every minute must not push out the runs that have read something. */
const mostNotBegun = 100;

export async function insertFailedStart(tx: Tx, report: RunReport): Promise<void> {
  const { run, connector, kind, startedAt, finishedAt, outcome: state } = report;
  await insertRun(tx, { run, connector, kind, window: notBegun, isFull: false, startedAt, scope: '' }, null);
  endRun(tx, run, { state, finishedAt, resumeAt: null, report: writeJson(report) });
  tx.put(
    `DELETE FROM _sync_runs WHERE connector = :connector AND NOT ${hasBegun} AND number <= (
       SELECT number FROM _sync_runs WHERE connector = :connector AND NOT ${hasBegun}
       ORDER BY number DESC LIMIT 1 OFFSET :kept)`,
    { connector, kept: mostNotBegun },
  );
}

/** The run's connector where it is `running`, else null; the first request's time stays. */
export async function requestCancel(tx: Tx, run: RunId, now: Instant): Promise<ConnectorName | null> {
  const connector = await cellOf<ConnectorName>(
    tx,
    `UPDATE _sync_runs SET cancel_requested = coalesce(cancel_requested, :now) WHERE run = :run AND state = 'running'
     RETURNING connector`,
    { run, now },
  );
  return connector ?? null;
}

export async function interruptRunning(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run(
    `UPDATE _sync_runs SET state = 'interrupted' WHERE connector = :connector AND state = 'running'`,
    { connector },
  );
}

export async function forbidContinuing(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run(`UPDATE _sync_runs SET can_continue = 0 WHERE connector = :connector`, { connector });
}
