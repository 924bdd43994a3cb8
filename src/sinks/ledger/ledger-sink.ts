import type { ConnectorName } from '../../core/names.ts';
import { releasedError } from '../acquire-errors.ts';
import type { Copies } from '../copies.ts';
import type { Holder, Lease } from '../lease.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Sink } from '../sink.ts';
import { discardCopy, openPostgresTarget } from './copies/copy-in.ts';
import { openPostgresSource } from './copies/copy-out.ts';
import { postgresDeletes } from './deletes/postgres-deletes.ts';
import { postgresFiles } from './downloads/postgres-files.ts';
import { ledgerReader } from './history/history.ts';
import { readUnproven } from './history/read-unproven.ts';
import { acquireConnector, noRun } from './acquire.ts';
import { noteCopiedTo } from './connectors.ts';
import { openLeases, type Leases } from '../postgres/lease/leases.ts';
import type { HeldConnector, Ledger } from './ledger.ts';
import { openLedger, type PostgresPlace } from '../postgres/open-ledger.ts';
import { findSink } from '../postgres/open-schema.ts';
import { setWalkAside } from './partitions/end-walk.ts';
import { findLeftovers } from './partitions/leftovers.ts';
import { left, nextPartitions } from './partitions/next-partitions.ts';
import { commitPages } from './commit.ts';
import { postgresDrift } from './drift/postgres-drift.ts';
import { postgresRepair } from './repair/postgres-repair.ts';
import { finishRun } from './runs/finish.ts';
import { dropPause, requestCancel, writePause } from './runs/runs.ts';
import { startRun } from './runs/start-run.ts';
import type { Tx } from '../../sql/postgres/session.ts';
import { postgresStoredKeys } from './stored-keys.ts';
import { fencedTransaction, inRun, readFenced, type InLease } from './transact.ts';

/** A sink in a schema of a PostgreSQL server: records and ledger lie together there, and are committed together. */
export async function openPostgresSink(place: PostgresPlace, how: OpenHow): Promise<Sink> {
  return postgresSink(await openLedger(place, how), place.schema);
}

function postgresSink(ledger: Ledger, schema: string): Sink {
  const { server, at, sinkId } = ledger;
  const leases = openLeases(ledger);
  const heldByLease = new Map<Lease, HeldConnector>();
  const heldOf = (lease: Lease): HeldConnector => {
    const held = heldByLease.get(lease);
    if (held === undefined) throw releasedError(lease.connector);
    return held;
  };
  const inLease: InLease = async (lease, run, work, how) =>
    await inRun(ledger, heldOf(lease), run, work, how);
  let closing: Promise<void> | null = null;

  return {
    id: sinkId,
    history: ledgerReader(at, (work) => server.read(work)),
    deletes: postgresDeletes(ledger, inLease),
    stored: postgresStoredKeys(ledger, heldOf),
    repair: postgresRepair(ledger, leases, inLease),
    drift: postgresDrift(ledger, inLease),
    files: postgresFiles(ledger, inLease),
    copies: postgresCopies(ledger, leases),
    isInPlace: async () => {
      try {
        return (await server.read(async (tx) => await findSink(tx, schema, server.place)))?.sinkId === sinkId;
      } catch {
        return false; // Opening it again says what is wrong there.
      }
    },
    acquire: async (identity) => {
      const held = await acquireConnector(ledger, leases, identity);
      const { connector, epoch } = held;
      const lease: Lease = {
        connector,
        epoch,
        [Symbol.asyncDispose]: async () => {
          if (heldByLease.delete(lease)) await held.release();
        },
      };
      heldByLease.set(lease, held);
      return lease;
    },
    startRun: async (lease, plan) => await startRun(ledger, heldOf(lease), plan),
    nextPartitions: async (lease, limit) => await nextPartitions(ledger, heldOf(lease), limit),
    commit: async (lease, pages) => await commitPages(ledger, heldOf(lease), pages),
    setAside: async (lease, { partition, run }, why) =>
      await inLease(lease, run, async (commit) => await setWalkAside(commit, partition, why)),
    finish: async (lease, run, report) => await finishRun(ledger, heldOf(lease), run, report),
    findLeftovers: async (lease) => await findLeftovers(ledger, heldOf(lease)),
    left: async (lease) => await left(ledger, heldOf(lease)),
    unproven: async (lease) => {
      const held = heldOf(lease);
      const found = await readFenced(ledger, held, async (tx) => {
        const { connector, run } = held;
        return run === null ? [] : await readUnproven(tx, at, { only: [connector], window: run.window });
      });
      return found.map(({ connector: _connector, ...one }) => one);
    },
    // Rows and ledger are one: what the server has lost of one it has lost of the other.
    lostRows: async (lease) => await readFenced(ledger, heldOf(lease), async () => []),
    pause: async (connector, pause) =>
      await server.transact(async (tx) => await writePause(tx, at, connector, pause)),
    resume: async (connector) => await server.transact(async (tx) => await dropPause(tx, at, connector)),
    requestCancel: async (run, now) =>
      await server.transact(async (tx) => await requestCancel(tx, at, run, now)),
    [Symbol.asyncDispose]: async () => {
      closing ??= (async () => {
        heldByLease.clear();
        await leases[Symbol.asyncDispose]();
        await server[Symbol.asyncDispose]();
      })();
      await closing;
    },
  };
}

/** `Copies` of a sink in PostgreSQL. */
function postgresCopies(ledger: Ledger, leases: Leases): Copies {
  /** One transaction, with the connector held meanwhile. */
  const holding = async <Result>(
    connector: ConnectorName,
    holder: Holder,
    work: (tx: Tx) => Promise<Result>,
  ): Promise<Result> => {
    const taken = await leases.take(connector, holder, async () => undefined);
    try {
      const held = { ...taken, definitionHash: '', run: null };
      return await taken.inTurn(async () => await fencedTransaction(ledger, held, noRun, work));
    } finally {
      await taken.release();
    }
  };
  const { at } = ledger;
  return {
    openSource: async (connector, holder) => await openPostgresSource(ledger, leases, connector, holder),
    openTarget: async (copied, how) => await openPostgresTarget(ledger, leases, copied, how),
    discard: async (connector, holder) =>
      await holding(connector, holder, async (tx) => await discardCopy(tx, at, connector)),
    reopen: async (connector, holder) =>
      await holding(connector, holder, async (tx) => await noteCopiedTo(tx, at, connector, null)),
  };
}
