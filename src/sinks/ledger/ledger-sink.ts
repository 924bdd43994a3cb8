import { SyncError } from '../../core/errors.ts';
import type { RunId } from '../../core/names.ts';
import type { TransactHow } from '../../sql/database.ts';
import { fencedError, releasedError } from '../acquire-errors.ts';
import type { Copies } from '../copies.ts';
import type { Lease } from '../lease.ts';
import type { Sink } from '../sink.ts';
import { noteAction } from './actions.ts';
import { acquireConnector, holdingMeanwhile } from './acquire.ts';
import { commitPages } from './commit.ts';
import { noteCopiedTo } from './connectors.ts';
import { discardCopy, openTarget } from './copies/copy-in.ts';
import { openSource } from './copies/copy-out.ts';
import { ledgerDeletes } from './deletes/ledger-deletes.ts';
import { ledgerFiles } from './downloads/ledger-files.ts';
import { ledgerDrift } from './drift/note-drift.ts';
import { ledgerReader } from './history/history.ts';
import { readUnproven } from './history/read-unproven.ts';
import { long, type Commit, type HeldConnector, type InLease, type Ledger } from './ledger.ts';
import { ledgerMasking } from './masking/ledger-masking.ts';
import { ledgerNotices } from './notices/ledger-notices.ts';
import { findLeftovers, left, nextPartitions, setWalkAside } from './partitions/next-partitions.ts';
import { ledgerPurges } from './purges/ledger-purges.ts';
import { ledgerRepair } from './repair/ledger-repair.ts';
import { finishRun } from './runs/finish.ts';
import { dropPauses, requestCancel, writePauses } from './runs/runs.ts';
import { startRun } from './runs/start-run.ts';
import { ledgerStoredKeys } from './stored-keys.ts';

