import type { EntityName } from '../../core/names.ts';
import type { StoredCounts } from '../decisions/add-up.ts';
import { isAsStored, misfitError, staleBefore, type StoredRow } from '../decisions/meet-record.ts';
import { columnOf } from '../../sql/database.ts';
import type { EntityRows } from '../sink.ts';
import type { PreparedRecord } from '../../core/records.ts';
import { keepQuarantined } from './counts.ts';
import { endMissing } from './deletes/noted-rows.ts';
import { meetElsewhere } from './deletes/places.ts';
import { noteFiles } from './downloads/note-files.ts';
import type { Commit } from './ledger.ts';
import { meetRows, type Batch, type Meeting, type ShownRows } from './meet-rows.ts';
import { doubtListings } from './partitions/collisions.ts';
import { livePartitions } from './partitions/read-partitions.ts';
import { noteStored, tableNumbers, type TableNumbers } from './stored-rows.ts';
import { knownOrMade } from '../../core/known-or-made.ts';

/** What is known of a commit's records before they are met. */
export type KnownRows = Awaited<ReturnType<typeof readStored>>;

/**
 * Reads in one round trip what is stored under the records' keys, and all else that decides how they are stored and
 * counted. `isMet` false: no walk has met the records, and the seen rows do not change. `missed`: entities with rows
 * that full walks have missed: only there can a met row end a miss.
 */
export async function readStored(commit: Commit, shown: readonly EntityRows[], isMet = true) {
  const { held, current, tx } = commit;
  const keysOf = new Map<EntityName, Map<string, PreparedRecord>>();
  const wholeOf = new Map<EntityName, Set<string>>();
  for (const rows of shown) {
    checkWidth(commit, rows);
    const keys = knownOrMade(keysOf, rows.entity, () => new Map<string, PreparedRecord>());
    const whole = knownOrMade(wholeOf, rows.entity, () => new Set<string>());
    for (const record of rows.records) {
      keys.set(record.keyText, record);
      if (record.partial === undefined) whole.add(record.keyText);
    }
  }
  const entities = [...keysOf.keys()];
  const asked = entities.filter((entity) => (keysOf.get(entity)?.size ?? 0) > 0);
  const [numbers, missed, found] = await Promise.all([
    asked.length === 0
      ? new Map<EntityName, TableNumbers>()
      : tableNumbers(tx, { connector: held.connector, entities: asked }),
    isMet && asked.length > 0 ? missedEntities(commit, asked) : new Set<EntityName>(),
    Promise.all(
      entities.map(async (entity) => await findKnown(commit, entity, keysOf.get(entity) ?? new Map())),
    ),
    isMet ? current.seen.begin(tx) : null,
    current.raw.begin(tx, asked),
  ]);
  const batches = new Map<EntityName, Batch>();
  for (const { entity, keys, table, rows } of found) {
    // Each gets a number and is stored, except records of which only a part came.
    const isNew = [...keys.keys()].filter((key) => !rows.has(key) && wholeOf.get(entity)?.has(key) === true);
    const lastRow = numbers.get(entity)?.lastRow;
    if (lastRow === undefined && isNew.length > 0) {
      throw new TypeError(`No table was declared for ${held.connector}/${entity}`);
    }
    const newRows = new Map(isNew.map((key, index) => [key, (lastRow ?? 0) + 1 + index]));
    const met = [...newRows.values(), ...[...rows.values()].map(({ row }) => row)];
    await Promise.all([
      isMet && met.length > 0 ? current.seen.load(tx, entity, met) : null,
      current.raw.load(tx, entity, rowsToSet(shown, { entity, rows, newRows })),
    ]);
    batches.set(entity, {
      entity,
      table,
      rows,
      newRows,
      written: [],
      owners: new Map(),
      elsewhere: [],
      firstMet: new Set(),
      files: [],
      collided: new Set(),
      partial: [],
      inserted: 0,
      updated: 0,
      revived: 0,
    });
  }
  return { batches, numbers, missed, isMet };
}

/**
 * Stores the records of a commit's pages, in their order, and counts for each of `shown` what they were: what is stored
 * was read first, all is decided here, and what changes is written in sets.
 */
