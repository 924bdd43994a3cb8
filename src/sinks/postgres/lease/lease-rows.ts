import type { ConnectorName } from '../../../core/names.ts';
import { ConnectorBusyError } from '../../acquire-errors.ts';
import { parseHolder } from '../../stored-json.ts';
import type { Tx as AnyTx } from '../../../sql/database.ts';
import type { LeaseSession } from './lease-session.ts';
import type { WriteTx } from '../../../sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../../sql/postgres/session.ts';
import { newToken, type LastTokens } from '../stored-token.ts';

/** So long a lease lasts that nobody renews, by the server's clock. */
const lasting = "interval '30 seconds'";

export interface TakenRow {
  readonly connector: ConnectorName;
  /** JSON. */
  readonly holder: string;
  /** Of the session that has the connector's lock; null: none of this process has. */
  readonly pid: number | null;
  /** Of the session that asked for it. */
  readonly sessionPid: number | null;
  readonly tokens: LastTokens;
}

/**
 * Raises the connector's epoch and writes its lease; gives the epoch. Waits for a commit of the one that held it.
 * Throws `ConnectorBusyError` while that one lives.
 */
export async function takeLease(tx: WriteTx, at: string, row: TakenRow): Promise<number> {
  const { connector, holder, pid, tokens } = row;
  // Asked first without a lock, which would wait for the holder's commits.
  await checkFree(tx, at, row);
  await endTransaction(tx, at, connector);
  await tx.run(
    `INSERT INTO ${at}_sync_counters (connector, epoch, seq) VALUES (:connector, 0, 0) ON CONFLICT DO NOTHING`,
    { connector },
  );
  const raised = await tx.first<{ epoch: number }>(
    `UPDATE ${at}_sync_counters SET epoch = epoch + 1, last_commit = :token::uuid WHERE connector = :connector
     RETURNING epoch`,
    { connector, token: newToken(tx, at, connector, tokens) },
  );
  await checkFree(tx, at, row);
  const epoch = raised?.epoch ?? 0;
  await tx.run(
    `INSERT INTO ${at}_sync_leases (connector, epoch, holder, until, backend_pid)
     VALUES (:connector, :epoch, :holder, clock_timestamp() + ${lasting}, :pid::integer)
     ON CONFLICT (connector) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, until = excluded.until,
       backend_pid = excluded.backend_pid`,
    { connector, epoch, holder, pid },
  );
  return epoch;
}

/**
 * Ends what the last holder has begun and does not go on with. A server that waits for rows of a `COPY` is not idle,
 * and no timeout ends it: the connector would stay locked for as long as that host hangs.
 */
async function endTransaction(tx: Tx, at: string, connector: ConnectorName): Promise<void> {
  await tx.run(
    `SELECT pg_terminate_backend(session.pid)
     FROM ${at}_sync_counters AS counter JOIN pg_stat_activity AS session ON session.backend_xid = counter.xmax
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
 * session is gone. Not believed where the server was restarted since, which ends every session, nor where both locks
 * are of one process of the server (a pooler).
 */
async function checkFree(tx: Tx, at: string, { connector, pid, sessionPid }: TakenRow): Promise<void> {
  const running = await tx.first<RunningLease>(
    `SELECT holder, backend_pid, until - ${lasting} > pg_postmaster_start_time() AS is_of_this_start
     FROM ${at}_sync_leases WHERE connector = :connector AND until > clock_timestamp()`,
    { connector },
  );
  if (running === undefined) return;
  const { holder, backendPid, isOfThisStart } = running;
  const wasKilled = pid !== null && backendPid !== null && backendPid !== sessionPid && isOfThisStart;
  if (!wasKilled) throw new ConnectorBusyError(connector, parseHolder(holder));
}

/** Makes leases last as long again; gives the connectors of those that were not overtaken. */
export async function renewLeases(
  { rows }: Pick<Tx, 'rows'>,
  at: string,
  leases: readonly {
    readonly connector: ConnectorName;
    readonly epoch: number;
    readonly pid: number | null;
  }[],
): Promise<ReadonlySet<ConnectorName>> {
  if (leases.length === 0) return new Set();
  const renewed = await rows<{ connector: ConnectorName }>(
    `UPDATE ${at}_sync_leases AS lease SET until = clock_timestamp() + ${lasting}, backend_pid = own.pid
     FROM unnest(:connectors::text[], :epochs::bigint[], :pids::integer[]) AS own(connector, epoch, pid)
     WHERE lease.connector = own.connector AND lease.epoch = own.epoch RETURNING lease.connector`,
    {
      connectors: leases.map(({ connector }) => connector),
      epochs: leases.map(({ epoch }) => epoch),
      pids: leases.map(({ pid }) => pid),
    },
  );
  return new Set(renewed.map(({ connector }) => connector));
}

/** The newest change number of a connector. */
export async function newestSeq(tx: AnyTx, connector: ConnectorName): Promise<number> {
  const found = await tx.first<{ readonly seq: number }>(
    `SELECT seq FROM _sync_counters WHERE connector = :connector`,
    { connector },
  );
  return found?.seq ?? 0;
}

/** Its next one is above `least`. */
export async function raiseSeq(
  tx: AnyTx,
  at: string,
  connector: ConnectorName,
  least: number,
): Promise<void> {
  await tx.run(
    `UPDATE ${at}_sync_counters SET seq = greatest(seq, :least::bigint) WHERE connector = :connector`,
    { connector, least },
  );
}

/** Ends a lease at once. */
export async function endLease(
  session: Pick<LeaseSession, 'rows'>,
  at: string,
  lease: { readonly connector: ConnectorName; readonly epoch: number },
): Promise<void> {
  await session.rows(
    `UPDATE ${at}_sync_leases SET until = clock_timestamp() WHERE connector = :connector AND epoch = :epoch`,
    lease,
  );
}
