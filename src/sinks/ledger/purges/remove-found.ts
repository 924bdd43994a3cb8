import { randomUUID } from 'node:crypto';
import { isJsonArray, isJsonObject, type JsonValue } from '../../../core/json.ts';
import { readJson, writeJson } from '../../../core/json-text.ts';
import type { EntityName } from '../../../core/names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { PurgedOf } from '../../purges.ts';
import { emptyRaw } from '../raw-rows.ts';
import { transitions } from '../partitions/transitions.ts';
import { deleteVersionsOf } from '../versions/closed-versions.ts';
import { versionedEntities } from '../versions/versions.ts';
import type { FoundOf, FoundRecords, PurgingTx } from './find-below.ts';
import { findQuarantined } from './find-quarantined.ts';

/** Files of records that go: names in the folder of downloads. */
export async function filesOf(
  { tx, connector }: PurgingTx,
  { entity, keyTexts }: FoundOf,
): Promise<readonly string[]> {
  const found = await tx.rows<{ readonly file: string | null; readonly replaced: string | null }>(
    `SELECT file, replaced FROM _sync_downloads
     WHERE connector = :connector AND entity = :entity AND key_hash IN {keyHashes bytea}`,
    { connector, entity, keyHashes: [...keyTexts].map(textHash) },
  );
  return found.flatMap(({ file, replaced }) => [file, replaced]).filter((file) => file !== null);
}

export async function countFound(purging: PurgingTx, found: FoundRecords): Promise<readonly PurgedOf[]> {
  return (await lookAt(purging, found)).map(({ counts }) => counts);
}

async function lookAt(purging: PurgingTx, found: FoundRecords) {
  const looks: { readonly counts: PurgedOf; readonly quarantined: readonly number[] }[] = [];
  for (const one of found.of.values()) {
    const quarantined = await findQuarantined(purging, found, one);
    const counts = {
      entity: one.entity,
      rows: one.rows.size,
      quarantined: quarantined.length,
      files: (await filesOf(purging, one)).length,
      listings: one.listings.length,
    };
    looks.push({ counts, quarantined });
  }
  return looks;
}

/**
 * Removes what was found, with all that the ledger holds of it; gives how much. The table gets another id: what follows
 * its rows by their numbers would never hear of those that are removed.
 */
export async function removeFound(purging: PurgingTx, found: FoundRecords): Promise<readonly PurgedOf[]> {
  const looks = await lookAt(purging, found);
  const { tx, connector } = purging;
  for (const one of found.of.values()) {
    await removeRows(purging, one);
    await tx.run(
      `DELETE FROM _sync_downloads
       WHERE connector = :connector AND entity = :entity AND key_hash IN {keyHashes bytea}`,
      { connector, entity: one.entity, keyHashes: [...one.keyTexts].map(textHash) },
    );
    // A position may name the record that a walk met last: the walk begins again.
    await transitions.walkFromStart(tx, { connector, entity: one.entity });
  }
  await tx.run('DELETE FROM _sync_quarantine WHERE connector = :connector AND id IN {ids bigint}', {
    connector,
    ids: looks.flatMap(({ quarantined }) => quarantined),
  });
  const listings = [...found.of.values()].flatMap((one) => one.listings);
  const ids = listings.map(({ id }) => id);
  await tx.run('DELETE FROM _sync_also WHERE partition IN {ids bigint}', { ids });
  await tx.run('DELETE FROM _sync_missing WHERE connector = :connector AND partition IN {ids bigint}', {
    connector,
    ids,
  });
  await transitions.purge(tx, { ids });
  await clearTexts(purging, found);
  return looks.map(({ counts }) => counts);
}

/** The rows alone, with their versions. */
export async function removeRows(
  { tx, records, connector }: PurgingTx,
  one: Pick<FoundOf, 'entity' | 'table' | 'rows' | 'moved'>,
): Promise<void> {
  const { entity, table, moved } = one;
  const rows = [...one.rows.values()];
  if (table === null) return;
  const of = { connector, entity };
  const numbers = rows.map(({ row }) => row);
  records.open({ connector, table, stored: table.columns }).setOwners(tx, moved);
  for (const { row, owner } of moved) {
    await tx.run(
      `DELETE FROM _sync_also WHERE connector = :connector AND entity = :entity AND row = :row AND partition = :owner`,
      { ...of, row, owner },
    );
  }
  if (numbers.length === 0) return;
  await tx.run(`DELETE FROM ${quoted(records.tableName(connector, entity))} WHERE _row IN {numbers bigint}`, {
    numbers,
  });
  for (const name of ['_sync_also', '_sync_missing']) {
    await tx.run(
      `DELETE FROM ${name} WHERE connector = :connector AND entity = :entity AND row IN {numbers bigint}`,
      { ...of, numbers },
    );
  }
  if ((await versionedEntities(tx, connector)).has(entity)) {
    await deleteVersionsOf(tx, records, of, numbers);
  }
  await emptyRaw(tx, of, numbers);
  await tx.run(
    `UPDATE _sync_tables SET rows = rows - :rows, deleted = deleted - :deleted, table_id = :tableId
     WHERE connector = :connector AND entity = :entity`,
    {
      ...of,
      rows: rows.length,
      deleted: rows.filter(({ deletedAt }) => deletedAt !== null).length,
      tableId: randomUUID(),
    },
  );
}

/** Takes keys of the records, and the listings below them, out of reports of runs and of what people did. */
async function clearTexts({ tx, connector }: PurgingTx, { of }: FoundRecords): Promise<void> {
  const keys = new Map<EntityName, ReadonlySet<string>>();
  const params = new Set<string>();
  for (const { entity, keyTexts, listings } of of.values()) {
    keys.set(entity, keyTexts);
    for (const listing of listings) params.add(writeJson(readJson(listing.params)));
  }
  const actions = await tx.rows<{
    readonly id: number;
    readonly entity: EntityName;
    readonly detail: string;
  }>(
    `SELECT id, entity, detail FROM _sync_actions
     WHERE connector = :connector AND action = 'refetch' AND entity IN {entities text}`,
    { connector, entities: [...keys.keys()] },
  );
  for (const { id, entity, detail } of actions) {
    const value = readJson(detail);
    const key = isJsonObject(value) ? value['key'] : null;
    if (typeof key !== 'string' || keys.get(entity)?.has(key) !== true) continue;
    await tx.run(`UPDATE _sync_actions SET detail = '{}' WHERE id = :id`, { id });
  }
  if (params.size === 0) return;
  const failed = await tx.rows<{ readonly run: string; readonly report: string }>(
    `SELECT run, report FROM _sync_runs WHERE connector = :connector AND report LIKE '%"params":{"%'`,
    { connector },
  );
  for (const { run, report } of failed) {
    const cleared = writeJson(withoutParams(readJson(report), params));
    if (cleared === report) continue;
    await tx.run('UPDATE _sync_runs SET report = :cleared WHERE run = :run', { run, cleared });
  }
}

/** What is reported of a listing that goes: nothing that names it. */
function withoutParams(value: JsonValue, params: ReadonlySet<string>): JsonValue {
  if (isJsonArray(value)) return value.map((one) => withoutParams(one, params));
  if (!isJsonObject(value)) return value;
  const isGone = isJsonObject(value['params']) && params.has(writeJson(value['params']));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      if (isGone && name === 'params') return [name, {}];
      if (isGone && name === 'message') return [name, 'of a record that was purged'];
      return [name, withoutParams(member, params)];
    }),
  );
}
