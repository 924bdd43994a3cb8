import * as z from 'zod';
import type { SyncError } from '../../../core/errors.ts';
import type { EntityName, RunId, ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import { noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import { checkCounts } from '../../decisions/add-up.ts';
import type { Repair, UndeletedRows, ResetCounts, ResetScope } from '../../repair.ts';
import type { RowsOf } from '../../run-report.ts';
import { noteAction } from '../actions.ts';
import { dropFacts } from '../copies/copy-in.ts';
import { addCounts } from '../counts.ts';
import { deleteRows } from '../deletes/delete-rows.ts';
import { beginFiles } from '../downloads/note-files.ts';
import { adopt, repairing } from '../acquire.ts';
import { long, type Commit, type InLease, type Ledger } from '../ledger.ts';
import { transitions } from '../partitions/transitions.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { noteStored, tableNumbers } from '../stored-rows.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { readJson } from '../../../core/json-text.ts';
import { checkReset, resetEntities } from '../../decisions/repair-scope.ts';
import { storedIdentity } from '../connectors.ts';
import type { RecordTables } from '../driver.ts';
import { forbidContinuing } from '../runs/runs.ts';
import { knownEntities } from '../tables.ts';
import { openRemoval } from './removal.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';

/** `Repair` of a sink. */
export function ledgerRepair(ledger: Ledger, inLease: InLease): Repair {
  return {
    reset: (connector, what) => reset(ledger, connector, what),
    adopt: (identity, now) => adopt(ledger, identity, now),
    remove: (connector, holder) => openRemoval(ledger, connector, holder),
    undelete: inLease(undelete, long),
    storeRecord: inLease(storeOne),
    tombstoneRecord: inLease(tombstoneOne),
  };
}

/** `Repair.undelete`: table after table, until `limit` rows are back. */
async function undelete(commit: Commit, of: RunId, limit: number): Promise<UndeletedRows> {
  const { held, current, stamp, tx } = commit;
  const { connector } = held;
  const rows: RowsOf[] = [];
  let left = limit;
  for (const [entity, table] of current.tables) {
    const tombstoned = left > 0 ? await table.tombstonedBy(tx, of, left) : [];
    if (tombstoned.length === 0) continue;
    await table.revive(tx, tombstoned, stamp);
    const stored = await table.rows(tx, tombstoned);
    const keyTexts = [...stored.values()].map(({ keyText }) => keyText);
    await giveBackBelow(commit, entity, keyTexts);
    await beginFiles(tx, { connector, entity }, keyTexts);
    rows.push({ entity, rows: tombstoned.length });
    left -= tombstoned.length;
  }
  const revived = rows.map(({ entity, rows: count }) => ({
    entity,
    inserted: 0,
    revived: count,
    changed: 0,
  }));
  const numbers = await tableNumbers(tx, { connector, entities: revived.map(({ entity }) => entity) });
  noteStored(tx, connector, revived, { origin: current.origin, now: stamp.now, numbers });
  return { rows, isDone: left > 0 };
}

async function giveBackBelow(
  { held: { connector }, current, stamp, tx }: Commit,
  entity: EntityName,
  keyTexts: readonly string[],
): Promise<void> {
  const below = { connector, entity, keyHashes: keyTexts.map(textHash) };
  await transitions.giveBack(tx, { ...below, origin: current.origin, now: stamp.now });
}

/** `Repair.storeRecord`. */
async function storeOne(
  commit: Commit,
  entity: EntityName,
  record: PreparedRecord,
  isEdited = false,
): Promise<PageCounts> {
  const { current, tx } = commit;
  const { keyText } = record;
  if (current.purged?.isPurged(entity, record) === true) throw purgedError(entity);
  const before = (await current.tables.get(entity)?.find(tx, [record]))?.get(keyText);
  const shown = [{ entity, records: [record], isInsertOnly: false, isEdited, owner: null }];
  const [stored] = await storeRows(commit, shown, await readStored(commit, shown));
  const counts = { ...noCounts, fetched: 1, ...stored };
  checkCounts(entity, counts);
  addCounts(tx, current.run, [{ entity, counts }]);
  current.seen.save(tx);
  if (before !== undefined && before.deletedAt !== null) await giveBackBelow(commit, entity, [keyText]);
  return counts;
}

function purgedError(entity: EntityName): SyncError {
  return usage(
    `This record of ${entity}, or the one that it belongs to, was purged, and purged records stay away. To let it return, purge it once more with --allow-return.`,
  );
}

/**
 * `Repair.tombstoneRecord`. A person asked for it by its key, with `--allow-deletes`: what lies below goes along, as it
 * does in a sync that is allowed to delete.
 */
async function tombstoneOne(commit: Commit, entity: EntityName, keyText: string): Promise<boolean> {
  const table = commit.current.tables.get(entity);
  const stored = (await table?.rowsOf(commit.tx, [keyText]))?.get(keyText);
  if (stored === undefined || stored.deletedAt !== null) return false;
  await deleteRows(commit, entity, [{ row: stored.row, keyText: stored.keyText, permission: 'allowed' }]);
  return true;
}

/** One connector in a transaction that holds it. */
interface Resetting {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
  readonly what: ResetScope;
}

/**
 * Forgets how far an entity or a whole connector has been read, with `withData` its records too. The connector's
 * identity stays as it is; the number of its newest change stays even when the connector is forgotten, so that none is
 * given twice.
 */
async function reset(ledger: Ledger, connector: ConnectorName, what: ResetScope): Promise<ResetCounts> {
  const mend = what.withData ? null : await ledger.lines?.findDamage(connector, resetEntities(what));
  return await repairing(ledger, connector, async (tx) => {
    const resetting: Resetting = { tx, records: ledger.records, connector, what };
    const entities = await knownEntities(tx, connector);
    const isKnown = what.entity !== null || (await storedIdentity(tx, connector)) !== undefined;
    checkReset(connector, what, isKnown ? entities : null);
    await mend?.(tx);
    const chosen = resetEntities(what);
    const counts =
      chosen === null ? await resetConnector(resetting, entities) : await resetEntity(resetting, chosen);
    const { entity, withData } = what;
    noteAction(tx, ledger, { action: 'reset', connector, entity, detail: { withData, ...counts } });
    return counts;
  });
}

async function resetEntity(resetting: Resetting, entities: readonly EntityName[]): Promise<ResetCounts> {
  const partitions = await readAgain(resetting, entities);
  return { partitions, rows: resetting.what.withData ? await dropRecords(resetting, entities) : 0 };
}

async function resetConnector(resetting: Resetting, entities: readonly EntityName[]): Promise<ResetCounts> {
  const { tx, connector, what } = resetting;
  const partitions = await readAgain(resetting, entities);
  await deleteOf(resetting, ['_sync_windows']);
  await forbidContinuing(tx, connector);
  if (!what.withData) return { partitions, rows: 0 };
  const rows = await dropRecords(resetting, entities);
  // The rest of the connector. A pause stays: it is a person's request, not progress; so does what people did, and what
  // they purged stays away.
  await dropFacts(tx, connector, ['actions', 'purge_keys', 'purged']);
  await deleteOf(resetting, ['_sync_tables', '_sync_connectors', '_sync_copies', '_sync_progress']);
  return { partitions, rows };
}

/**
 * Makes the living partitions of the entities due from their start, and gives how many; their progress is discarded.
 * They are ready where an unfinished chain reads the entity, so that a run that resumes it walks them too.
 */
async function readAgain(resetting: Resetting, entities: readonly EntityName[]): Promise<number> {
  const { tx, connector, what } = resetting;
  await transitions.dropUnfinished(tx, { connector, entities });
  await deleteOf(resetting, ['_sync_missing', '_sync_seen', '_sync_raw'], entities);
  const newest = await cellOf<string>(
    tx,
    `SELECT scope FROM _sync_runs WHERE connector = :connector AND chain = '' ORDER BY number DESC LIMIT 1`,
    { connector },
  );
  const reading = newest === undefined ? [] : readScope.parse(readJson(newest)).entities;
  return await transitions.readAgain(tx, { connector, entities, now: what.now, reading });
}

const readScope = z.object({ entities: z.array(z.string()) });

const tablesOfRecords = [
  '_sync_tables',
  '_sync_versions',
  '_sync_hours',
  '_sync_days',
  '_sync_also',
  '_sync_quarantine',
  '_sync_drift',
  '_sync_downloads',
  '_sync_retained',
  '_sync_masks',
];

/** The records and what the ledger says of them; gives how many there were. The partitions stay. */
async function dropRecords(resetting: Resetting, entities: readonly EntityName[]): Promise<number> {
  const { tx, records, connector } = resetting;
  if (entities.length === 0) return 0;
  const stored = await cellOf<number | null>(
    tx,
    `SELECT CAST(sum(rows) AS bigint) FROM _sync_tables WHERE connector = :connector AND entity IN {entities text}`,
    { connector, entities },
  );
  await records.drop(tx, connector, entities);
  await deleteOf(resetting, tablesOfRecords, entities);
  return stored ?? 0;
}

/** Every statement names the connector: nothing of another one is touched. Of all its entities where none are named. */
async function deleteOf(
  { tx, connector }: Resetting,
  tables: readonly string[],
  entities: readonly EntityName[] | null = null,
): Promise<void> {
  for (const table of tables) {
    const from = `DELETE FROM ${table} WHERE connector = :connector`;
    if (entities === null) await tx.run(from, { connector });
    else await tx.run(`${from} AND entity IN {entities text}`, { connector, entities });
  }
}
