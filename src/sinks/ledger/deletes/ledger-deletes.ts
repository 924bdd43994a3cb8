import type { EntityName, RunId } from '../../../core/names.ts';
import type { Candidate, Deletes } from '../../deletes.ts';
import type { Lease } from '../../sink.ts';
import { parseParams } from '../ledger-json.ts';
import type { Commit, HeldConnector, Ledger } from '../ledger.ts';
import { inRun } from '../transact.ts';
import { prepareCascade } from './cascade.ts';
import { deleteMissing } from './delete-missing.ts';
import { judgeRows, prepareWithdraw } from './judge-rows.ts';
import { prepareMissingRows, type MissingRows, type ToConfirm } from './missing-rows.ts';
import { deleteOrphans, prepareGonePartitions } from './orphans.ts';
import { preparePartitionsBelow } from './partitions-below.ts';
import { sweepRows } from './sweep-rows.ts';
import { prepareSweptPartitions } from './swept-partitions.ts';
import { prepareSuspectParents } from './suspect-parents.ts';
import { prepareLiveCount, weighMissing } from './weigh-missing.ts';

/** `Deletes` over the ledger: what a run's full walks did not meet, and what becomes of it. */
export function ledgerDeletes(ledger: Ledger, heldOf: (lease: Lease) => HeldConnector): Deletes {
  const { db } = ledger;
  const missing = prepareMissingRows(db);
  const partitions = prepareSweptPartitions(db);
  const below = preparePartitionsBelow(db);
  const gone = prepareGonePartitions(db);
  const withdraw = prepareWithdraw(db);
  const live = prepareLiveCount(db);
  const cascade = prepareCascade(db);
  const gate = { below, cascade };
  const parents = prepareSuspectParents(db);
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
      inLease(lease, run, (commit) => ({
        isDone: sweepRows({ commit, missing, partitions }, limit),
      })),
    suspectParents: async (lease, run, confirmable) =>
      inLease(lease, run, (commit) => parents.suspect(commit, confirmable)),
    endedBelow: async (lease, run) => inLease(lease, run, (commit) => parents.ended(commit)),
    missing: async (lease, run) =>
      inLease(lease, run, (commit) => weighMissing(commit, { missing, gone, cascade, live })),
    allow: async (lease, run, entity) =>
      inLease(lease, run, ({ held }) => missing.allow(held.connector, entity)),
    toConfirm: async (lease, run, entity, limit) =>
      inLease(lease, run, (commit) => candidates(commit, missing, entity, limit)),
    judge: async (lease, run, entity, judgements) =>
      inLease(lease, run, (commit) => judgeRows(commit, { missing, below, withdraw }, entity, judgements)),
    tombstone: async (lease, run, entity, which, limit) =>
      inLease(lease, run, (commit) => deleteMissing(commit, { missing, gate }, { entity, which, limit })),
    tombstoneOrphans: async (lease, run, limit) =>
      inLease(lease, run, (commit) => deleteOrphans(commit, { missing, gone, gate }, limit)),
  };
}

function candidates(
  { held, current, stamp }: Commit,
  missing: MissingRows,
  entity: EntityName,
  limit: number,
): readonly Candidate[] {
  const table = current.tables.get(entity)?.table;
  return missing.toConfirm(held.connector, entity, stamp, limit).flatMap((asked) => {
    const stored = table?.row(asked.row);
    return stored === undefined ? [] : [candidate(entity, stored.keyText, asked)];
  });
}

function candidate(entity: EntityName, keyText: string, asked: ToConfirm): Candidate {
  const { row, params, inject, isVouchedFor, since } = asked;
  return {
    entity,
    row,
    keyText,
    params: parseParams(params),
    inject: parseParams(inject),
    wasVouchedFor: isVouchedFor === 1,
    missingSince: since,
  };
}
