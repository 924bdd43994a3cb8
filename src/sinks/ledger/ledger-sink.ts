import { SyncError } from '../../core/errors.ts';
import type { ConnectorName, RunId } from '../../core/names.ts';
import type { TransactHow, Tx } from '../../sql/database.ts';
import { fencedError, releasedError } from '../sink-errors.ts';
import type { ConnectorIdentity, Lease } from '../lease.ts';
import type { WalkFailure, WalkRef } from '../partition.ts';
import type { ListingsOf, RunReport } from '../run-report.ts';
import type { CommittedPage, PageCommit, RunPlan } from '../sink.ts';
import { acquireConnector, enterFailedStart } from './held-connectors.ts';
import { commitPages } from './commit.ts';
import { ledgerCopies } from './ledger-copies.ts';
import { ledgerDeletes } from './deletes/ledger-deletes.ts';
import { ledgerFiles } from './downloads/ledger-files.ts';
import { ledgerDrift } from './drift/note-drift.ts';
import { ledgerReader, readDoubted, readUnconfirmed, type OfListings } from './history/history.ts';
import type { Stamp } from './driver.ts';
import { long, type Commit, type HeldConnector, type InLease, type Ledger } from './ledger.ts';
import { ledgerMasking } from './masking.ts';
import { ledgerNotices } from './notices/ledger-notices.ts';
import { findLeftovers, left, nextPartitions, setWalkAside } from './partitions/due-partitions.ts';
import { ledgerPurges } from './purges/ledger-purges.ts';
import { ledgerRepair } from './repair/ledger-repair.ts';
import { finishRun, noteJournal, startRun } from './runs/ledger-runs.ts';
import { ledgerStoredKeys } from './tables.ts';
import { ledgerRequests } from './noted-actions.ts';

/** A sink over a database: records and ledger are stored and committed together. */
export function ledgerSink(ledger: Ledger) {
  const { db, records, sinkId } = ledger;
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
  /** Listings of the connector in the window of its run. */
  const listingsOf = async <Found extends ListingsOf>(
    lease: Lease,
    readFound: (tx: Tx, of: OfListings) => Promise<readonly (Found & { connector: ConnectorName })[]>,
  ) => {
    const { connector, run, read } = heldOf(lease);
    if (run === null) return [];
    const of = { only: [connector], window: run.window, records };
    const found = await read(async (tx) => await readFound(tx, of));
    return found.map(({ connector: _connector, ...one }) => one);
  };
  let closing: Promise<void> | null = null;

  return {
    /** Random id made with the sink; it distinguishes two files of one name. */
    id: sinkId,
    /** Read only; usable without a lease and while another process writes. */
    history: ledgerReader(records, (work) => db.read(work)),
    deletes: ledgerDeletes(ledger, inLease),
    stored: ledgerStoredKeys(records, heldOf),
    repair: ledgerRepair(ledger, inLease),
    drift: ledgerDrift(ledger, inLease),
    files: ledgerFiles(inLease),
    copies: ledgerCopies(ledger),
    notices: ledgerNotices(ledger),
    purges: ledgerPurges(ledger),
    masking: ledgerMasking(ledger),
    /**
     * False once the sink is no longer where it was opened (moved away, replaced): nothing can be stored through this
     * object.
     */
    isInPlace: async () => await ledger.isInPlace(),
    /**
     * Takes the connector until the lease is disposed or the process dies; repairs the work of a killed writer. Throws
     * `ConnectorBusyError`, and `IdentityChangedError` when the stored identity (base URL, connector id, definition)
     * differs.
     */
    acquire: async (identity: ConnectorIdentity): Promise<Lease> => {
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
    startRun: async (lease: Lease, plan: RunPlan) => await startRun(ledger, heldOf(lease), plan),
    enterFailedStart: (report: RunReport, journal?: string) => enterFailedStart(ledger, report, journal),
    /** Stores the journal of a run in progress, in the place of an earlier one. */
    noteJournal: inLease(async (commit, journal: string) => Promise.resolve(noteJournal(commit, journal))),
    nextPartitions: async (lease: Lease, limit: number) => await nextPartitions(heldOf(lease), limit),
    commit: async (lease: Lease, pages: readonly PageCommit[]): Promise<readonly CommittedPage[]> => {
      const [first] = pages;
      if (first === undefined) return [];
      const held = heldOf(lease);
      // A page of another run is refused, and all of them with it.
      const stray = pages.find(({ walk }) => walk.run !== first.walk.run && walk.run !== held.run?.run);
      const committed = await commit(lease, (stray ?? first).walk.run, pages);
      // The pages are stored, whatever happens to their lines; the end of the run writes those, or says why not.
      await ledger.lines?.write(held, { isDueOnly: true }).catch(() => undefined);
      return committed;
    },
    setAside: async (lease: Lease, { partition, run }: WalkRef, why: WalkFailure) =>
      await setAside(lease, run, partition, why),
    finish: async (lease: Lease, run: RunId, report: RunReport, journal?: string): Promise<void> => {
      const error = await finish(lease, run, report, journal);
      heldOf(lease).run = null;
      await ledger.lines?.write(heldOf(lease));
      await ledger.runEnded?.();
      if (error === null) return;
      throw new SyncError(error.message, { code: error.code, recovery: error.recovery, context: { run } });
    },
    findLeftovers: async (lease: Lease) => {
      const { run } = heldOf(lease);
      return run === null ? 0 : await makeReady(lease, run.run);
    },
    left: async (lease: Lease) => await left(heldOf(lease)),
    /**
     * Listings of the connector that ended with a doubt when they were read last, by entity; of a backfill's window
     * those of the window.
     */
    partMissing: async (lease: Lease) => await listingsOf(lease, readDoubted),
    /** Listings read to their end without proof, in the window of the run. */
    unconfirmed: async (lease: Lease) => await listingsOf(lease, readUnconfirmed),
    ...ledgerRequests(ledger),
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
 * in memory is in `current.seen` and `current.drift`, or is set again each time.
 */
async function inRun<Result>(
  ledger: Ledger,
  held: HeldConnector,
  run: RunId,
  work: (commit: Commit) => Promise<Result>,
  how: Pick<TransactHow, 'isLong'> = {},
): Promise<Result> {
  const { connector } = held;
  return await held.inTurn(async () => {
    const current = held.run;
    if (current === null || current.run !== run) {
      throw fencedError(held, `run ${run} is not the one this lease is in (${current?.run ?? 'none'})`);
    }
    const forget = (): void => {
      current.seen.forget();
      current.drift.clear();
      // A standby that took over from its server may lack rows found before.
      for (const table of current.tables.values()) table.settle(true);
    };
    try {
      const inTx = async (tx: Tx, stamp: Stamp) => await work({ ledger, connector, current, tx, stamp });
      return await held.transact(run, inTx, { ...how, restart: forget });
    } catch (error) {
      forget();
      throw error;
    } finally {
      for (const table of current.tables.values()) table.settle();
    }
  });
}
