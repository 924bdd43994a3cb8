import { instant } from '../../../core/clock.ts';
import { SyncError } from '../../../core/errors.ts';
import type { ConnectorName, EntityName, OfEntity } from '../../../core/names.ts';
import { type Tx, quoted, textHash } from '../../../sql/database.ts';
import type { LeftStep, PurgeRequest, PurgeStep, PurgeWork } from '../../purges.ts';
import type { RewrittenLines, Taken, RecordTables, KeyedRow } from '../driver.ts';
import { outsideRun, type Ledger } from '../ledger.ts';
import { storedTable, versionedEntities, deleteVersionsOf } from '../tables.ts';
import { versionsName } from '../../records/own-names.ts';
import { ensureMac, readNotes } from './purge-notes.ts';
import { emptyRaw } from '../row-blocks.ts';

/** Unfinished purge steps of all connectors, or of `only` these. */
export async function readPurgeWork(tx: Tx, only?: readonly ConnectorName[]): Promise<readonly PurgeWork[]> {
  return await tx.rows<PurgeWork>(
    `SELECT connector, step, entity, since FROM _sync_purge_work
     ${only === undefined ? '' : 'WHERE connector IN {only text}'} ORDER BY connector, step, entity`,
    only === undefined ? {} : { only },
  );
}

/** Unfinished purge steps of the connector in the sink itself. */
export async function readSteps(tx: Tx, connector: ConnectorName): Promise<readonly PurgeWork[]> {
  return (await readPurgeWork(tx, [connector])).filter(({ step }) => step === 'lines' || step === 'space');
}

interface NotedOf extends Pick<PurgeRequest, 'targets'> {
  readonly connector: ConnectorName;
  readonly entities: readonly EntityName[];
}

/** Steps in the sink itself after rows are removed. */
export function ownSteps({ lines }: Pick<Ledger, 'lines'>): readonly PurgeStep[] {
  return lines === undefined ? ['space'] : ['lines', 'space'];
}

/** Notes the steps that follow the removal of these entities' rows, in the same transaction. */
export async function noteSteps(
  tx: Tx,
  { clock }: Pick<Ledger, 'clock'>,
  { connector, targets, ...of }: NotedOf,
  own: readonly PurgeStep[] = [],
): Promise<void> {
  const since = instant(clock.now());
  const steps = [...own, ...targets.map((name): PurgeStep => `target:${name}`)];
  const v = steps.flatMap((step) => of.entities.map((entity) => ({ step, entity })));
  if (v.length === 0) return;
  await tx.run(
    `INSERT INTO _sync_purge_work (connector, step, entity, since)
     SELECT CAST(:connector AS text), v.step, v.entity, CAST(:since AS text)
     FROM {v: step text, entity text, n} ORDER BY v.n
     ON CONFLICT (connector, step, entity) DO UPDATE SET since = excluded.since`,
    { connector, since, v },
  );
}

/** Rewrites lines first, because that writes to the database whose space is given back. Failed steps stay noted. */
export async function completeSteps(ledger: Ledger, taken: Taken): Promise<readonly LeftStep[]> {
  const { connector } = taken;
  await removeNotedLines(ledger, taken);
  const steps = await taken.read(async (tx) => await readSteps(tx, connector));
  const space = steps.filter(({ step }) => step === 'space');
  if (space.length === 0) return [];
  try {
    const versioned = await taken.read(async (tx) => await versionedEntities(tx, connector));
    const tables = space.flatMap(({ entity }) => {
      const name = ledger.records.tableName(connector, entity);
      return versioned.has(entity) ? [name, versionsName(name)] : [name];
    });
    await ledger.giveBack(tables);
    await done(taken, space);
    return [];
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return space.map((one) => ({ ...one, why: error.message }));
  }
}

/** Removes lines of rows that a purge, or retention, has removed. */
export async function removeNotedLines(ledger: Ledger, taken: Taken, signal?: AbortSignal): Promise<void> {
  const steps = await taken.read(async (tx) => await readSteps(tx, taken.connector));
  for (const one of steps.filter(({ step }) => step === 'lines')) {
    await removeLines(ledger, taken, one.entity, signal);
    await done(taken, [one]);
  }
}

