import type { EntityName } from '../../core/names.ts';
import type { StoredCounts } from '../decisions/add-up.ts';
import { misfitError, staleBefore } from '../decisions/meet-record.ts';
import type { EntityRows } from '../sink.ts';
import { endMissing } from './deletes/note-missing.ts';
import { meetElsewhere } from './deletes/places.ts';
import { noteFiles } from './downloads/note-files.ts';
import type { Commit } from './ledger.ts';
import { meetRows, type Batch, type Meeting, type ShownRows } from './meet-rows.ts';
import { livePartitions } from './partitions/read-partitions.ts';
import { noteStored } from './tables.ts';

/**
 * Stores the records of a commit's pages, in their order, and counts for each of `shown` what they were: what is stored is read first, all is
 * decided here, and what changes is written in sets. `isMet` false: no walk has met the records, and the seen rows are left alone.
 */
export async function storeRows(
  commit: Commit,
  shown: readonly ShownRows[],
  isMet = true,
): Promise<readonly StoredCounts[]> {
  const batches = new Map<EntityName, Batch>();
  for (const rows of shown) {
    const batch = batches.get(rows.entity) ?? emptyBatch(commit, rows.entity);
    checkWidth(commit, rows);
    batch.shown.push(rows);
    batches.set(rows.entity, batch);
  }
  for (const batch of batches.values()) await readStored(commit, batch, isMet);
  const live = await liveHomes(commit, [...batches.values()]);
  const missed = isMet ? await missedEntities(commit, [...batches.values()]) : new Set<EntityName>();
  const meeting: Meeting = {
    commit,
    live,
    isMet,
    staleBefore: staleBefore(commit.ledger.clock.now()),
  };
  const counts = shown.map((rows) => {
    const batch = batches.get(rows.entity);
    if (batch === undefined) throw misfitError(rows.entity, 'it was not read');
    return meetRows(meeting, batch, rows);
  });
  for (const batch of batches.values()) await writeBatch(commit, batch, missed.has(batch.entity));
  await noteStored(
    commit.tx,
    commit.ledger.at,
    commit.held.connector,
    [...batches.values()].map(({ entity, inserted, revived }) => ({ entity, inserted, revived })),
    { origin: commit.current.origin, now: commit.stamp.now },
  );
  return counts;
}

function emptyBatch({ current }: Commit, entity: EntityName): Batch {
  const planned = current.tables.get(entity);
  if (planned === undefined) throw misfitError(entity, 'the plan has no table for it');
  return {
    entity,
    table: planned.table,
    shown: [],
    rows: new Map(),
    newRows: new Map(),
    written: [],
    homes: new Map(),
    elsewhere: [],
    firstMet: new Set(),
    files: [],
    inserted: 0,
    revived: 0,
  };
}

function checkWidth({ current }: Commit, { entity, records }: EntityRows): void {
  const width = current.tables.get(entity)?.width;
  const unfit = records.find(({ values }) => values.length !== width);
  if (unfit === undefined) return;
  throw misfitError(entity, `a record has ${unfit.values.length} values for ${width} columns`);
}

/** What is stored under the keys; numbers for those that are new. */
async function readStored({ current, tx }: Commit, batch: Batch, isMet: boolean): Promise<void> {
  const { entity, table, shown, rows, newRows } = batch;
  const keys = new Set(shown.flatMap(({ records }) => records.map(({ keyText }) => keyText)));
  if (keys.size === 0) return;
  for (const [key, row] of await table.find(tx, [...keys])) rows.set(key, row);
  const isNew = [...keys].filter((key) => !rows.has(key));
  const first = isNew.length === 0 ? 0 : await table.takeRows(tx, isNew.length);
  for (const [index, key] of isNew.entries()) newRows.set(key, first + index);
  const met = [...newRows.values(), ...[...rows.values()].map(({ row }) => row)];
  if (isMet) await current.seen.load(tx, entity, met);
}

/** Of the partitions that rows are at home in while another one shows them: those that are there. */
async function liveHomes({ ledger, tx }: Commit, batches: readonly Batch[]): Promise<ReadonlySet<number>> {
  const homes = new Set<number>();
  for (const { shown, rows } of batches) {
    const homeOf = new Map<string, number | null>();
    for (const { home, records } of shown) {
      if (home === null) continue;
      for (const { keyText } of records) {
        const known = homeOf.get(keyText) ?? rows.get(keyText)?.home ?? null;
        if (known !== null && known !== home) homes.add(known).add(home);
        if (known === null) homeOf.set(keyText, home);
      }
    }
  }
  return homes.size === 0 ? homes : await livePartitions(tx, ledger.at, [...homes]);
}

/** Only where full walks have missed rows can meeting one end that. `EXISTS` would be planned as a join, which goes through all missing rows. */
async function missedEntities(
  { ledger, held, tx }: Commit,
  batches: readonly Batch[],
): Promise<ReadonlySet<EntityName>> {
  const entities = batches.filter(({ rows }) => rows.size > 0).map(({ entity }) => entity);
  if (entities.length === 0) return new Set();
  const found = await tx.rows<{ readonly entity: EntityName }>(
    `SELECT asked.entity FROM unnest(:entities::text[]) AS asked(entity) CROSS JOIN LATERAL (
       SELECT 1 FROM ${ledger.at}_sync_missing AS m WHERE m.connector = :connector AND m.entity = asked.entity LIMIT 1) AS found`,
    { entities, connector: held.connector },
  );
  return new Set(found.map(({ entity }) => entity));
}

async function writeBatch(
  { ledger: { at }, held, current, tx, stamp }: Commit,
  batch: Batch,
  isAnyMissing: boolean,
): Promise<void> {
  const { entity, table, written, homes, elsewhere, firstMet, files } = batch;
  const of = { connector: held.connector, entity };
  await table.write(tx, written, stamp);
  await table.setHomes(
    tx,
    [...homes].map(([row, home]) => ({ row, home })),
  );
  await meetElsewhere(tx, at, { ...of, origin: current.origin }, elsewhere);
  if (isAnyMissing) await endMissing(tx, at, of, [...firstMet]);
  await noteFiles(tx, at, of, files);
}
