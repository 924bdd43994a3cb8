import type Database from 'better-sqlite3';
import { instant } from '../../core/clock.ts';
import { SyncError } from '../../core/errors.ts';
import { releasedError } from '../acquire-errors.ts';
import type { OpenHow } from '../sink-access.ts';
import type { Lease } from '../lease.ts';
import type { Sink } from '../sink.ts';
import type { Copies } from '../copies.ts';
import { acquireConnector, noRun, withLock } from './acquire.ts';
import { commitPages, setWalkAside } from './commit.ts';
import { discardCopy, openLedgerTarget } from './copies/copy-in.ts';
import { openLedgerSource } from './copies/copy-out.ts';
import { ledgerDeletes } from './deletes/ledger-deletes.ts';
import { ledgerFiles } from './downloads/ledger-files.ts';
import { finishRun } from './finish.ts';
import { openLedgerReader } from './history.ts';
import { prepareLedger, type CurrentRun, type HeldConnector, type Ledger } from './ledger.ts';
import { openDatabase, storedId, type DatabaseOptions } from './open-database.ts';
import { findLeftovers } from './partitions/find-partition.ts';
import { boundScope, type ReadyPartition } from './partitions/read-partitions.ts';
import type { RecordCopies, RecordStore } from './record-store.ts';
import { readUnproven } from './read-unproven.ts';
import { ledgerRepair } from './repair/ledger-repair.ts';
import { startRun } from './start-run.ts';
import { ledgerStoredKeys } from './stored-keys.ts';
import { checkEpoch, inLedger, inRun, inTransaction, type InLease } from './transact.ts';
import { blockingMs } from '../../sql/sqlite/when-unlocked.ts';
import { defaultLockTimeoutMs, whenUnlocked, type LockWait, toSinkError } from '../sqlite-next/sink-error.ts';
import { isBusy } from '../../sql/sqlite/sqlite-error.ts';
import type { ConnectorName, EntityName } from '../../core/names.ts';
import { chooseColumns, knownDrift, widerTable } from '../decisions/drift-columns.ts';
import { withAdded } from '../decisions/stored-table.ts';
import type { Drift, KnownDrift } from '../drift.ts';

interface FileSinkOptions extends Pick<DatabaseOptions, 'file' | 'kind'>, OpenHow {
  /** Called once, with the ledger's connection: what the store keeps there is in the ledger's transactions. */
  readonly openStore: (db: Database.Database) => RecordStore;
}

