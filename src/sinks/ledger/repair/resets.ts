import * as z from 'zod';
import { readJson } from '../../../core/json-text.ts';
import type { ConnectorName, EntityName } from '../../../core/names.ts';
import { usage } from '../../../core/errors.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { IdentityChangedError } from '../../acquire-errors.ts';
import type { AdoptedIdentity, ResetCounts, ResetScope } from '../../repair.ts';
import type { RecordTables } from '../driver.ts';
import { transitions } from '../partitions/transitions.ts';
import { forbidContinuing } from '../runs/runs.ts';
import { knownEntities } from '../tables.ts';

/** One connector in a transaction that holds it. */
export interface Resetting {
  readonly tx: Tx;
  readonly records: RecordTables;
  readonly connector: ConnectorName;
  readonly what: Pick<ResetScope, 'withData' | 'now'>;
}

export async function resetEntity(
  resetting: Resetting,
  entities: readonly EntityName[],
): Promise<ResetCounts> {
  const partitions = await readAgain(resetting, entities);
  return { partitions, rows: resetting.what.withData ? await dropRecords(resetting, entities) : 0 };
}

export async function resetConnector(
  resetting: Resetting,
  entities: readonly EntityName[],
): Promise<ResetCounts> {
  const { tx, connector, what } = resetting;
  const partitions = await readAgain(resetting, entities);
  await deleteOf(resetting, ['_sync_windows']);
  await forbidContinuing(tx, connector);
  if (!what.withData) return { partitions, rows: 0 };
  const rows = await dropRecords(resetting, entities);
  // A pause stays: it is a person's request, not progress.
  await forgetConnector(tx, connector);
  return { partitions, rows };
}

/** Begins a connector afresh that has no stored data, whatever was tried before under its name. */
export async function beginAfresh(
  of: Pick<Resetting, 'tx' | 'records' | 'connector'> & Pick<ResetScope, 'now'>,
) {
  const { now, ...where } = of;
  const resetting: Resetting = { ...where, what: { withData: false, now } };
  const entities = await knownEntities(of.tx, of.connector);
  await resetConnector(resetting, entities);
  await dropRecords(resetting, entities);
}

/**
 * Makes the living partitions of the entities due from their start, and gives how many; their progress is discarded.
 * They are ready where an unfinished chain reads the entity, so that a run that resumes it walks them too.
 */
export async function readAgain(resetting: Resetting, entities: readonly EntityName[]): Promise<number> {
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

/** Drops the records and the ledger's facts about them; returns their number. The partitions stay. */
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

/** The entity with those exploded from its records; null: all of the connector. */
export function resetEntities({ entity, tables }: ResetScope): readonly EntityName[] | null {
  return entity === null ? null : [...new Set([entity, ...tables.map((table) => table.entity)])];
}

/** `known`: every known entity; null where the connector is unknown. Throws USAGE where there is nothing to forget. */
export function checkReset(
  connector: ConnectorName,
  { entity, tables }: ResetScope,
  known: readonly EntityName[] | null,
): void {
  const [walked] = tables;
  if (entity !== null && walked !== undefined && walked.entity !== entity) {
    throw usage(
      `Rows of "${entity}" are made from records of "${walked.entity}" and are read with them. Reset ${connector}/${walked.entity}.`,
    );
  }
  if (entity === null ? known !== null : known?.includes(entity) === true) return;
  const what = entity === null ? `connector "${connector}"` : `${connector}/${entity}`;
  throw usage(
    `The sink holds nothing of ${what}: it has never been read. Check the name; \`status\` lists what is there.`,
  );
}

/**
 * `definition`: the connector type that is stored; undefined where the sink holds nothing. Throws USAGE, and
 * `IdentityChangedError` for another type.
 */
export function checkAdoption({ connector, definition }: AdoptedIdentity, stored: string | undefined): void {
  if (stored === undefined) {
    throw usage(`The sink holds nothing of connector "${connector}". Sync it, there is nothing to adopt.`);
  }
  if (stored !== definition) {
    throw new IdentityChangedError(connector, [{ what: 'definition', stored, given: definition }]);
  }
}

/** Tables of the ledger's facts about a connector, runs before their counts. */
export const factNames = [
  '_sync_runs',
  '_sync_counts',
  '_sync_partitions',
  '_sync_seen',
  '_sync_also',
  '_sync_missing',
  '_sync_drift',
  '_sync_windows',
  '_sync_hours',
  '_sync_quarantine',
  '_sync_downloads',
  '_sync_versions',
  '_sync_days',
  '_sync_masks',
  '_sync_actions',
  '_sync_conditions',
  '_sync_purge_keys',
  '_sync_purged',
  '_sync_purge_work',
  '_sync_retained',
] as const;

/** The rows of `:connector` in a table of the ledger. */
export function whichFacts(table: string): string {
  return table === '_sync_counts'
    ? 'run IN (SELECT run FROM _sync_runs WHERE connector = :connector)'
    : 'connector = :connector';
}

/**
 * Removes the ledger's facts about the connector, and the rows that identify it. Noted actions of people stay, and so
 * do the change counter and the notes of purged records, which would come back otherwise.
 */
export async function forgetConnector(
  tx: Tx,
  connector: ConnectorName,
  also: readonly string[] = [],
): Promise<void> {
  await dropFacts(tx, connector, ['_sync_actions', '_sync_purge_keys', '_sync_purged', '_sync_purge_work']);
  const small = ['_sync_raw', '_sync_progress', '_sync_tables', '_sync_connectors', '_sync_copies'];
  for (const table of [...small, ...also]) await clearFacts(tx, table, connector);
}

/** Removes the ledger's facts about the connector, except the tables `kept`. */
export async function dropFacts(
  tx: Tx,
  connector: ConnectorName,
  kept: readonly (typeof factNames)[number][] = [],
): Promise<void> {
  for (const table of factNames.toReversed()) {
    if (!kept.includes(table)) await clearFacts(tx, table, connector);
  }
}

export async function clearFacts(tx: Tx, table: string, connector: ConnectorName): Promise<void> {
  if (table === '_sync_partitions') await transitions.dropConnector(tx, { connector });
  else await tx.run(`DELETE FROM ${table} WHERE ${whichFacts(table)}`, { connector });
}
