import type { Instant } from '../../../core/clock.ts';
import type { EntityName } from '../../../core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../../core/records.ts';
import { countMissing, weighRows } from '../../decisions/missing-rows.ts';
import type { Candidate, DeletedRows, Deletes, EntityMissing, Judgement } from '../../deletes.ts';
import { parseParams } from '../../stored-json.ts';
import type { Commit, Ledger } from '../ledger.ts';
import type { KeyedRow } from '../record-store.ts';
import { storeRows } from '../store-rows.ts';
import type { InLease } from '../transact.ts';
import { deleteMissing, deleteBelow, inOrder, liveRows, rowsAtOnce, rowsBelow } from './delete-rows.ts';
import type { NotedRow } from './missing-statements.ts';
import { suspectParents, sweepRows } from './sweep-rows.ts';

/** `Deletes` over the ledger: what a run's full walks did not meet, and what becomes of it. */
export function ledgerDeletes(ledger: Ledger, inLease: InLease): Deletes {
  return {
    sweep: async (lease, run, limit) =>
      inLease(lease, run, (commit) => ({ isDone: sweepRows(commit, limit) })),
    suspectParents: async (lease, run, confirmable) =>
      inLease(lease, run, (commit) => suspectParents(commit, confirmable)),
    endedBelow: async (lease, run) =>
      inLease(lease, run, ({ held }) => ledger.partitions.endedBelow.all(held.connector, run)),
    missing: async (lease, run) => inLease(lease, run, weighMissing),
    allow: async (lease, run, entity) =>
      inLease(lease, run, ({ held }) => void ledger.missing.allow.run(held.connector, entity)),
    toConfirm: async (lease, run, entity, limit) =>
      inLease(lease, run, (commit) => candidates(commit, entity, limit)),
    judge: async (lease, run, entity, judgements) =>
      inLease(lease, run, (commit) => judgeRows(commit, entity, judgements)),
    tombstone: async (lease, run, entity, which, limit) =>
      inLease(lease, run, (commit) => deleteMissing(commit, entity, which, limit)),
    tombstoneBelow: async (lease, run, limit) => inLease(lease, run, (commit) => deleteBelow(commit, limit)),
  };
}

/** What the deletes of missing rows would come to, of each entity with some or with rows that would go along. What is below deleted records was judged before. */
function weighMissing(commit: Commit): readonly EntityMissing[] {
  const { ledger, held, current } = commit;
  const alike = ledger.missing.alike(held.connector).filter(({ entity }) => current.entities.has(entity));
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
  if (ledger.partitions.leadsOn.get(connector, entity) === undefined) return [];
  const table = current.tables.get(entity)?.table;
  const rowsByEntity = new Map<EntityName, number>();
  const read = (after: number): readonly number[] =>
    ledger.missing.rowsToJudge.all(connector, entity, after, rowsAtOnce);
  for (const row of inOrder(0, read, Number)) {
    const keyText = table?.row(row)?.keyText;
    if (keyText === undefined) continue;
    for (const [child, rows] of rowsBelow(commit, entity, keyText)) {
      rowsByEntity.set(child, (rowsByEntity.get(child) ?? 0) + rows);
    }
  }
  return [...rowsByEntity].map(([child, rows]) => ({ entity: child, rows }));
}

function accountOf(
  commit: Commit,
  entity: EntityName,
): Pick<EntityMissing, 'live' | 'dayAgo' | 'deletedInDay' | 'isAdopted'> {
  const { ledger, held, stamp } = commit;
  const { connector } = held;
  let judged = ledger.missing.countBelowDeleted.get(connector, entity) ?? 0;
  for (const partition of ledger.partitions.allEnded.all({ connector })) {
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
  for (const row of inOrder(0, (after) => table.liveBefore(firstMissed, after, rowsAtOnce), Number)) {
    if (ledger.missing.isCounted.get(held.connector, entity, row) === undefined) return true;
  }
  return false;
}

function candidates(
  { ledger, held, current, stamp }: Commit,
  entity: EntityName,
  limit: number,
): readonly Candidate[] {
  const table = current.tables.get(entity)?.table;
  const asked = ledger.missing.toConfirm(held.connector, entity, stamp, limit);
  return asked.flatMap(({ row, params, inject, isVouchedFor, since }): readonly Candidate[] => {
    const stored = table?.row(row);
    if (stored === undefined) return [];
    const place = { params: parseParams(params), inject: parseParams(inject) };
    const { keyText } = stored;
    return [{ entity, row, keyText, ...place, wasVouchedFor: isVouchedFor === 1, missingSince: since }];
  });
}

/** Stores what `get` said of missing rows; counts of stored records. Rows that are not missing (any more) are passed over: judgements may repeat. */
function judgeRows(commit: Commit, entity: EntityName, judgements: readonly Judgement[]): PageCounts {
  const { ledger, held, current } = commit;
  let counts = noCounts;
  for (const judgement of judgements) {
    const noted = ledger.missing.noted.get(held.connector, entity, judgement.row);
    const stored = current.tables.get(entity)?.table.row(judgement.row);
    if (noted === undefined || stored === undefined || stored.deletedAt !== null) continue;
    if (judgement.verdict === 'gone') {
      ledger.missing.foundGone.run(current.run, held.connector, entity, stored.row);
    } else {
      counts = addCounts(counts, keepRow(commit, entity, judgement, { noted, stored }));
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
  { noted, stored }: { readonly noted: NotedRow; readonly stored: KeyedRow },
): PageCounts {
  const { ledger, held, current, stamp } = commit;
  const { transitions } = ledger;
  const { connector } = held;
  const { keyText } = stored;
  ledger.missing.vouchFor.run(current.run, stamp.now, connector, entity, noted.row);
  if (isUnlisted) {
    for (const { id } of transitions.rest.all({ connector, entity, keyText })) {
      transitions.dropInner.run({ tree: id });
    }
  } else if (noted.isVouchedFor === 0) {
    transitions.withdraw.run({ id: noted.partition });
  }
  // A record of another key would land in another row than the one that was asked for.
  if (record === null || record.keyText !== keyText) return noCounts;
  // Leaves the seen rows alone: no walk has met the record.
  const showing = { isInsertOnly: false, home: null, countsAsSeen: false };
  return { ...noCounts, fetched: 1, ...storeRows(commit, { entity, records: [record] }, showing) };
}
