import { instant } from '../../../core/clock.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { alreadyHeldError, sharedTablesError } from '../../acquire-errors.ts';
import {
  factNames,
  type CopiedConnector,
  type CopiedTable,
  type CopyInto,
  type CopyTarget,
  type FactName,
} from '../../copies.ts';
import { shifted, movedNumber } from '../../copies/facts.ts';
import { parseNames } from '../../stored-json.ts';
import { noRun } from '../acquire.ts';
import { noteAction } from '../actions.ts';
import { holdConnector, rivalOf, storedIdentity } from '../connectors.ts';
import type { Ledger } from '../ledger.ts';
import { firstMarker, meetCopy, type CopyMarker } from '../../decisions/begin-copy.ts';
import type { RecordTables } from '../driver.ts';
import { textsOf } from '../tables.ts';
import { newestVersion } from '../versions/closed-versions.ts';
import { transitions } from '../partitions/transitions.ts';
import type { Tx } from '../../../sql/database.ts';
import { writePauses } from '../runs/runs.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { insertFacts } from './insert-facts.ts';

/** A lease of the connector, and batches with how far they are. */
export async function openTarget(
  ledger: Ledger,
  copied: CopiedConnector,
  how: CopyInto,
): Promise<CopyTarget> {
  const { connector } = copied;
  const taken = await ledger.take(connector, how.holder, async () => undefined);
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await taken.inTurn(async () => await taken.transact(noRun, work));
  try {
    const { state, marker } = await transact(async (tx) => await begin(tx, ledger, copied, how));
    /** The facts that this process has; those of another process are dropped with the first batch. */
    let facts: { readonly hasRuns: boolean; readonly runs: number } | null = null;
    return {
      state,
      progress: { entity: marker.entity, row: marker.row },
      keepsVersions: ledger.records.keepsVersions,
      storeRecords: async (table, rows) => {
        const last = rows.at(-1)?.row ?? 0;
        await transact(async (tx) => {
          await ledger.records.writeWhole(tx, connector, table, rows, marker.shift);
          await tx.run(`UPDATE _sync_copies SET entity = :entity, row = :row WHERE connector = :connector`, {
            connector,
            entity: table.entity,
            row: last,
          });
        });
      },
      versionsTo: async (table) => {
        if (!keepsVersions(ledger, table)) return null;
        return await transact(async (tx) => await newestVersion(tx, ledger.records, { connector, ...table }));
      },
      storeVersions: async (table, versions) =>
        await transact(async (tx) => await ledger.records.writeVersions(tx, connector, table, versions)),
      storeFacts: async ({ of, rows: given }) => {
        const rows = of === 'versions' && !ledger.records.keepsVersions ? [] : given;
        // It may run again: what it changes in memory is set after it.
        facts = await transact(async (tx) => {
          if (facts === null) await dropFacts(tx, connector);
          const before = facts ?? { hasRuns: false, runs: 0 };
          const isFirst = of === 'runs' && !before.hasRuns;
          const runs = isFirst ? await ledger.reserveNumbers(tx, 'runs', highestOf(rows)) : before.runs;
          const copied = { connector, rows: shifted(of, rows, { runs, partitions: marker.shift }) };
          await (of === 'partitions' ? transitions.copyIn(tx, copied) : inserts[of](tx, copied));
          return { hasRuns: before.hasRuns || of === 'runs', runs };
        });
      },
      // Its change numbers continue above those of the source, and of an earlier connector of that name.
      finish: async () =>
        await transact(async (tx) => {
          if (facts === null) await dropFacts(tx, connector);
          await writeTables(tx, ledger.records, copied, facts?.runs ?? 0);
          await holdConnector(tx, { ...copied, holder: how.holder }, taken.epoch);
          if (copied.pause !== null) await writePauses(tx, [connector], copied.pause);
          await ledger.raiseSeq(tx, connector, copied.newestSeq);
          await ledger.records.renewViews(tx, connector);
          ledger.lines?.end(connector);
          noteAction(tx, ledger, { action: 'copy-from', connector, detail: { from: how.from } });
          await tx.run(`UPDATE _sync_copies SET finished_at = :now WHERE connector = :connector`, {
            connector,
            now: instant(ledger.clock.now()),
          });
        }),
      [Symbol.asyncDispose]: async () => await taken.release(),
    };
  } catch (error) {
    await taken.release();
    throw error;
  }
}

/** A sink of lines takes none: the lines of the source stay there. */
function keepsVersions({ records }: Pick<Ledger, 'records'>, table: CopiedTable): boolean {
  return table.hasVersions && records.keepsVersions;
}

/** Runs come newest first. */
function highestOf(rows: readonly { readonly number?: number }[]): number {
  return rows[0]?.number ?? 0;
}