async function done(taken: Taken, work: readonly PurgeWork[]): Promise<void> {
  await outsideRun(taken, async (tx) => await dropWork(tx, work));
}

/** Drops work as it was read: work noted again meanwhile stays. */
export async function dropWork(tx: Tx, work: readonly PurgeWork[]): Promise<void> {
  for (const one of work) {
    await tx.run(
      `DELETE FROM _sync_purge_work
       WHERE connector = :connector AND step = :step AND entity = :entity AND since = :since`,
      { ...one },
    );
  }
}

/** Lines of purged records, and of records whose rows are gone. */
async function removeLines(
  ledger: Ledger,
  taken: Taken,
  entity: EntityName,
  signal?: AbortSignal,
): Promise<void> {
  const { connector } = taken;
  const { lines } = ledger;
  if (lines === undefined) return;
  const { table, macOf, notes } = await outsideRun(taken, async (tx) => ({
    table: await storedTable(tx, { connector, entity }),
    macOf: await ensureMac(tx, connector),
    notes: await readNotes(tx, connector),
  }));
  // A mask of its key has removed all of it.
  if (table === undefined) {
    await lines.tidy(taken, [entity]);
    return;
  }
  const seqs = new Map(
    notes.flatMap((note) => (note.entity === entity ? [[note.mac.toString('hex'), note.seq] as const] : [])),
  );
  const line: RewrittenLines['line'] = (written, { keyText, seq }) =>
    seq <= (seqs.get(macOf(entity, keyText)) ?? -1) ? null : written;
  await lines.rewrite({ connector, table, line, signal }, taken);
}

/** Context of a removal. */
export interface PurgingTx {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
}

/** Rows of an entity, tombstoned or not, with their versions and all that is noted of them by their numbers. */
export async function removeForGood(
  { tx, records, connector }: PurgingTx,
  entity: EntityName,
  rows: readonly Pick<KeyedRow, 'row' | 'deletedAt'>[],
): Promise<void> {
  const of = { connector, entity };
  const numbers = rows.map(({ row }) => row);
  const table = quoted(records.tableName(connector, entity));
  await tx.run(`DELETE FROM ${table} WHERE _row IN {numbers bigint}`, { numbers });
  for (const name of ['_sync_also', '_sync_missing']) {
    await tx.run(
      `DELETE FROM ${name} WHERE connector = :connector AND entity = :entity AND row IN {numbers bigint}`,
      { ...of, numbers },
    );
  }
  // A later purge would not find the versions without their row.
  if ((await versionedEntities(tx, connector)).has(entity)) {
    await deleteVersionsOf(tx, records, of, numbers);
  }
  await emptyRaw(tx, of, numbers);
  await tx.run(
    `UPDATE _sync_tables SET rows = rows - :rows, deleted = deleted - :deleted
     WHERE connector = :connector AND entity = :entity`,
    { ...of, rows: rows.length, deleted: rows.filter(({ deletedAt }) => deletedAt !== null).length },
  );
}

const ofKeys = `connector = :connector AND entity = :entity AND key_hash IN {keyHashes bytea}`;

/** Files of records that go: names in the folder of downloads. */
export async function filesOf(tx: Tx, of: OfEntity, keyTexts: Iterable<string>): Promise<readonly string[]> {
  const found = await tx.rows<{ readonly file: string | null; readonly replaced: string | null }>(
    `SELECT file, replaced FROM _sync_downloads WHERE ${ofKeys}`,
    { ...of, keyHashes: [...keyTexts].map(textHash) },
  );
  return found.flatMap(({ file, replaced }) => [file, replaced]).filter((file) => file !== null);
}

/** Deletes the facts about these records' files. The files are removed from their folder before. */
export async function forgetFiles(tx: Tx, of: OfEntity, keyTexts: Iterable<string>): Promise<void> {
  await tx.run(`DELETE FROM _sync_downloads WHERE ${ofKeys}`, {
    ...of,
    keyHashes: [...keyTexts].map(textHash),
  });
}
