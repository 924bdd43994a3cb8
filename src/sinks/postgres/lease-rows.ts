import { randomUUID } from 'node:crypto';
import type { ConnectorName } from '../../core/names.ts';
import { ConnectorBusyError } from '../sink-errors.ts';
import type { LastCommits } from '../ledger/history/overview.ts';
import { parseHolder } from '../stored-json.ts';
import { columnOf, cellOf, type Tx } from '../../sql/database.ts';
import type { WriteTx } from '../../sql/postgres/server.ts';

/** Duration of a lease without renewal, by the server's clock. */
const lasting = "interval '30 seconds'";

interface TakenRow {
  readonly connector: ConnectorName;
  /** JSON. */
  readonly holder: string;
  /** Backend of the session that has the connector's lock; null: no session of this process has it. */
  readonly pid: number | null;
  /** Backend of the session that asked for the lease. */
  readonly sessionPid: number | null;
  readonly tokens: LastTokens;
}

/**
 * Raises the connector's epoch and writes its lease; returns the epoch. Waits for a commit of the previous holder.
 * Throws `ConnectorBusyError` while that holder is alive.
 */
export async function takeLease(tx: WriteTx, row: TakenRow): Promise<number> {
  const { connector, holder, pid, tokens } = row;
  // Check first without a lock, which would wait for the holder's commits.
  await checkFree(tx, row);
  await endTransaction(tx, connector);
  await tx.run(
    `INSERT INTO _sync_counters (connector, epoch, seq) VALUES (:connector, 0, 0) ON CONFLICT DO NOTHING`,
    { connector },
  );
  const raised = await cellOf<number>(
    tx,
    `UPDATE _sync_counters SET epoch = epoch + 1, last_commit = :token::uuid WHERE connector = :connector
     RETURNING epoch`,
    { connector, token: newToken(tx, connector, tokens) },
  );
  await checkFree(tx, row);
  const epoch = raised ?? 0;
  await tx.run(
    `INSERT INTO _sync_leases (connector, epoch, holder, until, backend_pid)
     VALUES (:connector, :epoch, :holder, clock_timestamp() + ${lasting}, :pid::integer)
     ON CONFLICT (connector) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, until = excluded.until,
       backend_pid = excluded.backend_pid`,
    { connector, epoch, holder, pid },
  );
  return epoch;
}

/**
 * Ends the transaction that the last holder has begun and does not continue. A server that waits for rows of a `COPY`
 * is not idle, and no timeout ends it: the connector would stay locked while that host hangs.
 */
async function endTransaction(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run(
    `SELECT pg_terminate_backend(session.pid)
     FROM _sync_counters AS counter JOIN pg_stat_activity AS session ON session.backend_xid = counter.xmax
     WHERE counter.connector = :connector AND session.usename = current_user
       AND session.xact_start < clock_timestamp() - interval '10 seconds'`,
    { connector },
  );
}

interface RunningLease {
  readonly holder: string;
  readonly backendPid: number | null;
  readonly isOfThisStart: boolean;
}

/**
 * A lease that has not run out is free where its holder had the connector's lock and this process has it now: that
 * session has ended. This does not hold where the server was restarted since, which ends every session, nor where both
 * locks are of one process of the server (a pooler).
 */
async function checkFree(tx: Tx, { connector, pid, sessionPid }: TakenRow): Promise<void> {
  const running = await tx.first<RunningLease>(
    `SELECT holder, backend_pid, until - ${lasting} > pg_postmaster_start_time() AS is_of_this_start
     FROM _sync_leases WHERE connector = :connector AND until > clock_timestamp()`,
    { connector },
  );
  if (running === undefined) return;
  const { holder, backendPid, isOfThisStart } = running;
  const wasKilled = pid !== null && backendPid !== null && backendPid !== sessionPid && isOfThisStart;
  if (!wasKilled) throw new ConnectorBusyError(connector, parseHolder(holder));
}

export type LeaseRow = Pick<TakenRow, 'connector' | 'pid'> & { readonly epoch: number };