/** `Copies.discard`, in a transaction that holds the connector. */
export async function discardCopy(
  tx: Tx,
  { records }: Pick<Ledger, 'records'>,
  connector: ConnectorName,
): Promise<boolean> {
  const marker = await readMarker(tx, connector);
  if (marker === undefined || marker.finishedAt !== null) return false;
  await dropCopy(tx, records, connector, marker);
  return true;
}

async function begin(
  tx: Tx,
  ledger: Ledger,
  copied: CopiedConnector,
  { from, to, holder }: CopyInto,
): Promise<{ readonly state: CopyTarget['state']; readonly marker: CopyMarker }> {
  const { connector, tables } = copied;
  const rival = await rivalOf(tx, connector);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  const known = await readMarker(tx, connector);
  const met = meetCopy(known, copied, (await storedIdentity(tx, connector)) !== undefined);
  if (met === 'refuse') throw alreadyHeldError(connector, to);
  if (known !== undefined && met === 'done') return { state: 'done', marker: known };
  const names = { connector, from, to, holder: writeJson(holder) };
  if (known !== undefined && met === 'resume') {
    await tx.run(
      `UPDATE _sync_copies SET holder = :holder, source_name = :from, target_name = :to WHERE connector = :connector`,
      names,
    );
    return { state: 'resumed', marker: known };
  }
  if (known !== undefined) await dropCopy(tx, ledger.records, connector, known);
  for (const copiedTable of tables) {
    const { entity, key, stored } = copiedTable;
    const table = { entity, key, columns: stored };
    const kept = keepsVersions(ledger, copiedTable) ? { versions: { isNew: true, isOn: true } } : {};
    await ledger.records.ensure(tx, { connector, table, stored: [], ...kept });
  }
  const marker = firstMarker(copied, await ledger.reserveNumbers(tx, 'partitions', copied.highestPartition));
  await tx.run(
    `INSERT INTO _sync_copies (connector, version, source, source_name, target_name, state, entities, shift, entity, row, holder, since)
     VALUES (:connector, :version, :source, :from, :to, :state, :entities, :shift, NULL, 0, :holder, :since)`,
    { ...marker, ...names, since: instant(ledger.clock.now()) },
  );
  return { state: 'begun', marker };
}

async function readMarker(tx: Tx, connector: ConnectorName): Promise<CopyMarker | undefined> {
  return await tx.first<CopyMarker>(
    `SELECT version, source, state, entities, shift, entity, row, finished_at FROM _sync_copies WHERE connector = :connector`,
    { connector },
  );
}

async function dropCopy(
  tx: Tx,
  records: RecordTables,
  connector: ConnectorName,
  { entities }: CopyMarker,
): Promise<void> {
  await records.drop(tx, connector, parseNames(entities) as readonly EntityName[]);
  await dropFacts(tx, connector);
  await tx.run(`DELETE FROM _sync_copies WHERE connector = :connector`, { connector });
}

/** `kept`: facts that stay. */
export async function dropFacts(
  tx: Tx,
  connector: ConnectorName,
  kept: readonly FactName[] = [],
): Promise<void> {
  await tx.run(
    `DELETE FROM _sync_counts WHERE run IN (SELECT run FROM _sync_runs WHERE connector = :connector)`,
    { connector },
  );
  await transitions.dropConnector(tx, { connector });
  for (const of of factNames) {
    if (of === 'counts' || of === 'partitions' || kept.includes(of)) continue;
    await tx.run(`DELETE FROM _sync_${of} WHERE connector = :connector`, { connector });
  }
}

const inserts = Object.fromEntries(
  factNames.map((of) => [
    of,
    insertFacts(of, of === 'downloads' ? [{ name: 'key_hash', of: ({ key }) => textHash(String(key)) }] : []),
  ]),
) as Readonly<Record<FactName, ReturnType<typeof insertFacts>>>;

/** What makes the connector's tables those of this sink. `runs`: is added to numbers of runs. */
async function writeTables(
  tx: Tx,
  records: RecordTables,
  { connector, tables }: CopiedConnector,
  runs: number,
): Promise<void> {
  for (const table of tables) {
    await tx.run(
      `INSERT INTO _sync_tables
         (connector, entity, name, key, stored, declared, evolved, rows, deleted, last_row, as_of, taken_over, adopted_at, first_origin, table_id, described)
       VALUES (:connector, :entity, :name, :key, :stored, :declared, :evolved, :rows, :deleted, :lastRow, :asOf, :takenOver,
         :adoptedAt, :firstOrigin, :tableId, :described)`,
      {
        ...table,
        connector,
        name: records.tableName(connector, table.entity),
        ...textsOf(table),
        takenOver: movedNumber(table.takenOver, runs),
        firstOrigin: movedNumber(table.firstOrigin, runs),
      },
    );
  }
}
