import type { EntityName } from '../../../core/names.ts';
import { noCounts, type PageCounts } from '../../../core/records.ts';
import type { Candidate, Judgement } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import { addCounts } from '../counts.ts';
import type { Commit } from '../ledger.ts';
import { ask } from '../../../sql/database.ts';
import { standing } from '../../decisions/standing.ts';
import { transitions } from '../partitions/transitions.ts';
import { readStored, storeRows } from '../store-rows.ts';
import { textHash } from '../../../sql/text-hash.ts';
import { noteFoundGone, suspectRows, vouchForRows } from './note-missing.ts';
import type { RowAt } from './places.ts';
import { askForRows, notedRows } from './read-missing.ts';

/** `Deletes.toConfirm`. */
export async function candidates(
  { held, current, stamp, tx }: Commit,
  entity: EntityName,
  limit: number,
): Promise<readonly Candidate[]> {
  const of = { connector: held.connector, entity };
  const asked = await askForRows(tx, of, { run: current.run, now: stamp.now, limit });
  const rows = asked.map(({ row }) => row);
  const stored = await current.tables.get(entity)?.table.rows(tx, rows);
  return asked.flatMap(({ row, params, inject, isVouchedFor, since }): readonly Candidate[] => {
    const keyText = stored?.get(row)?.keyText;
    if (keyText === undefined) return [];
    const place = { params: parseParams(params), inject: parseParams(inject) };
    return [{ entity, row, keyText, ...place, wasVouchedFor: isVouchedFor, missingSince: since }];
  });
}

/**
 * Stores what `get` said of missing rows; counts of the records that were stored. What it did not find is noted, for
 * the guards to judge. A row that is not missing (any more) is passed over, so that judgements may be repeated.
 *
 * A row that is there stays noted, as vouched for: the next full walk that misses it asks again and is not withdrawn. A
 * walk that missed a record which is there, and which listings are not known to leave out, has proved nothing.
 */
export async function judgeRows(
  commit: Commit,
  entity: EntityName,
  judgements: readonly Judgement[],
): Promise<PageCounts> {
  const { held, current, stamp, tx } = commit;
  const of = { connector: held.connector, entity };
  const asked = judgements.map(({ row }) => row);
  const noted = await notedRows(tx, of, asked);
  const stored = await current.tables.get(entity)?.table.rows(tx, asked);
  const judged = judgements.flatMap((judgement) => {
    const note = noted.get(judgement.row);
    const row = stored?.get(judgement.row);
    return note === undefined || row === undefined || row.deletedAt !== null
      ? []
      : [{ judgement, note, keyText: row.keyText }];
  });
  const gone = judged.filter(({ judgement }) => judgement.verdict === 'gone');
  const there = judged.flatMap(({ judgement, ...one }) =>
    judgement.verdict === 'there' ? [{ ...one, ...judgement }] : [],
  );
  await noteFoundGone(tx, of, gone.map(rowOf), current.run);
  await vouchForRows(
    tx,
    of,
    there.map(({ row }) => row),
    { run: current.run, now: stamp.now },
  );
  const unlisted = there.filter(({ isUnlisted }) => isUnlisted);
  if (unlisted.length > 0) await restBelow(commit, entity, unlisted);
  const withdrawn = there.filter(({ isUnlisted, note }) => !isUnlisted && !note.isVouchedFor);
  if (withdrawn.length > 0) {
    await transitions.withdraw(tx, { ids: withdrawn.map(({ note }) => note.partition) });
  }
  // A record of another key would land in another row than the one that was asked for.
  const records = there.flatMap(({ record, keyText }) => (record?.keyText === keyText ? [record] : []));
  // Leaves the seen rows alone: no walk has met the records.
  const shown = [{ entity, records, isInsertOnly: false, home: null }];
  const [counts] = await storeRows(commit, shown, await readStored(commit, shown, false));
  const total = { ...noCounts, fetched: records.length, ...counts };
  addCounts(tx, current.run, [{ entity, counts: total }]);
  return total;
}

function rowOf({ judgement }: { readonly judgement: Judgement }): number {
  return judgement.row;
}

async function restBelow(
  { held: { connector }, tx }: Commit,
  entity: EntityName,
  records: readonly { readonly keyText: string }[],
): Promise<void> {
  const keyHashes = records.map(({ keyText }) => textHash(keyText));
  const resting = await transitions.rest(tx, { connector, entity, keyHashes });
  transitions.dropInner(tx, { trees: resting.map(({ id }) => id) });
}

/** Records that led to what this run was told not to exist. */
const notFoundBelow = ask<
  { connector: string; run: string },
  { readonly parentEntity: EntityName; readonly parentKey: string }
>(`SELECT DISTINCT parent_entity, parent_key FROM _sync_partitions {index _sync_partitions_set_aside}
     WHERE connector = :connector AND set_aside_run = :run AND parent_key IS NOT NULL AND gone = ${standing.live}
       AND failure_code = 'NOT_FOUND' ORDER BY parent_entity, parent_key`);

/** `Deletes.suspectParents`. */
export async function suspectParents(
  { held: { connector }, current, stamp, tx }: Commit,
  confirmable: readonly EntityName[],
): Promise<void> {
  const { origin, run, tables, seen } = current;
  const found = await notFoundBelow(tx, { connector, run });
  for (const entity of new Set(found.map(({ parentEntity }) => parentEntity))) {
    if (!confirmable.includes(entity)) continue;
    const keyTexts = found.filter((one) => one.parentEntity === entity).map(({ parentKey }) => parentKey);
    const parents = await tables.get(entity)?.table.rowsOf(tx, keyTexts);
    const there = [...(parents?.values() ?? [])].filter(({ deletedAt }) => deletedAt === null);
    await seen.load(
      tx,
      entity,
      there.map(({ row }) => row),
    );
    const suspects = there.flatMap(({ row, home }): readonly RowAt[] =>
      home === null || seen.has(entity, row) ? [] : [{ row, partition: home }],
    );
    await suspectRows(tx, { connector, entity, origin, since: stamp.now }, suspects);
  }
}
