import type Database from 'better-sqlite3';
import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, EntityName, RunId } from '../../../core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../../core/records.ts';
import { weighRows } from '../../decisions/add-up.ts';
import { countMissing, type AlikeRows } from '../../decisions/missing-rows.ts';
import { standing } from '../../decisions/standing.ts';
import type { Candidate, DeletedRows, Deletes, EntityMissing, Judgement } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import type { Commit, Ledger } from '../ledger.ts';
import type { KeyedRow } from '../record-store.ts';
import { columnOf, readFlags, statement, type Flagged } from '../statement.ts';
import { storeRows } from '../store-rows.ts';
import type { InLease } from '../transact.ts';
import {
  allEnded,
  deleteBelow,
  deleteMissing,
  inOrder,
  leadsOn,
  liveRows,
  rowsAtOnce,
  rowsBelow,
} from './delete-rows.ts';
import { noted, suspectParents, sweepRows, type OfEntity } from './sweep-rows.ts';

/** `Deletes` over the ledger: what a run's full walks did not meet, and what becomes of it. */
export function ledgerDeletes(ledger: Ledger, inLease: InLease): Deletes {
  return {
    batchRows: 1000,
    sweep: async (lease, run, limit) => inLease(lease, run, (commit) => sweepRows(commit, limit)),
    suspectParents: async (lease, run, confirmable) =>
      inLease(lease, run, (commit) => suspectParents(commit, confirmable)),
    endedBelow: async (lease, run) =>
      inLease(lease, run, ({ held }) => endedBelow(ledger.db).all(held.connector, run)),
    missing: async (lease, run) => inLease(lease, run, weighMissing),
    allow: async (lease, run, entity) =>
      inLease(lease, run, ({ held }) => void allowMissing(ledger.db).run(held.connector, entity)),
    toConfirm: async (lease, run, entity, limit) =>
      inLease(lease, run, (commit) => candidates(commit, entity, limit)),
    judge: async (lease, run, entity, judgements) =>
      inLease(lease, run, (commit) => judgeRows(commit, entity, judgements)),
    tombstone: async (lease, run, entity, which, limit) =>
      inLease(lease, run, (commit) => deleteMissing(commit, entity, which, limit)),
    tombstoneBelow: async (lease, run, limit) => inLease(lease, run, (commit) => deleteBelow(commit, limit)),
  };
}

type OfRow = [...OfEntity, row: number];

const endedBelow = statement<
  [connector: string, run: string],
  { readonly id: number; readonly entity: EntityName }
>(
  // The index holds what was set aside: few rows, however many partitions there are.
  `SELECT id, entity FROM _sync_partitions INDEXED BY _sync_partitions_set_aside
   WHERE connector = ? AND set_aside_run = ? AND gone > ${standing.live}`,
);
const allowMissing = statement<OfEntity>(
  'UPDATE _sync_missing SET is_allowed = 1 WHERE connector = ? AND entity = ? AND missed > 0',
);

/** What the deletes of missing rows would come to, of each entity with some or with rows that would go along. What is below deleted records was judged before. */
function weighMissing(commit: Commit): readonly EntityMissing[] {
  const { ledger, held, current } = commit;
  const alike = alikeRows(ledger.db, held.connector).filter(({ entity }) => current.entities.has(entity));
  const known = new Set(alike.map(({ entity }) => entity));
  const counted = [...known].map((entity) => {
    const counts = countMissing(alike.filter((rows) => rows.entity === entity));
    const isOpen = counts.missing > counts.allowed + counts.vouchedFor;
    return { entity, ...counts, along: isOpen ? rowsAlong(commit, entity) : [] };
  });
  const touched = new Set(counted.flatMap((one) => one.along.map(({ entity }) => entity)));
  const others = [...touched]
    .filter((entity) => !known.has(entity))
    .map((entity) => ({ entity, ...countMissing([]), along: [] }));
  return [...counted, ...others].map(({ firstMissed, ...counts }) => ({
    ...counts,
    ...accountOf(commit, counts.entity),
    hasSurvivor: firstMissed === null || hasSurvivor(commit, counts.entity, firstMissed),
  }));
}