export async function storeRows(
  commit: Commit,
  shown: readonly ShownRows[],
  known: KnownRows,
): Promise<readonly StoredCounts[]> {
  const { batches, numbers, missed, isMet } = known;
  const meeting: Meeting = {
    commit,
    live: await liveOwners(commit, shown, batches),
    isMet,
    staleBefore: staleBefore(commit.ledger.clock.now()),
  };
  const counts = shown.map((rows) => {
    const batch = batches.get(rows.entity);
    if (batch === undefined) throw misfitError(rows.entity, 'it was not read');
    return meetRows(meeting, batch, rows);
  });
  for (const batch of batches.values()) {
    await writeBatch(commit, batch, missed.has(batch.entity));
    await doubtListings(commit, batch.entity, batch.collided);
  }
  commit.current.raw.save(commit.tx);
  noteStored(
    commit.tx,
    commit.held.connector,
    [...batches.values()].map(({ entity, inserted, revived, updated }) => {
      // A row that came back counts as updated.
      return { entity, inserted, revived, changed: updated - revived };
    }),
    { origin: commit.current.origin, now: commit.stamp.now, numbers },
  );
  return counts;
}

async function findKnown(
  { current, tx }: Commit,
  entity: EntityName,
  keys: ReadonlyMap<string, PreparedRecord>,
) {
  const table = current.tables.get(entity);
  if (table === undefined) throw misfitError(entity, 'the plan has no table for it');
  const rows = new Map<string, StoredRow>();
  const others: PreparedRecord[] = [];
  for (const [keyText, record] of keys) {
    const found = table.foundRow(record);
    if (found === null) others.push(record);
    else rows.set(keyText, found);
  }
  if (others.length > 0) for (const [keyText, row] of await table.find(tx, others)) rows.set(keyText, row);
  return { entity, keys, table, rows };
}

/** Rows whose bytes may be noted: those of all records but the ones that were not parsed and need not be. */
function rowsToSet(
  shown: readonly EntityRows[],
  { entity, rows, newRows }: Pick<Batch, 'entity' | 'rows' | 'newRows'>,
): readonly number[] {
  const toSet: number[] = [];
  for (const one of shown) {
    if (one.entity !== entity) continue;
    for (const record of one.records) {
      const stored = rows.get(record.keyText);
      if (stored !== undefined && record.whole !== undefined && isAsStored(stored, record)) continue;
      const row = stored?.row ?? newRows.get(record.keyText);
      if (row !== undefined) toSet.push(row);
    }
  }
  return toSet;
}

function checkWidth({ current }: Commit, { entity, records }: EntityRows): void {
  const width = current.tables.get(entity)?.width;
  const unfit = records.find(({ values }) => width !== undefined && values.length !== width);
  if (unfit === undefined) return;
  throw misfitError(entity, `a record has ${unfit.values.length} values for ${width} columns`);
}

/** Of the partitions that own rows which another one shows: those that exist. */
async function liveOwners(
  { tx }: Commit,
  shown: readonly ShownRows[],
  batches: KnownRows['batches'],
): Promise<ReadonlySet<number>> {
  const owners = new Set<number>();
  const ownersOf = new Map<EntityName, Map<string, number>>();
  for (const { entity, owner, records } of shown) {
    if (owner === null) continue;
    const rows = batches.get(entity)?.rows;
    const ownerOf = knownOrMade(ownersOf, entity, () => new Map<string, number>());
    for (const { keyText } of records) {
      const known = ownerOf.get(keyText) ?? rows?.get(keyText)?.owner ?? null;
      if (known !== null && known !== owner) owners.add(known).add(owner);
      if (known === null) ownerOf.set(keyText, owner);
    }
  }
  return owners.size === 0 ? owners : await livePartitions(tx, [...owners]);
}

/** `EXISTS` would be planned as a join, which goes through all missing rows. */
async function missedEntities(
  { held, tx }: Commit,
  entities: readonly EntityName[],
): Promise<ReadonlySet<EntityName>> {
  const found = await columnOf<EntityName | null>(
    tx,
    `SELECT (SELECT m.entity FROM _sync_missing AS m
       WHERE m.connector = :connector AND m.entity = asked.entity LIMIT 1)
     FROM {asked: entity text}`,
    { asked: entities.map((entity) => ({ entity })), connector: held.connector },
  );
  return new Set(found.filter((entity) => entity !== null));
}

async function writeBatch(
  { held, current, tx, stamp }: Commit,
  batch: Batch,
  isAnyMissing: boolean,
): Promise<void> {
  const { entity, table, written, owners, elsewhere, firstMet, files, partial } = batch;
  const of = { connector: held.connector, entity };
  await table.write(tx, written, stamp);
  table.setOwners(
    tx,
    [...owners].map(([row, owner]) => ({ row, owner })),
  );
  meetElsewhere(tx, { ...of, origin: current.origin }, elsewhere);
  if (isAnyMissing) endMissing(tx, of, [...firstMet]);
  await noteFiles(tx, of, files);
  keepQuarantined(tx, held.connector, partial, stamp);
}
