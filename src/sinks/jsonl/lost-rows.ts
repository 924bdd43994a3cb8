import type { EntityName, OfEntities } from '../../core/names.ts';
import { columnOf, cellOf, type Tx } from '../../sql/database.ts';
import { quoted } from '../../sql/quoted.ts';
import { givenUpHash, lostHash } from '../decisions/meet-record.ts';
import { tableName } from '../decisions/stored-table.ts';
import type { TablePlace, Stamp } from '../ledger/record-table.ts';
import type { RowsOf } from '../run-report.ts';

/*
 * Rows of which an earlier version, which kept the keys alone in its ledger, had lost the lines: they have no fields,
 * and are written again when a walk meets them. This version loses none.
 */

/** Exactly the condition of an index: otherwise the index is not used. */
export const isLost = `_hash IN ('${lostHash}', '${givenUpHash}')`;
/** Of a deleted row whose fields are in older lines alone. */
export const deletedHash = 'deleted';

const isToCome = `${isLost} AND _hash = '${lostHash}' AND _deleted_at IS NULL`;

/** Made where rows were lost, and only there. */
export function lostIndexSql(table: string): string {
  return `CREATE INDEX ${quoted(lostIndexName(table))} ON ${quoted(table)} (_row) WHERE ${isLost}`;
}

function lostIndexName(table: string): string {
  return `${table}__lost`;
}

/** Those of the entities of which rows were ever lost. */
async function withLosses(tx: Tx, { connector, entities }: OfEntities): Promise<readonly EntityName[]> {
  if (entities.length === 0) return [];
  const found = await columnOf<string>(
    tx,
    `SELECT name FROM sqlite_schema WHERE type = 'index' AND name IN {names text}`,
    { names: entities.map((entity) => lostIndexName(tableName(connector, entity))) },
  );
  return entities.filter((entity) => found.includes(lostIndexName(tableName(connector, entity))));
}

export async function countLost(tx: Tx, of: OfEntities): Promise<readonly RowsOf[]> {
  const lost: RowsOf[] = [];
  for (const entity of await withLosses(tx, of)) {
    const sql = `SELECT count(*) FROM ${quoted(tableName(of.connector, entity))} WHERE ${isToCome}`;
    const rows = (await cellOf<number>(tx, sql)) ?? 0;
    if (rows > 0) lost.push({ entity, rows });
  }
  return lost;
}

/** They were reported, and are not counted again: every listing has been read since, and none showed them. */
export async function giveUpLost(tx: Tx, of: OfEntities): Promise<void> {
  for (const entity of await withLosses(tx, of)) {
    await tx.run(
      `UPDATE ${quoted(tableName(of.connector, entity))} SET _hash = '${givenUpHash}' WHERE ${isToCome}`,
    );
  }
}

/** Deletions whose lines are lost become changes again: everything that such a line says is stored. */
export async function stampLostDeletions(
  tx: Tx,
  { connector, table }: TablePlace,
  stamp: Stamp,
): Promise<void> {
  const [entity] = await withLosses(tx, { connector, entities: [table.entity] });
  if (entity === undefined) return;
  const name = quoted(tableName(connector, entity));
  const rows = await tx.rows<{ readonly row: number }>(
    `SELECT _row AS row FROM ${name} WHERE ${isLost} AND _deleted_at IS NOT NULL ORDER BY _row`,
  );
  if (rows.length === 0) return;
  const { now, run } = stamp;
  await tx.run(
    `UPDATE ${name} SET _hash = '${deletedHash}', _changed_at = :now, _run_id = :run, _seq = :first + v.n - 1
     FROM {v: row bigint, n} WHERE _row = v.row`,
    { v: rows, now, run, first: await stamp.takeSeqs(rows.length) },
  );
}
