import { instant } from '../../../core/clock.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { alreadyHeldError, sharedTablesError } from '../../acquire-errors.ts';
import type { CopiedConnector, CopyInto, CopyTarget } from '../../copies.ts';
import { factNames, movedNumber, shifted } from '../../copies/facts.ts';
import { parseNames } from '../../stored-json.ts';
import { lockConnector, noRun, withLock } from '../acquire.ts';
import type { Ledger } from '../ledger.ts';
import { firstMarker, meetCopy, type CopyMarker } from '../../decisions/begin-copy.ts';
import type { RecordCopies } from '../record-store.ts';
import { reserveIds } from '../partitions/partitions-sql.ts';
import { inTransaction } from '../transact.ts';
import { writeConnector, writeFacts, writeTable } from './write-facts.ts';

/** Holds the kernel's lock of the connector, and writes batches with how far they are. */
export async function openLedgerTarget(
  ledger: Ledger,
  records: RecordCopies,
  copied: CopiedConnector,
  how: CopyInto,
): Promise<CopyTarget> {
  const { db } = ledger;
  const { connector } = copied;
  const lock = lockConnector(ledger, connector);
  try {
    const { state, marker } = await inTransaction(ledger, noRun, () => begin(ledger, records, copied, how));
    const shift = { partitions: marker.shift, runs: 0 };
    let hasFacts = false;
    let hasRuns = false;
    const beginFacts = (): void => {
      if (!hasFacts) dropFacts(ledger, connector);
      hasFacts = true;
    };
    return {
      state,
      progress: { entity: marker.entity, row: marker.row },
      storeRecords: async (table, rows) => {
        const last = rows.at(-1)?.row ?? 0;
        await inTransaction(ledger, noRun, () => {
          const moved = rows.map((one) => ({ ...one, home: movedNumber(one.home, shift.partitions) }));
          records.write(connector, table, moved);
          db.prepare('UPDATE _sync_copies SET entity = ?, row = ? WHERE connector = ?').run(
            table.entity,
            last,
            connector,
          );
        });
      },
      storeFacts: async ({ of, rows }) =>
        await inTransaction(ledger, noRun, () => {
          beginFacts();
          if (of === 'runs' && !hasRuns) shift.runs = highestRun(ledger);
          hasRuns ||= of === 'runs';
          writeFacts(ledger, connector, of, shifted(of, rows, shift));
        }),
      finish: async () =>
        await inTransaction(ledger, noRun, () => {
          beginFacts();
          for (const table of copied.tables) writeTable(ledger, connector, table, shift.runs);
          writeConnector(ledger, copied, how.holder);
          ledger.store.renewViews(connector);
          const now = instant(ledger.clock.now());
          db.prepare('UPDATE _sync_copies SET finished_at = ? WHERE connector = ?').run(now, connector);
        }),
      [Symbol.asyncDispose]: async () => lock.release(),
    };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** `Copies.discard`. */
export async function discardCopy(ledger: Ledger, connector: ConnectorName): Promise<boolean> {
  return await withLock(ledger, connector, async () =>
    inTransaction(ledger, noRun, () => {
      const marker = readMarker(ledger, connector);
      if (marker === undefined || marker.finishedAt !== null) return false;
      dropCopy(ledger, connector, marker);
      return true;
    }),
  );
}

function begin(
  ledger: Ledger,
  records: RecordCopies,
  copied: CopiedConnector,
  { from, to, holder }: CopyInto,
): { readonly state: CopyTarget['state']; readonly marker: CopyMarker } {
  const { db } = ledger;
  const { connector } = copied;
  const rival = ledger.connectors.rival(connector);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  const known = readMarker(ledger, connector);
  const met = meetCopy(known, copied, ledger.connectors.identity.get(connector) !== undefined);
  if (met === 'refuse') throw alreadyHeldError(connector, to);
  if (known !== undefined && met === 'done') return { state: 'done', marker: known };
  if (known !== undefined && met === 'resume') {
    const hold = db.prepare(
      'UPDATE _sync_copies SET holder = ?, source_name = ?, target_name = ? WHERE connector = ?',
    );
    hold.run(writeJson(holder), from, to, connector);
    return { state: 'resumed', marker: known };
  }
  if (known !== undefined) dropCopy(ledger, connector, known);
  for (const table of copied.tables) records.make(connector, table);
  const marker = firstMarker(copied, reserveIds(db, copied.highestPartition));
  db.prepare(
    `INSERT INTO _sync_copies (connector, version, source, source_name, target_name, state, entities, shift, entity, row, holder, since)
     VALUES (:connector, :version, :source, :from, :to, :state, :entities, :shift, NULL, 0, :holder, :since)`,
  ).run({ ...marker, connector, from, to, holder: writeJson(holder), since: instant(ledger.clock.now()) });
  return { state: 'begun', marker };
}

function readMarker({ db }: Ledger, connector: ConnectorName): CopyMarker | undefined {
  return db
    .prepare<[string], CopyMarker>(
      `SELECT version, source, state, entities, shift, entity, row, finished_at AS finishedAt FROM _sync_copies WHERE connector = ?`,
    )
    .get(connector);
}

/** Runs come newest first: with the first of them, every number up to the highest is taken. */
function highestRun({ db }: Ledger): number {
  return db.prepare<[], number>('SELECT coalesce(max(number), 0) FROM _sync_runs').pluck().get() ?? 0;
}

function dropCopy(ledger: Ledger, connector: ConnectorName, { entities }: CopyMarker): void {
  for (const entity of parseNames(entities)) ledger.store.drop(connector, entity as EntityName);
  dropFacts(ledger, connector);
  ledger.db.prepare('DELETE FROM _sync_copies WHERE connector = ?').run(connector);
}

function dropFacts({ db, transitions }: Ledger, connector: ConnectorName): void {
  db.prepare('DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE connector = ?)').run(
    connector,
  );
  transitions.dropConnector.run({ connector });
  for (const of of factNames) {
    if (of !== 'counts' && of !== 'partitions') {
      db.prepare(`DELETE FROM _sync_${of} WHERE connector = ?`).run(connector);
    }
  }
}