/** Without what a person has let go: that goes as it is. */
function rowsAlong(commit: Commit, entity: EntityName): readonly DeletedRows[] {
  const { ledger, held, current } = commit;
  const { connector } = held;
  if (leadsOn(ledger.db).get(connector, entity) === undefined) return [];
  const table = current.tables.get(entity)?.table;
  const rowsByEntity = new Map<EntityName, number>();
  const read = (after: number): readonly number[] =>
    rowsToJudge(ledger.db).all(connector, entity, after, rowsAtOnce);
  for (const row of inOrder(0, read)) {
    const keyText = table?.row(row)?.keyText;
    if (keyText === undefined) continue;
    for (const [child, rows] of rowsBelow(commit, entity, keyText)) {
      rowsByEntity.set(child, (rowsByEntity.get(child) ?? 0) + rows);
    }
  }
  // By name: the order in which a sink comes upon them is none.
  const entities = [...rowsByEntity.keys()].toSorted();
  return entities.map((child) => ({ entity: child, rows: rowsByEntity.get(child) ?? 0 }));
}

function accountOf(
  commit: Commit,
  entity: EntityName,
): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay' | 'isAdopted'> {
  const { ledger, held, stamp } = commit;
  const { connector } = held;
  let judged = countBelowDeleted(ledger.db).get(connector, entity) ?? 0;
  for (const partition of allEnded(ledger.db).all({ connector })) {
    if (partition.entity !== entity) continue;
    for (const _row of liveRows(commit, partition, partition.sweptTo)) judged += 1;
  }
  const { stored, adoptedAt } = ledger.tables.account(connector, entity);
  const { added: addedInDay, deleted: deletedInDay } = ledger.day.within(connector, entity, stamp.now);
  return { ...weighRows({ stored, judged, addedInDay, deletedInDay }), isAdopted: adoptedAt !== null };
}

/** Whether a row is still there that was stored before the first of the missing ones was missed. */
function hasSurvivor({ ledger, held, current }: Commit, entity: EntityName, firstMissed: Instant): boolean {
  const table = current.tables.get(entity)?.table;
  if (table === undefined) return true;
  for (const row of inOrder(0, (after) => table.liveBefore(firstMissed, after, rowsAtOnce))) {
    if (isCounted(ledger.db).get(held.connector, entity, row) === undefined) return true;
  }
  return false;
}

const alike = statement<[string], Flagged<AlikeRows>>(
  `SELECT m.entity, count(*) AS rows, min(m.since) AS since, min(m.missed, 2) AS missed, m.needs, m.is_allowed AS isAllowed,
     m.is_vouched_for AS isVouchedFor, m.asked_run IS NOT NULL AS wasAsked,
     iif(p.gone = ${standing.live}, 'live', 'emptied') AS home
   FROM ${noted.withPartition} WHERE m.connector = ? AND (${noted.isMissing} OR ${noted.isOrphan})
   GROUP BY m.entity, p.gone, min(m.missed, 2), m.needs, m.is_allowed, m.is_vouched_for, m.asked_run IS NOT NULL`,
);

export function alikeRows(db: Database.Database, connector: ConnectorName): readonly AlikeRows[] {
  return alike(db)
    .all(connector)
    .map((row) => readFlags(row, 'isAllowed', 'isVouchedFor', 'wasAsked'));
}

const isJudged = `m.connector = ? AND m.entity = ? AND ${noted.isMissing} AND NOT (${noted.isVouchedFor})`;
/** Rows whose deletes a guard must judge, by row number. */
export const rowsToJudge = columnOf<[...OfEntity, after: number, limit: number], number>(
  `SELECT m.row FROM ${noted.withPartition} WHERE ${isJudged} AND m.row > ? AND m.is_allowed = 0 ORDER BY m.row LIMIT ?`,
);
export const isCounted = statement<OfRow>(
  `SELECT 1 FROM ${noted.withPartition} WHERE ${isJudged} AND m.row = ?`,
);
/** How many rows below deleted records wait for a `get`. */
const countBelowDeleted = columnOf<OfEntity, number>(
  `SELECT count(*) FROM ${noted.withPartition}
   WHERE m.connector = ? AND m.entity = ? AND m.missed > 0 AND p.gone IN (${standing.ended}, ${standing.emptied})`,
);