/** A sink over a database: records and ledger are stored and committed together. */
export function ledgerSink(ledger: Ledger): Sink {
  const { db, sinkId } = ledger;
  const heldByLease = new Map<Lease, HeldConnector>();
  const heldOf = (lease: Lease): HeldConnector => {
    const held = heldByLease.get(lease);
    if (held === undefined) throw releasedError(lease.connector);
    return held;
  };
  const inLease: InLease =
    (work, how) =>
    async (lease, run, ...given) =>
      await inRun(ledger, heldOf(lease), run, async (commit) => await work(commit, ...given), how);
  const commit = inLease(commitPages);
  const setAside = inLease(setWalkAside);
  const finish = inLease(finishRun, long);
  const makeReady = inLease(findLeftovers, long);
  let closing: Promise<void> | null = null;

  return {
    id: sinkId,
    history: ledgerReader(ledger.records, (work) => db.read(work)),
    deletes: ledgerDeletes(ledger, inLease),
    stored: ledgerStoredKeys(heldOf),
    repair: ledgerRepair(ledger, inLease),
    drift: ledgerDrift(ledger, inLease),
    files: ledgerFiles(inLease),
    copies: ledgerCopies(ledger),
    notices: ledgerNotices(ledger),
    purges: ledgerPurges(ledger),
    masking: ledgerMasking(ledger),
    isInPlace: async () => await ledger.isInPlace(),
    acquire: async (identity) => {
      const held = await acquireConnector(ledger, identity);
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
    nextPartitions: async (lease, limit) => await nextPartitions(heldOf(lease), limit),
    commit: async (lease, pages) => {
      const [first] = pages;
      if (first === undefined) return [];
      // A page of another run is refused, and all of them with it.
      const stray = pages.find(
        ({ walk }) => walk.run !== first.walk.run && walk.run !== heldOf(lease).run?.run,
      );
      return await commit(lease, (stray ?? first).walk.run, pages);
    },
    setAside: async (lease, { partition, run }, why) => await setAside(lease, run, partition, why),
    finish: async (lease, run, report) => {
      const error = await finish(lease, run, report);
      heldOf(lease).run = null;
      await ledger.runEnded?.();
      if (error === null) return;
      throw new SyncError(error.message, { code: error.code, recovery: error.recovery, context: { run } });
    },
    findLeftovers: async (lease) => {
      const { run } = heldOf(lease);
      return run === null ? 0 : await makeReady(lease, run.run);
    },
    left: async (lease) => await left(heldOf(lease)),
    unproven: async (lease) => {
      const held = heldOf(lease);
      const found = await held.read(async (tx) => {
        const { connector, run } = held;
        return run === null ? [] : await readUnproven(tx, { only: [connector], window: run.window });
      });
      return found.map(({ connector: _connector, ...one }) => one);
    },
    // Rows and ledger are in one database: no loss affects only one of them, except in files of earlier versions.
    lostRows: async (lease) => {
      const { connector, run, read } = heldOf(lease);
      const entities = [...(run?.tables.keys() ?? [])];
      return await read(async (tx) => (await ledger.lines?.countLost(tx, { connector, entities })) ?? []);
    },
    pause: async (connectors, pause) =>
      await db.transact(async (tx) => {
        await writePauses(tx, connectors, pause);
        const detail = { reason: pause.reason };
        for (const connector of connectors) noteAction(tx, ledger, { action: 'pause', connector, detail });
      }),
    resume: async (connectors) =>
      await db.transact(async (tx) => {
        const wasPaused = await dropPauses(tx, connectors);
        for (const connector of wasPaused) noteAction(tx, ledger, { action: 'resume', connector });
        return new Set(wasPaused);
      }),
    requestCancel: async (run, now) =>
      await db.transact(async (tx) => {
        const connector = await requestCancel(tx, run, now);
        if (connector !== null) noteAction(tx, ledger, { action: 'cancel', connector, run });
        return connector !== null;
      }),
    noteAction: async (action) =>
      await db.transact(async (tx) => Promise.resolve(noteAction(tx, ledger, action))),
    [Symbol.asyncDispose]: async () => {
      closing ??= (async () => {
        heldByLease.clear();
        await ledger[Symbol.asyncDispose]();
      })();
      await closing;
    },
  };
}

/**
 * Runs `work` in one transaction of the lease's holder: `SyncError` FENCED when another holder has overtaken it, or
 * when `run` is not the run that the lease is in. It may run `work` again (`Database.transact`), so that all it changes
 * in memory is in `current.seen` and `current.raw`, or is set again each time.
 */
async function inRun<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (commit: Commit) => Promise<Result>,
  how: Pick<TransactHow, 'isLong'> = {},
): Promise<Result> {
  return await held.inTurn(async () => {
    const current = held.run;
    if (current === null || current.run !== run) {
      throw fencedError(held, `run ${run} is not the one this lease is in (${current?.run ?? 'none'})`);
    }
    const forget = (): void => {
      current.seen.forget();
      current.raw.forget();
      // A standby that took over from its server may lack what was found.
      for (const table of current.tables.values()) table.settle(true);
    };
    try {
      return await held.transact(run, async (tx, stamp) => await work({ ledger, held, current, tx, stamp }), {
        ...how,
        restart: forget,
      });
    } catch (error) {
      forget();
      throw error;
    } finally {
      for (const table of current.tables.values()) table.settle();
    }
  });
}

/** `Copies` of a sink. */
function ledgerCopies(ledger: Ledger): Copies {
  return {
    openSource: async (connector, holder) => await openSource(ledger, connector, holder),
    openTarget: async (copied, how) => await openTarget(ledger, copied, how),
    discard: async (connector, holder) =>
      await holdingMeanwhile(ledger, connector, holder, async (tx) => {
        const wasBegun = await discardCopy(tx, ledger, connector);
        if (wasBegun) noteAction(tx, ledger, { action: 'copy-discarded', connector });
        return wasBegun;
      }),
    reopen: async (connector, holder) =>
      await holdingMeanwhile(ledger, connector, holder, async (tx) => {
        const wasAway = await noteCopiedTo(tx, connector, null);
        if (wasAway) noteAction(tx, ledger, { action: 'copy-reopened', connector });
        return wasAway;
      }),
  };
}
