import type Database from 'better-sqlite3';
import { instant, type Instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import type { ConnectorName } from '../../core/names.ts';
import type { Deletes } from '../deletes.ts';
import type { Drift } from '../drift.ts';
import type { Files } from '../files.ts';
import type { LedgerReader } from '../ledger-reader.ts';
import type { Repair } from '../repair.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Partition, WalkFailure, WalkRef } from '../partition.ts';
import type { LeftWork, RunReport } from '../run-report.ts';
import type {
  CommittedPage,
  ConnectorIdentity,
  Lease,
  LostRows,
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
import { finishRun } from './finish.ts';
import { openLedgerReader } from './history.ts';
import { prepareLedger, type CurrentRun, type HeldConnector, type Ledger } from './ledger.ts';
import { openDatabase, storedId, type DatabaseOptions } from './open-database.ts';
import { setWalkAside } from './partitions/end-walk.ts';
import { findLeftovers } from './partitions/find-leftovers.ts';
import { boundScope, type ReadyPartition } from './partitions/read-partitions.ts';
import type { RecordStore } from './record-store.ts';
import { ledgerRepair } from './repair/ledger-repair.ts';
import { startRun } from './start-run.ts';
import { checkEpoch, inLedger } from './transact.ts';
import { blockingMs, defaultLockTimeoutMs, isBusy, whenUnlocked, type LockWait } from './when-unlocked.ts';

export interface FileSinkOptions extends Pick<DatabaseOptions, 'file' | 'kind'>, OpenHow {
  /** Called once, with the ledger's connection: what the store keeps there is in the ledger's transactions. */
  readonly openStore: (db: Database.Database) => RecordStore;
}

/** A sink whose records land in files: the ledger over a SQLite file, around a record store. */
export async function openFileSink(options: FileSinkOptions): Promise<Sink> {
  const wait: LockWait = { ...options, lockTimeoutMs: options.lockTimeoutMs ?? defaultLockTimeoutMs };
  const db = await whenUnlocked(wait, () => openForWriting(options));
  try {
    const ledger = prepareLedger({ ...wait, db, store: options.openStore(db) });
    return new FileSink(storedId(db), ledger);
  } catch (error) {
    db.close();
    throw error;
  }
}

function openForWriting(options: FileSinkOptions): Database.Database {
  try {
    return openDatabase({ ...options, now: instant(options.clock.now()), busyMs: blockingMs });
  } catch (error) {
    throw error instanceof SyncError && isBusy(error.cause) ? error.cause : error;
  }
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

  async isInPlace(): Promise<boolean> {
    try {
      this.#ledger.checkPlace();
      return true;
    } catch {
      return false; // Opening it again says what is wrong there.
    }
  }

  async acquire(identity: ConnectorIdentity): Promise<Lease> {
    const held = await acquireConnector(this.#ledger, identity);
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
    return await startRun(this.#ledger, this.#held(lease), plan);
  }

  async nextPartitions(lease: Lease, limit: number): Promise<readonly Partition[]> {
    const held = this.#held(lease);
    checkEpoch(this.#ledger, held);
    if (held.run === null) return [];
    const { window, isStalestFirst, tables } = held.run;
    const { partitions } = this.#ledger;
    const ready = isStalestFirst
      ? partitions.stalest(held.connector, window, limit)
      : partitions.deepest(held.connector, window, limit);
    return ready.map((partition) => ({ ...partition, storedRows: storedRows(tables, partition) }));
  }

  async commit(lease: Lease, pages: readonly PageCommit[]): Promise<readonly CommittedPage[]> {
    return await commitPages(this.#ledger, this.#held(lease), pages);
  }

  async setAside(lease: Lease, walk: WalkRef, why: WalkFailure): Promise<void> {
    await setWalkAside(this.#ledger, this.#held(lease), walk, why);
  }

  async finish(lease: Lease, run: RunId, report: RunReport): Promise<void> {
    await finishRun(this.#ledger, this.#held(lease), run, report);
  }

  async findLeftovers(lease: Lease): Promise<number> {
    return await findLeftovers(this.#ledger, this.#held(lease));
  }

  async left(lease: Lease): Promise<readonly LeftWork[]> {
    const held = this.#held(lease);
    checkEpoch(this.#ledger, held);
    if (held.run === null) return [];
    const { window, entities } = held.run;
    const scope = boundScope({ connector: held.connector, window, entities: [...entities] });
    return this.#ledger.partitions.left.all(scope);
  }

  async lostRows(lease: Lease): Promise<readonly LostRows[]> {
    const held = this.#held(lease);
    checkEpoch(this.#ledger, held);
    return [...(held.run?.tables ?? [])]
      .map(([entity, { table }]) => ({ entity, rows: table.lost() }))
      .filter(({ rows }) => rows > 0);
  }

  async pause(connector: ConnectorName, pause: Pause): Promise<void> {
    await inLedger(this.#ledger, () => this.#ledger.pauses.pause(connector, pause));
  }

  async resume(connector: ConnectorName): Promise<boolean> {
    return await inLedger(this.#ledger, () => this.#ledger.pauses.resume(connector));
  }

  async requestCancel(run: RunId, at: Instant): Promise<boolean> {
    return await inLedger(this.#ledger, () => this.#ledger.runs.requestCancel(run, at));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const lease of this.#heldByLease.keys()) {
      this.#release(lease);
    }
    this.#ledger.db.close();
  }

  #held(lease: Lease): HeldConnector {
    const held = this.#heldByLease.get(lease);
    if (held === undefined) throw releasedError(lease.connector);
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

/** No page is longer, and an empty partition costs one look at an index. */
const mostStoredRows = 1_001;

function storedRows(tables: CurrentRun['tables'], { id, entity, mode }: ReadyPartition): number {
  return mode === 'full' ? (tables.get(entity)?.table.liveRows(id, 0, mostStoredRows).length ?? 0) : 0;
}

function releasedError(connector: ConnectorName): SyncError {
  return new SyncError(
    `The lease of connector "${connector}" was given back, so nothing may be written with it. Acquire it again.`,
    { code: 'FENCED', recovery: 'stop', context: { connector } },
  );
}