/** A sink whose records land in files: the ledger over a SQLite file, around a record store. */
export async function openFileSink(options: FileSinkOptions): Promise<Sink> {
  const wait: LockWait = { ...options, lockTimeoutMs: options.lockTimeoutMs ?? defaultLockTimeoutMs };
  const db = await whenUnlocked(wait, () => openForWriting(options));
  try {
    const ledger = prepareLedger({ ...wait, db, store: options.openStore(db) });
    return fileSink(storedId(db), ledger);
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

function fileSink(id: string, ledger: Ledger): Sink {
  const heldByLease = new Map<Lease, HeldConnector>();
  const heldOf = (lease: Lease): HeldConnector => {
    const held = heldByLease.get(lease);
    if (held === undefined) throw releasedError(lease.connector);
    return held;
  };
  const checked = (lease: Lease): HeldConnector => {
    const held = heldOf(lease);
    checkEpoch(ledger, held);
    return held;
  };
  const reading = <Result>(read: () => Result): Result => {
    try {
      return read();
    } catch (error) {
      throw toSinkError(error, ledger.file);
    }
  };
  const release = (lease: Lease): void => {
    const held = heldByLease.get(lease);
    if (held === undefined) return;
    heldByLease.delete(lease);
    ledger.store.release(held.connector);
    held.lock.release();
  };
  const inLease: InLease = async (lease, run, work) => await inRun(ledger, heldOf(lease), run, work);

  return {
    id,
    history: openLedgerReader(ledger.db, ledger.file),
    deletes: ledgerDeletes(ledger, inLease),
    stored: ledgerStoredKeys(ledger, (lease, look) => reading(() => look(checked(lease)))),
    repair: ledgerRepair(ledger, inLease),
    drift: ledgerDrift(ledger, inLease),
    files: ledgerFiles(ledger, inLease),
    copies: ledgerCopies(ledger),
    isInPlace: async () => {
      try {
        ledger.checkPlace();
        return true;
      } catch {
        return false; // Opening it again says what is wrong there.
      }
    },
    acquire: async (identity) => {
      const held = await acquireConnector(ledger, identity);
      const { connector, epoch } = held;
      const lease: Lease = { connector, epoch, [Symbol.asyncDispose]: async () => release(lease) };
      heldByLease.set(lease, held);
      return lease;
    },
    startRun: async (lease, plan) => await startRun(ledger, heldOf(lease), plan),
    nextPartitions: async (lease, limit) =>
      reading(() => {
        const { connector, run } = checked(lease);
        if (run === null) return [];
        const { partitions } = ledger;
        const next = run.isStalestFirst ? partitions.stalest : partitions.deepest;
        const ready = next(connector, run.window, limit);
        return ready.map((partition) => ({ ...partition, storedRows: storedRows(run.tables, partition) }));
      }),
    commit: async (lease, pages) => await commitPages(ledger, heldOf(lease), pages),
    setAside: async (lease, { partition, run }, why) =>
      await inLease(lease, run, (commit) => setWalkAside(commit, partition, why)),
    finish: async (lease, run, report) => await finishRun(ledger, heldOf(lease), run, report),
    findLeftovers: async (lease) => await findLeftovers(ledger, heldOf(lease)),
    left: async (lease) =>
      reading(() => {
        const { connector, run } = checked(lease);
        if (run === null) return [];
        const scope = boundScope({ connector, window: run.window, entities: [...run.entities] });
        return ledger.partitions.left.all(scope);
      }),
    unproven: async (lease) => {
      const { connector, run } = checked(lease);
      if (run === null) return [];
      const found = readUnproven(ledger.db, connector, run.window);
      return found.map(({ connector: _connector, ...one }) => one);
    },
    lostRows: async (lease) =>
      reading(() =>
        [...(checked(lease).run?.tables ?? [])]
          .map(([entity, { table }]) => ({ entity, rows: table.lost() }))
          .filter(({ rows }) => rows > 0),
      ),
    pause: async (connector, { since, reason }) =>
      await inLedger(ledger, () => void ledger.pauses.pause.run(connector, since, reason)),
    resume: async (connector) =>
      await inLedger(ledger, () => ledger.pauses.resume.run(connector).changes > 0),
    requestCancel: async (run, at) =>
      await inLedger(ledger, () => ledger.runs.requestCancel.run(at, run).changes > 0),
    [Symbol.asyncDispose]: async () => {
      for (const lease of heldByLease.keys()) release(lease);
      ledger.db.close();
    },
  };
}

/** No page is longer, and an empty partition costs one look at an index. */
const mostStoredRows = 1_001;

function storedRows(tables: CurrentRun['tables'], { id, entity, mode }: ReadyPartition): number {
  return mode === 'full' ? (tables.get(entity)?.table.liveRows(id, 0, mostStoredRows).length ?? 0) : 0;
}

/** What a file sink knows of undeclared fields, and the columns that it gives them. */
function ledgerDrift(ledger: Ledger, inLease: InLease): Drift {
  return {
    known: async (connector, entities) => {
      const read = ledger.db.transaction(
        () => new Map(entities.map((entity) => [entity, knownOf(ledger, connector, entity)])),
      );
      try {
        return read.deferred();
      } catch (error) {
        throw toSinkError(error, ledger.file);
      }
    },
    evolve: async (lease, run, entity) => {
      const { connector, epoch } = lease;
      const table = ledger.tables.known(connector, entity);
      const wanted = table === undefined ? [] : chooseColumns(ledger.drift.of(connector, entity), table);
      // Most runs meet nothing new: they need no transaction to say so. Only this holder could add to either list meanwhile.
      if (table === undefined || wanted.length === 0) return [];
      return inLease(lease, run, ({ stamp }) => {
        const columns = ledger.store.fitting(connector, entity, wanted);
        if (columns.length === 0) return [];
        ledger.tables.save(connector, entity, withAdded(table, columns));
        const wider = widerTable(entity, table, columns);
        const { stored } = table;
        ledger.store.evolve({ connector, epoch, table: wider, stored, filled: columns, stamp });
        ledger.store.renewViews(connector);
        return columns;
      });
    },
  };
}

function knownOf({ tables, drift }: Ledger, connector: ConnectorName, entity: EntityName): KnownDrift {
  const { evolved = [], asOf = null } = tables.known(connector, entity) ?? {};
  return knownDrift(drift.of(connector, entity), evolved, asOf !== null);
}

/** `Copies` of a file sink. */
function ledgerCopies(ledger: Ledger): Copies {
  const records = (): RecordCopies => {
    const { copies } = ledger.store;
    if (copies !== null) return copies;
    throw new SyncError(
      `The sink at ${ledger.file} is of a type that connectors cannot be copied from or into.`,
      {
        code: 'SINK_INCOMPATIBLE',
        recovery: 'stop',
        context: { file: ledger.file },
      },
    );
  };
  return {
    openSource: async (connector, holder) => await openLedgerSource(ledger, records(), connector, holder),
    openTarget: async (copied, how) => await openLedgerTarget(ledger, records(), copied, how),
    discard: async (connector) => await discardCopy(ledger, connector),
    reopen: async (connector) =>
      await withLock(ledger, connector, async () =>
        inTransaction(ledger, noRun, () => ledger.connectors.reopen(connector)),
      ),
  };
}
