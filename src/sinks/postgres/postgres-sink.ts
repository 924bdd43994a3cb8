import { cellOf, type TransactHow } from '../../sql/database.ts';
import type { OpenHow, Sink } from '../sink-access.ts';
import { processUser } from '../requests.ts';
import { changeNumbers, numbered, valuedTables, type Taken } from '../ledger/driver.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { ledgerSink } from '../ledger/ledger-sink.ts';
import * as leaseRows from './lease-rows.ts';
import {
  openLedger,
  type OpenedSchema,
  type PostgresPlace,
  findSink,
  timelineSql,
  toSinkError,
} from './postgres-schema.ts';
import { postgresTables } from './postgres-tables.ts';
import { systemClock, instant } from '../../core/clock.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { SyncError } from '../../core/errors.ts';
import { ConnectorBusyError, lostCommitsError, overtakenError, releasedError } from '../sink-errors.ts';
import type { Holder } from '../lease.ts';
import { writeJson } from '../../core/json.ts';
import type { Server, WriteTx } from '../../sql/postgres/server.ts';
import { openTurns } from '../../sql/turns.ts';
import { lostConnection, failingOf } from '../../sql/postgres/postgres-error.ts';
import { keepalives } from '../../sql/postgres/connections.ts';
import { settingSql, txOn, type PostgresTx as Tx } from '../../sql/postgres/session.ts';
import { readSettingsIn } from '../../sql/postgres/transaction-settings.ts';

/** A sink in a schema of a PostgreSQL server. */
export async function openPostgresSink(place: PostgresPlace, how: OpenHow): Promise<Sink> {
  return ledgerSink(postgresLedger(await openLedger(place, how), how.who));
}

