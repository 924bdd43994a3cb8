import type { ConnectorName, EntityName, OfEntity } from '../../../core/names.ts';
import type { Tx } from '../../../sql/database.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { RecordTables } from '../driver.ts';
import { emptyRaw } from '../raw-rows.ts';
import type { KeyedRow } from '../record-table.ts';
import { deleteVersionsOf, versionedEntities } from '../versions/versions.ts';

/** What a removal works on. */
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

/** What is known of these files; they are removed from their folder before. */
export async function forgetFiles(tx: Tx, of: OfEntity, keyTexts: Iterable<string>): Promise<void> {
  await tx.run(`DELETE FROM _sync_downloads WHERE ${ofKeys}`, {
    ...of,
    keyHashes: [...keyTexts].map(textHash),
  });
}
