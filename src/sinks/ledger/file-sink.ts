import type Database from 'better-sqlite3';
import { instant, type Clock, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Deletes } from '../deletes.ts';
import type { Drift } from '../drift.ts';
import type { Files } from '../files.ts';
import type { LedgerReader } from '../ledger-reader.ts';
import type { Repair } from '../repair.ts';
import type { Partition, WalkFailure, WalkRef } from '../partition.ts';
import type { LeftWork, RunReport } from '../run-report.ts';
import type {
  CommittedPage,
  ConnectorIdentity,
  Lease,
  PageCommit,
  Pause,
  RunPlan,
  Sink,
  StartedRun,
} from '../sink.ts';
import type { RunId } from '../../core/names.ts';
import { acquireConnector } from './acquire.ts';
import { commitPages } from './commit.ts';
import { ledgerDeletes } from './deletes/ledger-deletes.ts';
import { ledgerFiles } from './downloads/ledger-files.ts';
import { ledgerDrift } from './drift/ledger-drift.ts';
import { workScope } from './due-work.ts';
import { finishRun } from './finish.ts';
import { openLedgerReader } from './history.ts';
import { findLeftovers } from './leftovers.ts';
import { prepareLedger, type HeldConnector, type Ledger } from './ledger.ts';
import { openDatabase, openReadonlyDatabase, type DatabaseOptions } from './open-database.ts';
import type { RecordStore } from './record-store.ts';
import { ledgerRepair } from './repair/ledger-repair.ts';
import { setAside } from './set-aside.ts';
import { startRun } from './start-run.ts';
import { checkEpoch, inLedger } from './transact.ts';

export interface FileSinkOptions extends Omit<DatabaseOptions, 'now'> {
  readonly clock: Clock;
  /** Called once, with the ledger's connection: what the store keeps there is in the ledger's transactions. */
  readonly openStore: (db: Database.Database) => RecordStore;
}

/** A sink whose records land in files: the ledger over a SQLite file, around a record store. */
export function openFileSink(options: FileSinkOptions): Sink {
  const { file, clock } = options;
  const db = openDatabase({ ...options, now: instant(clock.now()) });
  try {
    const ledger = prepareLedger({ file, db, clock, store: options.openStore(db) });
    const id = db.prepare<[], string>('SELECT sink_id FROM _sync_meta').pluck().get() ?? '';
    return new FileSink(id, ledger);
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Reads the ledger of a file sink without being able to write it. */
export function openFileHistory(options: Pick<DatabaseOptions, 'file' | 'kind'>): LedgerReader & Disposable {
  const db = openReadonlyDatabase(options);
  return { ...openLedgerReader(db, options.file), [Symbol.dispose]: () => void db.close() };
}

class FileSink implements Sink {
  readonly id: string;
  readonly history: LedgerReader;
  readonly deletes: Deletes;
  readonly repair: Repair;
  readonly drift: Drift;
  readonly files: Files;
  readonly #ledger: Ledger;
  readonly #heldByLease = new Map<Lease, HeldConnector>();

  constructor(id: string, ledger: Ledger) {
    this.id = id;
    this.#ledger = ledger;
    this.history = openLedgerReader(ledger.db, ledger.file);
    const heldOf = (lease: Lease): HeldConnector => this.#held(lease);
    this.deletes = ledgerDeletes(ledger, heldOf);
    this.repair = ledgerRepair(ledger, heldOf);
    this.drift = ledgerDrift(ledger, heldOf);
    this.files = ledgerFiles(ledger, heldOf);
  }

  async acquire(identity: ConnectorIdentity): Promise<Lease> {
    const held = acquireConnector(this.#ledger, identity);
    const { connector, epoch } = held;
    const lease: Lease = {
      connector,
      epoch,
      [Symbol.asyncDispose]: async () => this.#release(lease),
    };
    this.#heldByLease.set(lease, held);
    return lease;
  }

  async startRun(lease: Lease, plan: RunPlan): Promise<StartedRun> {
    return startRun(this.#ledger, this.#held(lease), plan);
  }

  async nextPartitions(lease: Lease, limit: number): Promise<readonly Partition[]> {
    const held = this.#held(lease);
    checkEpoch(this.#ledger, held);
    if (held.run === null) return [];
    const { window, isStalestFirst } = held.run;
    const { nextPartitions } = this.#ledger;
    return isStalestFirst
      ? nextPartitions.stalest(held.connector, window, limit)
      : nextPartitions.deepest(held.connector, window, limit);
  }

  async commit(lease: Lease, pages: readonly PageCommit[]): Promise<readonly CommittedPage[]> {
    return commitPages(this.#ledger, this.#held(lease), pages);
  }

  async setAside(lease: Lease, walk: WalkRef, why: WalkFailure): Promise<void> {
    setAside(this.#ledger, this.#held(lease), walk, why);
  }

  async finish(lease: Lease, run: RunId, report: RunReport): Promise<void> {
    finishRun(this.#ledger, this.#held(lease), run, report);
  }

  async findLeftovers(lease: Lease): Promise<number> {
    return findLeftovers(this.#ledger, this.#held(lease));
  }

  async left(lease: Lease): Promise<readonly LeftWork[]> {
    const held = this.#held(lease);
    checkEpoch(this.#ledger, held);
    return held.run === null ? [] : this.#ledger.dueWork.left(workScope(held, held.run));
  }

  async pause(connector: ConnectorName, pause: Pause): Promise<void> {
    inLedger(this.#ledger, () => this.#ledger.pauses.pause(connector, pause));
  }

  async resume(connector: ConnectorName): Promise<boolean> {
    return inLedger(this.#ledger, () => this.#ledger.pauses.resume(connector));
  }

  async requestCancel(run: RunId, at: Instant): Promise<boolean> {
    return inLedger(this.#ledger, () => this.#ledger.runs.requestCancel(run, at));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const lease of this.#heldByLease.keys()) {
      this.#release(lease);
    }
    this.#ledger.db.close();
  }

  #held(lease: Lease): HeldConnector {
    const held = this.#heldByLease.get(lease);
    if (held === undefined) {
      throw releasedError(lease.connector);
    }
    return held;
  }

  #release(lease: Lease): void {
    const held = this.#heldByLease.get(lease);
    if (held !== undefined) {
      this.#heldByLease.delete(lease);
      this.#ledger.store.release(held.connector);
      held.lock.release();
    }
  }
}

function releasedError(connector: ConnectorName): SyncError {
  return new SyncError(
    `The lease of connector "${connector}" was given back, so nothing may be written with it. Acquire it again.`,
    { code: 'FENCED', recovery: 'stop', context: { connector } },
  );
}
