import { systemClock } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { SyncError } from '../../../core/errors.ts';
import { ConnectorBusyError, lostCommitsError, overtakenError, releasedError } from '../../acquire-errors.ts';
import type { Holder } from '../../lease.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { Taken } from '../../ledger/driver.ts';
import { toSinkError } from '../sink-error.ts';
import type { Server, WriteTx } from '../../../sql/postgres/server.ts';
import type { OpenedSchema } from '../open-ledger.ts';
import { openTurns } from '../../../sql/turns.ts';
import { keepLeaseSession, type LeaseSession } from './lease-session.ts';
import { fencedRead, fencedTransact, type Fence } from './fenced.ts';
import {
  endLease,
  keepNewest,
  overtakeIfLost,
  renewLeases,
  takeLease,
  type LastTokens,
} from './lease-rows.ts';

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
export function openLeases({ server, schema, sinkId, clock }: OpenedSchema) {
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
    const { connector, tokens } = lease;
    const inTurn = openTurns().take;
    const release = async (): Promise<void> => {
      if (lease.isReleased) return;
      lease.isReleased = true;
      releases.delete(release);
      await inTurn(async () => {
        // The lock first: a process that takes the connector in between should get both.
        await unlock(lease);
        try {
          await endLease(await session.current(), { connector, epoch });
        } catch {
          // Unreachable: the lease expires by itself.
        }
        drop(lease);
      });
    };
    releases.add(release);
    const fence: Fence = {
      server,
      clock,
      connector,
      epoch,
      tokens,
      checkLease: async () => await checkLease(lease, server),
      overtaken: () => overtakenOf(lease),
    };
    return { connector, epoch, inTurn, transact: fencedTransact(fence), read: fencedRead(fence), release };
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
      const lease = newLease(connector, holder, sinkId);
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
        keepNewest(lease.tokens);
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

/** What this process knows of a lease that it has. */
interface OwnLease {
  readonly connector: ConnectorName;
  readonly holder: Holder;
  readonly lockName: string;
  /** Null while it is being taken. */
  epoch: number | null;
  lockedIn: LeaseSession | null;
  /** By the clock of this process: a time at which the lease had its full length. */
  renewedMs: number;
  readonly tokens: LastTokens;
  isOvertaken: boolean;
  /** The server has lost commits of this holder. */
  hasLost: boolean;
  isReleased: boolean;
}

function newLease(connector: ConnectorName, holder: Holder, sinkId: string): OwnLease {
  const lockName = `connector-sync ${sinkId} ${connector}`;
  const flags = { isOvertaken: false, hasLost: false, isReleased: false };
  return {
    connector,
    holder,
    lockName,
    epoch: null,
    lockedIn: null,
    renewedMs: 0,
    tokens: new Set(),
    ...flags,
  };
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
  return await takeLease(tx, { connector, holder: writeJson(lease.holder), tokens, ...pids });
}

type OwnLeases = ReadonlyMap<ConnectorName, OwnLease>;

/** From `begin` to `end` leases are renewed in time, and with `soon` at once. */
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
  const renewed = await renewLeases(session, leases.map(rowOf));
  for (const lease of leases) {
    if (renewed.has(lease.connector)) lease.renewedMs = askedMs;
    else lease.isOvertaken = true;
  }
}

function rowOf({ connector, epoch, lockedIn }: OwnLease): Parameters<typeof renewLeases>[1][number] {
  return { connector, epoch: epoch ?? 0, pid: lockedIn?.pid ?? null };
}

/** `Fence.checkLease`. */
async function checkLease(lease: OwnLease, server: Server): Promise<void> {
  if (!lease.isReleased && !lease.isOvertaken && performance.now() - lease.renewedMs > believedMs) {
    const askedMs = performance.now();
    const renewed = await server.transact(async (tx) => {
      // Renewed again it is the same.
      tx.proveBy(async () => await Promise.resolve(false));
      return await renewLeases(tx, [rowOf(lease)]);
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
    const hasLost = await found.transact(
      async (tx) => await overtakeIfLost(tx, { connector, epoch, tokens }),
      { isDurable: true },
    );
    lease.hasLost ||= hasLost;
  }
}

function overtakenOf({ connector, epoch, hasLost }: OwnLease): SyncError {
  return hasLost ? lostCommitsError(connector) : overtakenError({ connector, epoch: epoch ?? 0 });
}
