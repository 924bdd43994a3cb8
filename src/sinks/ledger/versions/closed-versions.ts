import type { Instant } from '../../../core/clock.ts';
import type { OfEntity } from '../../../core/names.ts';
import { cellOf, type Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { versionsName } from '../../records/own-names.ts';
import type { RecordTables } from '../driver.ts';

type Names = Pick<RecordTables, 'tableName'>;

/**
 * How many versions of an entity ended before `before`, up to the first one that did not: younger ones are not read.
 * The entity has versions.
 */
export async function countEndedVersions(
  tx: Tx,
  records: Names,
  of: OfEntity,
  before: Instant,
): Promise<number> {
  const versions = tableOf(records, of);
  const younger = `SELECT _seq_to FROM ${versions} WHERE _valid_to >= :before ORDER BY _seq_to LIMIT 1`;
  const sql = `SELECT count(*) FROM ${versions} WHERE _seq_to < coalesce((${younger}), ${Number.MAX_SAFE_INTEGER})`;
  return (await cellOf<number>(tx, sql, { before })) ?? 0;
}

export async function countVersions(tx: Tx, records: Names, of: OfEntity): Promise<number> {
  return (await cellOf<number>(tx, `SELECT count(*) FROM ${tableOf(records, of)}`)) ?? 0;
}

/**
 * Deletes versions of an entity that ended before `before`, the oldest ones first and at most `limit` of them; gives
 * how many, 0 where there are no more. The entity has versions (`versionedEntities`).
 */
export async function deleteEndedVersions(
  tx: Tx,
  records: Names,
  of: OfEntity,
  { before, limit }: { readonly before: Instant; readonly limit: number },
): Promise<number> {
  const versions = tableOf(records, of);
  // In the order of their ends, so that it stops at the first one that is younger.
  return await tx.run(
    `DELETE FROM ${versions} WHERE _seq_to IN (SELECT few._seq_to FROM (
       SELECT _seq_to, _valid_to FROM ${versions} ORDER BY _seq_to LIMIT :limit) AS few WHERE few._valid_to < :before)`,
    { before, limit },
  );
}

/** Deletes all closed versions of these rows; gives how many. The entity has versions. */
export async function deleteVersionsOf(
  tx: Tx,
  records: Names,
  of: OfEntity,
  rows: readonly number[],
): Promise<number> {
  if (rows.length === 0) return 0;
  return await tx.run(`DELETE FROM ${tableOf(records, of)} WHERE _row IN {rows bigint}`, { rows });
}

/** The change with which the newest closed version ended; 0: there is none. The entity has versions. */
export async function newestVersion(tx: Tx, records: Names, of: OfEntity): Promise<number> {
  return (await cellOf<number | null>(tx, `SELECT max(_seq_to) FROM ${tableOf(records, of)}`)) ?? 0;
}

function tableOf({ tableName }: Names, { connector, entity }: OfEntity): string {
  return quoted(versionsName(tableName(connector, entity)));
}
