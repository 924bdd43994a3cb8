import { accountingError } from '../../decisions/add-up.ts';
import { agreesWithStored, isChainOver, isDoubted, readWhole } from '../../decisions/end-run.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { RunReport } from '../../run-report.ts';
import { pruneDay } from '../day-account.ts';
import type { Commit } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { countsOfRun } from '../counts.ts';
import { dropSeen } from '../seen-rows.ts';
import { agreed, wasRead } from '../stored-rows.ts';
import { forgetPartitions, forgetRuns } from './forget.ts';
import { endRun, forbidContinuing } from './runs.ts';

/**
 * Ends the run: stores the report, prunes. When the report's counts are not those of the ledger the run is stored as
 * `failed`, and that is the error given.
 */
export async function finishRun(commit: Commit, report: RunReport): Promise<RunReport['error']> {
  const { held, current, tx, stamp } = commit;
  const { connector } = held;
  const wrong = accountingError(current.run, await countsOfRun(tx, current.run), report.entities);
  const stored = wrong === null ? report : { ...report, outcome: 'failed' as const, error: wrong };
  const { outcome: state, finishedAt, resumeAt } = stored;
  await noteDepthLimited(commit, stored);
  commit.ledger.lines?.end(connector);
  endRun(tx, current.run, { state, finishedAt, resumeAt, report: writeJson(stored) });
  if (isChainOver(stored)) {
    dropSeen(tx, connector, current.window);
    if (current.kind === 'sync') {
      await noteWhole(commit, stored);
      await forgetPartitions(commit);
    } else {
      await endWindow(commit, stored);
    }
  }
  if (isDoubted(stored)) await forbidContinuing(tx, connector);
  forgetRuns(commit);
  pruneDay(tx, connector, stamp.now);
  return wrong;
}

/** For the runs that resume this one: `_sync_counts` has the rest. */
async function noteDepthLimited({ current, tx }: Commit, { entities }: RunReport): Promise<void> {
  const reported = entities.filter(({ depthLimited }) => depthLimited > 0);
  if (reported.length === 0) return;
  await tx.run(
    `UPDATE _sync_counts AS counted SET depth_limited = reported.depth_limited
     FROM {reported: entity text, depth_limited bigint}
     WHERE counted.run = :run AND counted.entity = reported.entity`,
    { run: current.run, reported },
  );
}

async function endWindow(
  { held: { connector }, current: { run, window, backfill }, tx }: Commit,
  { outcome, finishedAt }: RunReport,
): Promise<void> {
  await transitions.dropWindow(tx, { connector, window });
  if (backfill === '' || outcome !== 'ok') return;
  await tx.run(
    `INSERT INTO _sync_windows (connector, backfill, "window", run, finished_at)
     VALUES (:connector, :backfill, :window, :run, :finishedAt)
     ON CONFLICT (connector, backfill, "window") DO UPDATE SET run = excluded.run, finished_at = excluded.finished_at`,
    { connector, backfill, window, run, finishedAt },
  );
}

async function noteWhole(
  { ledger, held: { connector }, current, tx }: Commit,
  report: RunReport,
): Promise<void> {
  const { run, isFull, tables, entities } = current;
  const agreeing = report.entities.filter((one) => agreesWithStored(one, isFull));
  agreed(
    tx,
    connector,
    agreeing.map(({ entity }) => entity),
  );
  const whole = readWhole(report, tables.keys(), entities);
  wasRead(tx, connector, run, whole);
  const read = whole.map(({ entity }) => entity);
  await ledger.lines?.giveUpLost(tx, connector, read);
}
