import type { EntityName, RunId } from '../../../core/names.ts';
import { addCounts, noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import type { Candidate, Deletes, Judgement } from '../../deletes.ts';
import type { Lease } from '../../sink.ts';
import { parseParams } from '../ledger-json.ts';
import type { Commit, HeldConnector, Ledger } from '../ledger.ts';
import type { KeyedRow } from '../record-store.ts';
import { storeRecords } from '../store-rows.ts';
import { inRun } from '../transact.ts';
import { deleteMissing, deleteOrphans } from './delete-rows.ts';
import type { NotedRow } from './missing-rows.ts';
import { sweepRows } from './sweep-rows.ts';
import { weighMissing } from './weigh-missing.ts';

/** `Deletes` over the ledger: what a run's full walks did not meet, and what becomes of it. */
export function ledgerDeletes(ledger: Ledger, heldOf: (lease: Lease) => HeldConnector): Deletes {
  const inLease = async <Result>(
    lease: Lease,
    run: RunId,
    work: (commit: Commit) => Result,
  ): Promise<Result> => {
    const held = heldOf(lease);
    return await inRun(ledger, held, run, (current, stamp) => work({ ledger, held, current, stamp }));
  };
  return {
    sweep: async (lease, run, limit) =>
      inLease(lease, run, (commit) => ({ isDone: sweepRows(commit, limit) })),
    suspectParents: async (lease, run, confirmable) =>
      inLease(lease, run, (commit) => suspectParents(commit, confirmable)),
    endedBelow: async (lease, run) =>
      inLease(lease, run, ({ held }) => ledger.partitions.endedBelow.all(held.connector, run)),
    missing: async (lease, run) => inLease(lease, run, weighMissing),
    allow: async (lease, run, entity) =>
      inLease(lease, run, ({ held }) => ledger.missing.allow(held.connector, entity)),
    toConfirm: async (lease, run, entity, limit) =>
      inLease(lease, run, (commit) => candidates(commit, entity, limit)),
    judge: async (lease, run, entity, judgements) =>
      inLease(lease, run, (commit) => judgeRows(commit, entity, judgements)),
    tombstone: async (lease, run, entity, which, limit) =>
      inLease(lease, run, (commit) => deleteMissing(commit, { entity, which, limit })),
    tombstoneOrphans: async (lease, run, limit) =>
      inLease(lease, run, (commit) => deleteOrphans(commit, limit)),
  };
}

function suspectParents(
  { ledger, held: { connector }, current, stamp }: Commit,
  confirmable: readonly EntityName[],
): void {
  const { origin, run, tables, seen } = current;
  for (const { parentEntity: entity, parentKey } of ledger.partitions.notFoundBelow.all(connector, run)) {
    const parent = tables.get(entity)?.table.rowOf(parentKey);
    if (parent === undefined || parent.deletedAt !== null || parent.home === null) continue;
    if (!confirmable.includes(entity) || seen.has(entity, parent.row)) continue;
    const { row, home: partition } = parent;
    ledger.missing.suspect.run({ connector, entity, row, partition, origin, since: stamp.now });
  }
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

/**
 * Stores what `get` said of missing rows; counts of the records that were stored. What it did not find is noted, for the guards to
 * judge. A row that is not missing (any more) is passed over, so that judgements may be repeated.
 */
function judgeRows(commit: Commit, entity: EntityName, judgements: readonly Judgement[]): PageCounts {
  const { ledger, held, current } = commit;
  let counts = noCounts;
  for (const judgement of judgements) {
    const noted = ledger.missing.get(held.connector, entity, judgement.row);
    const stored = current.tables.get(entity)?.table.row(judgement.row);
    if (noted === undefined || stored === undefined || stored.deletedAt !== null) continue;
    if (judgement.verdict === 'gone') {
      ledger.missing.foundGone(held.connector, entity, stored.row, current.run);
    } else {
      counts = addCounts(counts, keepRow(commit, entity, { ...judgement, noted, stored }));
    }
  }
  ledger.counts.add(current.run, entity, counts);
  return counts;
}

interface Kept {
  readonly noted: NotedRow;
  readonly stored: KeyedRow;
  readonly record: PreparedRecord | null;
  readonly isUnlisted: boolean;
}

/**
 * The row stays noted, as vouched for: the next full walk that misses it asks again and is not withdrawn. A walk that missed a record which
 * is there, and which listings are not known to leave out, has proved nothing.
 */
function keepRow(
  commit: Commit,
  entity: EntityName,
  { noted, stored, record, isUnlisted }: Kept,
): PageCounts {
  const { ledger, held, current, stamp } = commit;
  const { transitions } = ledger;
  const { connector } = held;
  const { keyText } = stored;
  ledger.missing.vouchFor(connector, entity, noted.row, current.run, stamp.now);
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
  const showing = { isInsertOnly: false, home: null, markSeen: () => false };
  return { ...noCounts, fetched: 1, ...storeRecords(commit, { entity, records: [record] }, showing) };
}