/** Renews leases for their full length; gives the connectors of those that were not overtaken. */
export async function renewLeases(tx: Pick<Tx, 'rows'>, leases: readonly LeaseRow[]) {
  if (leases.length === 0) return new Set<ConnectorName>();
  const renewed = await columnOf<ConnectorName>(
    tx,
    `UPDATE _sync_leases AS lease SET until = clock_timestamp() + ${lasting}, backend_pid = own.pid
     FROM {own: connector text, epoch bigint, pid integer}
     WHERE lease.connector = own.connector AND lease.epoch = own.epoch RETURNING lease.connector`,
    { own: leases },
  );
  return new Set(renewed);
}

/** The newest change number of a connector. */
export async function newestSeq(tx: Tx, connector: ConnectorName): Promise<number> {
  const sql = `SELECT seq FROM _sync_counters WHERE connector = :connector`;
  return (await cellOf<number>(tx, sql, { connector })) ?? 0;
}

/** `ServedSink.lastCommits`. */
export async function lastCommits(tx: Tx): Promise<LastCommits> {
  return await tx.rows('SELECT connector, last_commit FROM _sync_counters');
}

/** Sets the change counter so that the next number is above `least`. */
export async function raiseSeq(tx: Tx, connector: ConnectorName, least: number): Promise<void> {
  const sql = `UPDATE _sync_counters SET seq = greatest(seq, :least::bigint) WHERE connector = :connector`;
  await tx.run(sql, { connector, least });
}

/** Ends a lease at once. */
export async function endLease(session: Pick<Tx, 'rows'>, lease: Omit<LeaseRow, 'pid'>): Promise<void> {
  await session.rows(
    `UPDATE _sync_leases SET until = clock_timestamp() WHERE connector = :connector AND epoch = :epoch`,
    lease,
  );
}

/**
 * Possible values of `last_commit` while the connector is held: the token of the holder's newest acknowledged commit,
 * and those of the transactions that it has tried since. With any other value, the server has lost an acknowledged
 * commit.
 */
export type LastTokens = Set<string>;

/**
 * Token that the transaction must write into the connector's counter, as `last_commit`. If its COMMIT is not answered,
 * the stored value shows whether it was stored. The row is read with a lock, which waits for the transaction where it
 * still runs.
 */
export function newToken(tx: WriteTx, connector: ConnectorName, tokens: LastTokens): string {
  const token = randomUUID();
  tokens.add(token);
  const sql = `SELECT last_commit = :token::uuid AS is_last FROM _sync_counters WHERE connector = :connector FOR UPDATE`;
  tx.proveBy(async (later) => (await cellOf(later, sql, { connector, token })) === true);
  return token;
}

/** The transaction with the newest token was stored. */
export function keepNewest(tokens: LastTokens): void {
  const newest = [...tokens].at(-1);
  tokens.clear();
  if (newest !== undefined) tokens.add(newest);
}

/** Numbers that a reader may have seen of commits which the server has lost. */
const lostNumbers = 2 ** 32;

/**
 * Overtakes the holder of `epoch` if the server was killed and has lost commits that it acknowledged to this holder
 * (without waiting for its disk). The holder relies on data that is lost. Change numbers continue above any that the
 * lost commits may have had. Returns true if so.
 */
export async function overtakeIfLost(
  tx: Tx,
  lease: Pick<TakenRow, 'connector' | 'tokens'> & { readonly epoch: number },
): Promise<boolean> {
  const raised = await tx.run(
    `UPDATE _sync_counters SET seq = seq + :lostNumbers, epoch = :epoch + 1
     WHERE connector = :connector AND epoch <= :epoch AND (last_commit = ANY(:tokens::uuid[])) IS NOT TRUE`,
    { ...lease, tokens: [...lease.tokens], lostNumbers },
  );
  return raised > 0;
}

/** Overtakes every holder in the schema `at`, because the lost commits of the server cannot be known. */
export async function overtakeAll(tx: Tx, at: string): Promise<void> {
  await tx.run(`UPDATE ${at}_sync_counters SET seq = seq + :lostNumbers, epoch = epoch + 1`, { lostNumbers });
}
