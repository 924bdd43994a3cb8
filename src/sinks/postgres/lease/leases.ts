import { systemClock } from '../../../core/clock.ts';
import type { ConnectorName } from '../../../core/names.ts';
import type { SyncError } from '../../../core/errors.ts';
import { ConnectorBusyError, lostCommitsError, overtakenError, releasedError } from '../../acquire-errors.ts';
import type { Holder } from '../../lease.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { Taken } from '../../ledger/driver.ts';
import { toSinkError } from '../sink-error.ts';
import type { WriteTx } from '../../../sql/postgres/server.ts';
import type { OpenedSchema } from '../open-ledger.ts';
import { openTurns } from '../../../sql/turns.ts';
import { openLeaseSession, type LeaseSession } from './lease-session.ts';
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
  let session: Promise<LeaseSession> | null = null;
  let renewal: Promise<void> | null = null;
  let timer: NodeJS.Timeout | null = null;
  const lockName = (connector: ConnectorName): string => `connector-sync ${sinkId} ${connector}`;

  const currentSession = async (): Promise<LeaseSession> => {
    const opening = (session ??= openLeaseSession(server, schema, () => {
      session = null;
      renewSoon();
    }));
    try {
      return await opening;
    } catch (error) {
      if (session === opening) session = null;
      throw error;
    }
  };
  const lock = async (lease: OwnLease, tries: number): Promise<void> => {
    const asked = await currentSession();
    for (let tried = 1; ; tried += 1) {
      const isLocked = await asked.tryLock(lockName(lease.connector));
      lease.lockedIn = isLocked ? asked : null;
      if (isLocked || asked.pid === null || tried >= tries) return;
      await systemClock.sleep(lockPauseMs);
    }
  };
  const unlock = async (lease: OwnLease): Promise<void> => {
    const { lockedIn } = lease;
    lease.lockedIn = null;
    await lockedIn?.unlock(lockName(lease.connector)).catch(() => undefined);
  };

  /** Locks of a lost session are taken again, except those that others have taken. */
  const renew = async (): Promise<void> => {
    const asked = await currentSession();
    const leases = [...own.values()].filter(({ epoch, isReleased }) => epoch !== null && !isReleased);
    for (const lease of leases) if (lease.lockedIn !== asked) await lock(lease, 1);
    const askedMs = performance.now();
    const rows = leases.map(({ connector, epoch, lockedIn }) => ({
      connector,
      epoch: epoch ?? 0,
      pid: lockedIn?.pid ?? null,
    }));
    const renewed = await renewLeases(asked, rows);
    for (const lease of leases) {
      if (renewed.has(lease.connector)) lease.renewedMs = askedMs;
      else lease.isOvertaken = true;
    }
  };
  /** A failure is noticed in time: a lease that is not renewed does not count. */
  const renewSoon = (): void => {
    if (own.size === 0) return;
    renewal ??= renew()
      .catch(() => void setTimeout(renewSoon, retryMs).unref())
      .finally(() => (renewal = null));
  };
  const drop = (lease: OwnLease): void => {
    own.delete(lease.connector);
    if (own.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };

  const check = async (lease: OwnLease, epoch: number): Promise<void> => {
    if (!lease.isReleased && !lease.isOvertaken && performance.now() - lease.renewedMs > believedMs) {
      const askedMs = performance.now();
      const row = { connector: lease.connector, epoch, pid: lease.lockedIn?.pid ?? null };
      const renewed = await server.transact(async (tx) => {
        // Renewed again it is the same.
        tx.proveBy(async () => await Promise.resolve(false));
        return await renewLeases(tx, [row]);
      });
      lease.isOvertaken = !renewed.has(lease.connector);
      lease.renewedMs = askedMs;
    }
    const why = refusalOf(lease);
    if (why !== null) throw why;
  };
  const release = async (lease: OwnLease, epoch: number): Promise<void> => {
    // The lock first: a process that takes the connector in between should get both.
    await unlock(lease);
    try {
      await endLease(await currentSession(), { connector: lease.connector, epoch });
    } catch {
      // Unreachable: the lease expires by itself.
    }
    drop(lease);
  };
  const releases = new Set<() => Promise<void>>();
  server.afterLoss(async (found) => {
    for (const lease of own.values()) {
      const { connector, epoch, tokens } = lease;
      if (epoch === null) continue;
      const hasLost = await found.transact(
        async (tx) => await overtakeIfLost(tx, { connector, epoch, tokens }),
        { isDurable: true },
      );
      lease.hasLost ||= hasLost;
    }
  });

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
        await server.whileAway(async () => await lock(lease, lockTries));
        const epoch = await server.transact(
          async (tx) => {
            const asked = await currentSession();
            // The lock of a session that was lost since proves nothing to others.
            if (lease.lockedIn !== asked) await lock(lease, 1);
            lease.renewedMs = performance.now();
            const pid = lease.lockedIn?.pid ?? null;
            const row = {
              connector,
              holder: writeJson(holder),
              pid,
              sessionPid: asked.pid,
              tokens: lease.tokens,
            };
            const taken = await takeLease(tx, row);
            await work(tx, taken);
            return taken;
          },
          { isDurable: true },
        );
        keepNewest(lease.tokens);
        lease.epoch = epoch;
        timer ??= setInterval(renewSoon, renewMs).unref();
        const inTurn = openTurns().take;
        const giveBack = async (): Promise<void> => {
          if (lease.isReleased) return;
          lease.isReleased = true;
          releases.delete(giveBack);
          await inTurn(async () => await release(lease, epoch));
        };
        releases.add(giveBack);
        const fence: Fence = {
          server,
          clock,
          connector,
          epoch,
          tokens: lease.tokens,
          checkLease: async () => await check(lease, epoch),
          overtaken: () => overtakenOf(lease),
        };
        return {
          connector,
          epoch,
          inTurn,
          transact: fencedTransact(fence),
          read: fencedRead(fence),
          release: giveBack,
        };
      } catch (error) {
        await unlock(lease);
        drop(lease);
        throw toSinkError(error, server.place);
      }
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await Promise.all([...releases].map(async (giveBack) => await giveBack()));
      const opened = session;
      session = null;
      await (await opened?.catch(() => null))?.end();
    },
  };
}

/** What this process knows of a lease that it has. */
interface OwnLease {
  readonly connector: ConnectorName;
  readonly holder: Holder;
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

/** Why the lease may not be used; null: it may. */
function refusalOf(lease: OwnLease): SyncError | null {
  if (lease.isReleased) return releasedError(lease.connector);
  return lease.isOvertaken || lease.hasLost ? overtakenOf(lease) : null;
}

function overtakenOf({ connector, epoch, hasLost }: OwnLease): SyncError {
  return hasLost ? lostCommitsError(connector) : overtakenError({ connector, epoch: epoch ?? 0 });
}
