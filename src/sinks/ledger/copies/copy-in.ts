import { instant } from '../../../core/clock.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { ConnectorName } from '../../../core/names.ts';
import { alreadyHeldError, sharedTablesError } from '../../acquire-errors.ts';
import type { CopiedConnector, CopyInto, CopyTarget } from '../../copies.ts';
import { factNames, shifted } from '../../copies/facts.ts';
import { parseNames } from '../../stored-json.ts';
import { noRun } from '../acquire.ts';
import { rivalOf, storedIdentity } from '../connectors.ts';
import type { Leases } from '../../postgres/lease/leases.ts';
import type { HeldConnector, Ledger } from '../ledger.ts';
import { firstMarker, meetCopy, type CopyMarker } from '../../decisions/begin-copy.ts';
import { transitions } from '../partitions/transitions.ts';
import { dropOwnViews, renewCurrentViews } from '../../postgres/records/current-views.ts';
import { createTable } from '../../postgres/records/ensure-tables.ts';
import { tableAt, tableName } from '../../postgres/records/names.ts';
import type { Tx } from '../../../sql/postgres/session.ts';
import { fencedTransaction } from '../transact.ts';
import { reserveNumbers, writeConnector, writeFacts, writeRecords } from './write-copied.ts';

/** A lease of the connector, and batches with how far they are. */
export async function openPostgresTarget(
  ledger: Ledger,
  leases: Leases,
  copied: CopiedConnector,
  how: CopyInto,
): Promise<CopyTarget> {
  const { at } = ledger;
  const { connector } = copied;
  const taken = await leases.take(connector, how.holder, async () => undefined);
  const held: HeldConnector = { ...taken, definitionHash: '', run: null };
  const transact = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await held.inTurn(async () => await fencedTransaction(ledger, held, noRun, work));
  try {
    const { state, marker } = await transact(async (tx) => await begin(tx, ledger, copied, how));
    /** What this process has of the facts; those of another one are dropped with the first batch. */
    let facts: { readonly hasRuns: boolean; readonly runs: number } | null = null;
    return {
      state,
      progress: { entity: marker.entity, row: marker.row },
      storeRecords: async (table, rows) => {
        const last = rows.at(-1)?.row ?? 0;
        await transact(async (tx) => {
          writeRecords(tx, at, { connector, table, rows, shift: marker.shift });
          await tx.run(
            `UPDATE ${at}_sync_copies SET entity = :entity, row = :row WHERE connector = :connector`,
            { connector, entity: table.entity, row: last },
          );
        });
      },
      storeFacts: async ({ of, rows }) => {
        // It may run again: what it changes in memory is set behind it.
        facts = await transact(async (tx) => {
          if (facts === null) await dropFacts(tx, at, connector);
          const before = facts ?? { hasRuns: false, runs: 0 };
          const isFirst = of === 'runs' && !before.hasRuns;
          const runs = isFirst ? await reserveNumbers(tx, at, 'runs', highestOf(rows)) : before.runs;
          await writeFacts(tx, at, {
            connector,
            of,
            rows: shifted(of, rows, { runs, partitions: marker.shift }),
          });
          return { hasRuns: before.hasRuns || of === 'runs', runs };
        });
      },
      finish: async () =>
        await transact(async (tx) => {
          if (facts === null) await dropFacts(tx, at, connector);
          await writeConnector(tx, at, {
            copied,
            holder: how.holder,
            epoch: taken.epoch,
            runs: facts?.runs ?? 0,
          });
          await renewCurrentViews(tx, at, connector);
          await tx.run(`UPDATE ${at}_sync_copies SET finished_at = :now WHERE connector = :connector`, {
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

/** Runs come newest first. */
function highestOf(rows: readonly { readonly number?: number }[]): number {
  return rows[0]?.number ?? 0;
}

/** `Copies.discard`, in a transaction that holds the connector. */
export async function discardCopy(tx: Tx, at: string, connector: ConnectorName): Promise<boolean> {
  const marker = await readMarker(tx, at, connector);
  if (marker === undefined || marker.finishedAt !== null) return false;
  await dropCopy(tx, at, connector, marker);
  return true;
}

async function begin(
  tx: Tx,
  { at, clock }: Ledger,
  copied: CopiedConnector,
  { from, to, holder }: CopyInto,
): Promise<{ readonly state: CopyTarget['state']; readonly marker: CopyMarker }> {
  const { connector, tables } = copied;
  const rival = await rivalOf(tx, at, connector);
  if (rival !== undefined) throw sharedTablesError(connector, rival);
  const known = await readMarker(tx, at, connector);
  const met = meetCopy(known, copied, (await storedIdentity(tx, at, connector)) !== undefined);
  if (met === 'refuse') throw alreadyHeldError(connector, to);
  if (known !== undefined && met === 'done') return { state: 'done', marker: known };
  const names = { connector, from, to, holder: writeJson(holder) };
  if (known !== undefined && met === 'resume') {
    await tx.run(
      `UPDATE ${at}_sync_copies SET holder = :holder, source_name = :from, target_name = :to WHERE connector = :connector`,
      names,
    );
    return { state: 'resumed', marker: known };
  }
  if (known !== undefined) await dropCopy(tx, at, connector, known);
  for (const { entity, key, stored } of tables) {
    await dropOwnViews(tx, at, [tableName(connector, entity)]);
    createTable(tx, at, connector, { entity, key, columns: stored });
  }
  const marker = firstMarker(copied, await reserveNumbers(tx, at, 'partitions', copied.highestPartition));
  await tx.run(
    `INSERT INTO ${at}_sync_copies (connector, version, source, source_name, target_name, state, entities, shift, entity, row, holder, since)
     VALUES (:connector, :version, :source, :from, :to, :state, :entities, :shift, NULL, 0, :holder, :since)`,
    { ...marker, ...names, since: instant(clock.now()) },
  );
  return { state: 'begun', marker };
}

async function readMarker(tx: Tx, at: string, connector: ConnectorName): Promise<CopyMarker | undefined> {
  return await tx.first<CopyMarker>(
    `SELECT version, source, state, entities, shift, entity, row, finished_at FROM ${at}_sync_copies WHERE connector = :connector`,
    { connector },
  );
}

async function dropCopy(
  tx: Tx,
  at: string,
  connector: ConnectorName,
  { entities }: CopyMarker,
): Promise<void> {
  const tables = parseNames(entities).map((entity) => tableAt(at, connector, entity));
  if (tables.length > 0) await tx.run(`DROP TABLE IF EXISTS ${tables.toSorted().join(', ')}`);
  await dropFacts(tx, at, connector);
  await tx.run(`DELETE FROM ${at}_sync_copies WHERE connector = :connector`, { connector });
}

async function dropFacts(tx: Tx, at: string, connector: ConnectorName): Promise<void> {
  await tx.run(
    `DELETE FROM ${at}_sync_counts WHERE run IN (SELECT run FROM ${at}_sync_runs WHERE connector = :connector)`,
    { connector },
  );
  await transitions.dropConnector(tx, at, { connector });
  for (const of of factNames) {
    if (of === 'counts' || of === 'partitions') continue;
    await tx.run(`DELETE FROM ${at}_sync_${of} WHERE connector = :connector`, { connector });
  }
}