export function postgresLedger(opened: OpenedSchema, who = processUser()): Ledger {
  const { server, schema, clock, sinkId } = opened;
  const leases = openLeases(opened);
  return {
    db: server,
    clock,
    who,
    sinkId,
    records: postgresTables(schema),
    // A transaction costs a dozen round trips, whatever its size.
    deletedAtOnce: 20_000,
    take: leases.take,
    isInPlace: async () => {
      try {
        return (await server.read(async (tx) => await findSink(tx, schema, server.place)))?.sinkId === sinkId;
      } catch {
        return false; // Opening it again reports what is wrong there.
      }
    },
    // The table's lock keeps others from taking a number in between.
    reserveNumbers: async (tx, of, count) => {
      const { table, column } = numbered[of];
      if (count === 0) {
        return (await cellOf<number>(tx, `SELECT last_value FROM ${table}_${column}_seq`)) ?? 0;
      }
      await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
      const sequence = `pg_get_serial_sequence('${table}', '${column}')`;
      const sql = `SELECT setval(${sequence}, nextval(${sequence}) + :count)`;
      return ((await cellOf<number>(tx, sql, { count })) ?? 0) - count;
    },
    newestSeq: leaseRows.newestSeq,
    raiseSeq: leaseRows.raiseSeq,
    alone: async (tx, table) => {
      await tx.run(`LOCK TABLE ${table} IN SHARE ROW EXCLUSIVE MODE`);
      return (
        (await cellOf<number>(tx, 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint')) ??
        clock.now()
      );
    },
    giveBack: (tables) => server.vacuum([...tables, ...valuedTables]),
    [Symbol.asyncDispose]: async () => {
      await leases[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

const renewMs = 8_000;
const retryMs = 1_000;
/** Short of the time after which another may take it. */
const believedMs = 20_000;
/** The server notices within some milliseconds that a process was killed. */
const lockTries = 10;
const lockPauseMs = 50;

/**
 * The leases that this process has in the sink. Each is a row with its end, by the server's clock, and a lock of the
 * session. The row alone counts where the lock is unavailable; the lock shows at once that its holder was killed.
 */
export function openLeases(opened: OpenedSchema) {
  const { server, schema, sinkId } = opened;
  const own = new Map<ConnectorName, OwnLease>();
  const session = keepLeaseSession(server, schema, () => renewals.soon());
  const renewals = openRenewals(own, session.current);
  const releases = new Set<() => Promise<void>>();
  server.afterLoss(async (found) => await overtakeLost(own, found));

  const drop = (lease: OwnLease): void => {
    own.delete(lease.connector);
    if (own.size === 0) renewals.end();
  };
  const held = (lease: OwnLease, epoch: number): Taken => {
    const { connector } = lease;
    const inTurn = openTurns().take;
    const release = async (): Promise<void> => {
      if (lease.isReleased) return;
      lease.isReleased = true;
      releases.delete(release);
      await inTurn(async () => {
        // The lock first: a process that takes the connector in between should get both.
        await unlock(lease);
        try {
          await leaseRows.endLease(await session.current(), { connector, epoch });
        } catch {
          // Unreachable: the lease expires by itself.
        }
        drop(lease);
      });
    };
    releases.add(release);
    const transact = fencedTransact(opened, lease, epoch);
    return { connector, epoch, inTurn, transact, read: fencedRead(opened, lease, epoch), release };
  };

  return {
    /** `LedgerDriver.take`. */
    take: async (
      connector: ConnectorName,
      holder: Holder,
      work: (tx: WriteTx, epoch: number) => Promise<void>,
    ): Promise<Taken> => {
      const known = own.get(connector);
      if (known !== undefined) throw new ConnectorBusyError(connector, known.holder);
      const lease: OwnLease = {
        connector,
        holder,
        lockName: `connector-sync ${sinkId} ${connector}`,
        epoch: null,
        lockedIn: null,
        renewedMs: 0,
        tokens: new Set(),
        isOvertaken: false,
        hasLost: false,
        isReleased: false,
      };
      own.set(connector, lease);
      try {
        await server.whileAway(async () => await lock(lease, await session.current(), lockTries));
        const epoch = await server.transact(
          async (tx) => {
            const taken = await takeIn(tx, lease, await session.current());
            await work(tx, taken);
            return taken;
          },
          { isDurable: true },
        );
        leaseRows.keepNewest(lease.tokens);
        lease.epoch = epoch;
        renewals.begin();
        return held(lease, epoch);
      } catch (error) {
        await unlock(lease);
        drop(lease);
        throw toSinkError(error, server.place);
      }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await Promise.all([...releases].map(async (release) => await release()));
      await session.end();
    },
  };
}

/** State of a lease that this process holds. Its tokens change only in its turn. */
export interface OwnLease {
  readonly connector: ConnectorName;
  readonly holder: Holder;
  readonly lockName: string;
  /** Null while it is being taken. */
  epoch: number | null;
  lockedIn: LeaseSession | null;
  /** Time, by the clock of this process, at which the lease had its full length. */
  renewedMs: number;
  readonly tokens: leaseRows.LastTokens;
  isOvertaken: boolean;
  /** The server has lost commits of this holder. */
  hasLost: boolean;
  isReleased: boolean;
}

async function lock(lease: OwnLease, session: LeaseSession, tries: number): Promise<void> {
  for (let tried = 1; ; tried += 1) {
    const isLocked = await session.tryLock(lease.lockName);
    lease.lockedIn = isLocked ? session : null;
    if (isLocked || session.pid === null || tried >= tries) return;
    await systemClock.sleep(lockPauseMs);
  }
}

async function unlock(lease: OwnLease): Promise<void> {
  const { lockedIn, lockName } = lease;
  lease.lockedIn = null;
  await lockedIn?.unlock(lockName).catch(() => undefined);
}

/** Writes the lease's row; gives its epoch. */
async function takeIn(tx: WriteTx, lease: OwnLease, session: LeaseSession): Promise<number> {
  // The lock of a session that was lost since proves nothing to others.
  if (lease.lockedIn !== session) await lock(lease, session, 1);
  lease.renewedMs = performance.now();
  const { connector, tokens, lockedIn } = lease;
  const pids = { pid: lockedIn?.pid ?? null, sessionPid: session.pid };
  return await leaseRows.takeLease(tx, { connector, holder: writeJson(lease.holder), tokens, ...pids });
}

type OwnLeases = ReadonlyMap<ConnectorName, OwnLease>;

/** Renews leases in time from `begin` to `end`, and at once with `soon`. */
function openRenewals(own: OwnLeases, currentSession: () => Promise<LeaseSession>) {
  let renewal: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  /** A failure is noticed in time: a lease that is not renewed does not count. */
  const soon = (): void => {
    if (own.size === 0) return;
    renewal ??= renew(own, currentSession)
      .catch(() => void setTimeout(soon, retryMs).unref())
      .finally(() => (renewal = null));
  };
  return {
    soon,
    begin: (): void => void (timer ??= setInterval(soon, renewMs).unref()),
    end: (): void => {
      clearInterval(timer);
      timer = undefined;
    },
  };
}

/** Locks of a lost session are taken again, except those that others have taken. */
async function renew(own: OwnLeases, currentSession: () => Promise<LeaseSession>): Promise<void> {
  const session = await currentSession();
  const leases = [...own.values()].filter(({ epoch, isReleased }) => epoch !== null && !isReleased);
  for (const lease of leases) if (lease.lockedIn !== session) await lock(lease, session, 1);
  const askedMs = performance.now();
  const renewed = await leaseRows.renewLeases(session, leases.map(rowOf));
  for (const lease of leases) {
    if (renewed.has(lease.connector)) lease.renewedMs = askedMs;
    else lease.isOvertaken = true;
  }
}

function rowOf({ connector, epoch, lockedIn }: OwnLease): leaseRows.LeaseRow {
  return { connector, epoch: epoch ?? 0, pid: lockedIn?.pid ?? null };
}

/**
 * Throws `SyncError` FENCED once the lease has been given back or overtaken. One that another process may have taken,
 * because its renewal failed for too long, is renewed first.
 */
async function checkLease(lease: OwnLease, server: Server): Promise<void> {
  if (!lease.isReleased && !lease.isOvertaken && performance.now() - lease.renewedMs > believedMs) {
    const askedMs = performance.now();
    const renewed = await server.transact(async (tx) => {
      // Renewed again it is the same.
      tx.proveBy(async () => await Promise.resolve(false));
      return await leaseRows.renewLeases(tx, [rowOf(lease)]);
    });
    lease.isOvertaken = !renewed.has(lease.connector);
    lease.renewedMs = askedMs;
  }
  if (lease.isReleased) throw releasedError(lease.connector);
  if (lease.isOvertaken || lease.hasLost) throw overtakenOf(lease);
}

/** After a lost connection: `found` may have lost commits of these holders. */
async function overtakeLost(own: OwnLeases, found: Pick<Server, 'transact'>): Promise<void> {
  for (const lease of own.values()) {
    const { connector, epoch, tokens } = lease;
    if (epoch === null) continue;
    const hasLost = await found.transact((tx) => leaseRows.overtakeIfLost(tx, { connector, epoch, tokens }), {
      isDurable: true,
    });
    lease.hasLost ||= hasLost;
  }
}

function overtakenOf({ connector, epoch, hasLost }: OwnLease): SyncError {
  return hasLost ? lostCommitsError(connector) : overtakenError({ connector, epoch: epoch ?? 0 });
}

/**
 * One transaction of the lease's holder. The counter's row is the fence: a takeover raises the epoch there and waits
 * for a transaction that has locked it; the old holder then finds no row.
 */
export function fencedTransact(
  { server, clock }: Pick<OpenedSchema, 'server' | 'clock'>,
  lease: OwnLease,
  epoch: number,
): Taken['transact'] {
  const { connector, tokens } = lease;
  return async (run, work, how: TransactHow = {}) => {
    await checkLease(lease, server);
    const done = await server.transact(async (tx) => {
      const token = leaseRows.newToken(tx, connector, tokens);
      const lock = async (): Promise<number> => {
        const found = await tx.first<{ seq: number; isSame: boolean; isWhole: boolean | null }>(
          `SELECT seq, ${timelineSql} = (SELECT timeline FROM _sync_meta WHERE one = 1) AS is_same,
             last_commit = ANY(:tokens::uuid[]) AS is_whole
           FROM _sync_counters WHERE connector = :connector AND epoch = :epoch FOR NO KEY UPDATE`,
          { connector, epoch, tokens: [...tokens] },
        );
        if (found === undefined) throw overtakenOf(lease);
        // Behind a pooler no connection breaks when its server gives way to a standby, or is killed.
        if (!found.isSame || found.isWhole !== true) throw lostConnection('the server is another one');
        return found.seq;
      };
      const { takeSeqs, taken } = changeNumbers(lock);
      const result = await work(tx, { run, now: instant(clock.now()), takeSeqs });
      await takeSeqs(0);
      tx.put(
        `UPDATE _sync_counters SET seq = seq + :taken, last_commit = :token::uuid WHERE connector = :connector`,
        { connector, taken: taken(), token },
      );
      return result;
    }, how);
    leaseRows.keepNewest(tokens);
    return done;
  };
}

/** Reads one snapshot of the data that the lease's holder may see. `work` runs again as in `transact`. */
function fencedRead({ server }: Pick<OpenedSchema, 'server'>, lease: OwnLease, epoch: number): Taken['read'] {
  const { connector } = lease;
  return async (work) => {
    await checkLease(lease, server);
    return await server.whileAway(() =>
      server.read(async (tx) => {
        const found = await tx.first(
          `SELECT 1 AS one FROM _sync_counters WHERE connector = :connector AND epoch = :epoch`,
          { connector, epoch },
        );
        if (found === undefined) throw overtakenOf(lease);
        return await work(tx);
      }),
    );
  };
}

const ofSession = { ...keepalives, idle_session_timeout: '0' };
const deadlineMs = 10_000;
const keyOf = 'hashtextextended(:name, 0)';

/**
 * The connection that holds the locks of this process's leases. It ends with the process, and its locks are free at
 * once, long before the leases expire.
 */
type LeaseSession = Awaited<ReturnType<typeof openLeaseSession>>;

/** The session of a process's leases: opened for the first use, and again for the first one after `onLost`. */
function keepLeaseSession(server: Server, schema: string, onLost: () => void) {
  let session: Promise<LeaseSession> | null = null;
  return {
    current: async (): Promise<LeaseSession> => {
      const opening = (session ??= openLeaseSession(server, schema, () => {
        session = null;
        onLost();
      }));
      try {
        return await opening;
      } catch (error) {
        if (session === opening) session = null;
        throw error;
      }
    },
    end: async (): Promise<void> => {
      const opened = session;
      session = null;
      await (await opened?.catch(() => null))?.end();
    },
  };
}

/** `onLost` is called once, when the connection is lost or hangs, and not after `end`. */
async function openLeaseSession(server: Server, schema: string, onLost: () => void) {
  const client = await server.connect();
  let isOver = false;
  const end = async (): Promise<void> => {
    isOver = true;
    await client.end().catch(() => undefined);
  };
  const lose = (): void => {
    if (isOver) return;
    void end();
    onLost();
  };
  client.on('error', lose);
  client.on('end', lose);
  const tx = txOn(client);
  const ask: Tx['rows'] = async (sql, values) => {
    const timer = setTimeout(lose, deadlineMs);
    try {
      // A packet is a transaction, also without BEGIN.
      tx.put(readSettingsIn(schema));
      return await tx.rows(sql, values);
    } catch (error) {
      // Also where its server has become a standby: the next session is with another server.
      if (failingOf(error) === 'connection') lose();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  };
  // Leases are taken, renewed and given back at the same time, but the client runs one statement after the other.
  const inOrder = openTurns().take;
  const rows: Tx['rows'] = async (sql, values) => await inOrder(async () => await ask(sql, values));
  try {
    const [own] = await rows<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    // A pooler reports other numbers to its clients.
    const pid = own !== undefined && 'processID' in client && client.processID === own.pid ? own.pid : null;
    // The lock of a lost host is free again as soon as the server notices the loss.
    if (pid !== null) await client.query(settingSql(ofSession, 'session'));
    return {
      /** Runs each statement in a separate transaction. A statement that takes ten seconds ends the session. */
      rows,
      /**
       * The server's process for this connection; null where a pooler is between: its locks would be those of the next
       * client.
       */
      pid,
      /**
       * Never waits; false where another session has the lock, or a pooler is between. Locks that this one has it would
       * get again.
       */
      tryLock: async (name: string): Promise<boolean> => {
        if (pid === null) return false;
        const [found] = await rows<{ isLocked: boolean }>(
          `SELECT pg_try_advisory_lock(${keyOf}) AS is_locked`,
          { name },
        );
        return found?.isLocked === true;
      },
      unlock: async (name: string): Promise<void> =>
        void (await rows(`SELECT pg_advisory_unlock(${keyOf})`, { name })),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}
