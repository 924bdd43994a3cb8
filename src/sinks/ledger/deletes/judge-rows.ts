import type Database from 'better-sqlite3';
import type { EntityName } from '../../../core/names.ts';
import { addCounts, noCounts, type PageCounts, type PreparedRecord } from '../../../core/records.ts';
import type { Judgement } from '../../deletes.ts';
import type { Commit } from '../ledger.ts';
import type { KeyedRow } from '../record-store.ts';
import { storeRecords } from '../store-rows.ts';
import type { MissingRows, NotedRow } from './missing-rows.ts';
import type { PartitionsBelow } from './partitions-below.ts';

export interface Judging {
  readonly missing: MissingRows;
  readonly below: PartitionsBelow;
  readonly withdraw: Withdraw;
}

/** A walk that missed a record which is there has proved nothing: the partition is read in full the next time. */
export type Withdraw = (partition: number) => void;

export function prepareWithdraw(db: Database.Database): Withdraw {
  const withdraw = db.prepare<[number]>(
    'UPDATE _sync_partitions SET full_at = NULL, marker = NULL, watermark = NULL WHERE id = ?',
  );
  return (partition) => void withdraw.run(partition);
}

/**
 * Stores what `get` said of missing rows; counts of the records that were stored. What it did not find is noted, for the guards to
 * judge. A row that is not missing (any more) is passed over, so that judgements may be repeated.
 */
export function judgeRows(
  commit: Commit,
  judging: Judging,
  entity: EntityName,
  judgements: readonly Judgement[],
): PageCounts {
  const { ledger, held, current } = commit;
  let counts = noCounts;
  for (const judgement of judgements) {
    const noted = judging.missing.get(held.connector, entity, judgement.row);
    const stored = current.tables.get(entity)?.table.row(judgement.row);
    if (noted === undefined || stored === undefined || stored.deletedAt !== null) continue;
    if (judgement.verdict === 'gone') {
      judging.missing.foundGone(held.connector, entity, stored.row, current.run);
    } else {
      counts = addCounts(counts, keepRow(commit, judging, entity, { ...judgement, noted, stored }));
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

/** The row stays noted, as vouched for: the next full walk that misses it asks again and is not withdrawn. */
function keepRow(
  commit: Commit,
  { missing, below, withdraw }: Judging,
  entity: EntityName,
  { noted, stored, record, isUnlisted }: Kept,
): PageCounts {
  const { held, current, stamp } = commit;
  missing.vouchFor(held.connector, entity, noted.row, current.run, stamp.now);
  if (isUnlisted) {
    below.rest(held.connector, entity, stored.keyText);
  } else if (noted.isVouchedFor === 0) {
    withdraw(noted.partition);
  }
  // A record of another key would land in another row than the one that was asked for.
  if (record === null || record.keyText !== stored.keyText) return noCounts;
  return { ...noCounts, fetched: 1, ...storeOutsideWalk(commit, entity, record) };
}

/** Leaves the seen rows alone: no walk has met the record. */
function storeOutsideWalk(
  commit: Commit,
  entity: EntityName,
  record: PreparedRecord,
): ReturnType<typeof storeRecords> {
  const showing = { isInsertOnly: false, home: null, markSeen: () => false };
  return storeRecords(commit, { entity, records: [record] }, showing);
}