/** Rows that a `get` must judge; notes them as asked in this run. */
function candidates(
  { ledger, held, current, stamp }: Commit,
  entity: EntityName,
  limit: number,
): readonly Candidate[] {
  const table = current.tables.get(entity)?.table;
  const asked = rowsToConfirm(ledger.db).all(held.connector, entity, stamp.run, limit);
  for (const { row } of asked) noteAsked(ledger.db).run(stamp.run, stamp.now, held.connector, entity, row);
  return asked.flatMap(({ row, params, inject, isVouchedFor, since }): readonly Candidate[] => {
    const stored = table?.row(row);
    if (stored === undefined) return [];
    const place = { keyText: stored.keyText, params: parseParams(params), inject: parseParams(inject) };
    return [{ entity, row, ...place, wasVouchedFor: isVouchedFor === 1, missingSince: since }];
  });
}

interface NotedRow {
  readonly row: number;
  readonly partition: number;
  readonly isVouchedFor: number;
}

type ToConfirm = Pick<NotedRow, 'row' | 'isVouchedFor'> &
  Readonly<Record<'since' | 'params' | 'inject', string>>;

export const rowsToConfirm = statement<[...OfEntity, run: RunId, limit: number], ToConfirm>(
  `SELECT m.row, m.since, m.is_vouched_for AS isVouchedFor, p.params, p.inject FROM ${noted.withPartition}
   WHERE m.connector = ? AND m.entity = ? AND (${noted.isMissing} OR ${noted.isOrphan}) AND m.needs = 'get'
     AND m.asked_run IS NOT ?
   ORDER BY m.asked_at NULLS FIRST, m.row LIMIT ?`,
);
const ofRow = 'connector = ? AND entity = ? AND row = ?';
const noteAsked = statement<[run: RunId, at: Instant, ...OfRow]>(
  `UPDATE _sync_missing SET asked_run = ?, asked_at = ? WHERE ${ofRow}`,
);

/** Stores what `get` said of missing rows; counts of stored records. Rows that are not missing (any more) are passed over: judgements may repeat. */
function judgeRows(commit: Commit, entity: EntityName, judgements: readonly Judgement[]): PageCounts {
  const { ledger, held, current } = commit;
  let counts = noCounts;
  for (const judgement of judgements) {
    const note = notedRow(ledger.db).get(held.connector, entity, judgement.row);
    const stored = current.tables.get(entity)?.table.row(judgement.row);
    if (note === undefined || stored === undefined || stored.deletedAt !== null) continue;
    if (judgement.verdict === 'gone') {
      foundGone(ledger.db).run(current.run, held.connector, entity, stored.row);
    } else {
      counts = addCounts(counts, keepRow(commit, entity, judgement, { note, stored }));
    }
  }
  ledger.counts.add(current.run, entity, counts);
  return counts;
}

/** Stays noted, as vouched for: the next miss asks again. A walk that missed a record which is there, and which listings should show, proved nothing. */
function keepRow(
  commit: Commit,
  entity: EntityName,
  { record, isUnlisted }: Extract<Judgement, { verdict: 'there' }>,
  { note, stored }: { readonly note: NotedRow; readonly stored: KeyedRow },
): PageCounts {
  const { ledger, held, current, stamp } = commit;
  const { transitions } = ledger;
  const { connector } = held;
  const { keyText } = stored;
  vouchFor(ledger.db).run(current.run, stamp.now, connector, entity, note.row);
  if (isUnlisted) {
    for (const { id } of transitions.rest.all({ connector, entity, keyText })) {
      transitions.dropInner.run({ tree: id });
    }
  } else if (note.isVouchedFor === 0) {
    transitions.withdraw.run({ id: note.partition });
  }
  // A record of another key would land in another row than the one that was asked for.
  if (record === null || record.keyText !== keyText) return noCounts;
  // Leaves the seen rows alone: no walk has met the record.
  const showing = { isInsertOnly: false, home: null, countsAsSeen: false };
  return { ...noCounts, fetched: 1, ...storeRows(commit, { entity, records: [record] }, showing) };
}

const notedRow = statement<OfRow, NotedRow>(
  `SELECT row, partition, is_vouched_for AS isVouchedFor FROM _sync_missing WHERE ${ofRow}`,
);
/** `get` finds the row no more: so it needs nothing else in this run, and nothing vouches for it. */
const foundGone = statement<[run: string, ...OfRow]>(
  `UPDATE _sync_missing SET gone_run = ?, is_vouched_for = 0 WHERE ${ofRow}`,
);
const vouchFor = statement<[run: string, at: Instant, ...OfRow]>(
  `UPDATE _sync_missing SET missed = 0, is_allowed = 0, is_vouched_for = 1, gone_run = NULL, asked_run = ?, asked_at = ?
   WHERE ${ofRow}`,
);
