import { randomUUID } from 'node:crypto';
import { writeJson } from '../../../core/json-text.ts';
import type { EntityName } from '../../../core/names.ts';
import { quoted } from '../../../sql/quoted.ts';
import { textHash } from '../../../sql/text-hash.ts';
import type { PurgedOf } from '../../purges.ts';
import { parseReport } from '../../stored-json.ts';
import { emptyRaw } from '../raw-rows.ts';
import type { KeyedRow } from '../record-table.ts';
import { transitions } from '../partitions/transitions.ts';
import { deleteVersionsOf } from '../versions/closed-versions.ts';
import { versionedEntities } from '../versions/versions.ts';
import type { FoundOf, FoundRecords, PurgingTx } from './find-below.ts';
import { findQuarantined, type FoundRefused } from './find-quarantined.ts';

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
  const looks: { readonly counts: PurgedOf; readonly quarantined: readonly FoundRefused[] }[] = [];
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
 * Removes what was found, with all that the ledger holds of it; gives how much, and what refused records without a
 * known key are noted by. The table gets another id: what follows
 * its rows by their numbers would never hear of those that are removed.
 */
export async function removeFound(
  purging: PurgingTx,
  found: FoundRecords,
): Promise<readonly (PurgedOf & { readonly refused: readonly string[] })[]> {
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
    ids: looks.flatMap(({ quarantined }) => quarantined.map(({ id }) => id)),
  });
  const listings = [...found.of.values()].flatMap((one) => one.listings);
  const ids = listings.map(({ id }) => id);
  await tx.run('DELETE FROM _sync_also WHERE partition IN {ids bigint}', { ids });
  await tx.run('DELETE FROM _sync_missing WHERE connector = :connector AND partition IN {ids bigint}', {
    connector,
    ids,
  });
  await transitions.purge(tx, { ids });
  await forgetNames(purging, found);
  return looks.map(({ counts, quarantined }) => ({
    ...counts,
    refused: quarantined.flatMap(({ name }) => name ?? []),
  }));
}

/** The rows alone, with their versions. The table gets another id. */
export async function removeRows(
  { tx, records, connector }: PurgingTx,
  one: Pick<FoundOf, 'entity' | 'table' | 'rows' | 'moved'>,
): Promise<void> {
  const { entity, table, moved } = one;
  if (table === null) return;
  const of = { connector, entity };
  records.open({ connector, table, stored: table.columns }).setOwners(tx, moved);
  for (const { row, owner } of moved) {
    await tx.run(
      `DELETE FROM _sync_also WHERE connector = :connector AND entity = :entity AND row = :row AND partition = :owner`,
      { ...of, row, owner },
    );
  }
  if (one.rows.size === 0) return;
  await removeForGood({ tx, records, connector }, entity, [...one.rows.values()]);
  await tx.run(
    `UPDATE _sync_tables SET table_id = :tableId WHERE connector = :connector AND entity = :entity`,
    { ...of, tableId: randomUUID() },
  );
}

/** Rows of an entity, tombstoned or not, with their versions and all that is noted of them by their numbers. */
export async function removeForGood(
  { tx, records, connector }: PurgingTx,
  entity: EntityName,
  rows: readonly Pick<KeyedRow, 'row' | 'deletedAt'>[],
): Promise<void> {
  const of = { connector, entity };
  const numbers = rows.map(({ row }) => row);
  await tx.run(`DELETE FROM ${quoted(records.tableName(connector, entity))} WHERE _row IN {numbers bigint}`, {
    numbers,
  });
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

/** Keys in notes of refetches and in reports of failed listings: those of other records go with them. */
async function forgetNames({ tx, connector }: PurgingTx, { of }: FoundRecords): Promise<void> {
  await tx.run(
    `UPDATE _sync_actions SET detail = '{}'
     WHERE connector = :connector AND action = 'refetch' AND entity IN {entities text}`,
    { connector, entities: [...of.keys()] },
  );
  if ([...of.values()].every(({ listings }) => listings.length === 0)) return;
  const reports = await tx.rows<{ readonly run: string; readonly report: string }>(
    `SELECT run, report FROM _sync_runs WHERE connector = :connector AND report LIKE '%"params":{"%'`,
    { connector },
  );
  for (const { run, report: text } of reports) {
    const report = parseReport(text);
    const failures = report.failures.filter(({ params }) => Object.keys(params).length === 0);
    const nameless = {
      ...report,
      failures,
      failuresOmitted: report.failuresOmitted + report.failures.length - failures.length,
      partMissing: report.partMissing.map((one) => ({ ...one, params: {} })),
    };
    const sql = 'UPDATE _sync_runs SET report = :report WHERE run = :run';
    await tx.run(sql, { run, report: writeJson(nameless) });
  }
}
