import type { EntityName } from '../../../core/names.ts';
import { concludeWalk, weakestAbsence } from '../../decisions/conclude-walk.ts';
import type { PageLength, Seal, WalkFailure } from '../../partition.ts';
import type { UnsealedWalk } from '../../sink.ts';
import { parseProof } from '../../stored-json.ts';
import { writeJson } from '../../../core/json-text.ts';
import type { Commit } from '../ledger.ts';
import type { PartitionRow } from './read-partitions.ts';

/** A listing with inner listings is sealed only when all of them are read; they are ledger rows until then. Without any it is a tree of one. */
export function sealWalk({ ledger, current, stamp }: Commit, partition: PartitionRow, seal: Seal): void {
  const { transitions, partitions } = ledger;
  const { run, chainStartedAt } = current;
  const { now } = stamp;
  const { proof, absence, watermark, ...shown } = seal;
  transitions.endListing.run({ id: partition.id, proof: writeJson({ ...proof, ...shown }), absence });
  if (partition.tree !== null) transitions.sealInner.run({ id: partition.id, now, run });
  const id = partition.tree ?? partition.id;
  if (partitions.isAnyInnerDue.get(id) !== undefined) return;
  const ended = partitions.ended.get(id);
  if (ended === undefined) return;
  const weakest = weakestAbsence([ended.absence, ...partitions.innerAbsences.all(id)]);
  const conclusion = concludeWalk(
    { ...ended, isMidway: ended.midway === 1 },
    { absence: weakest, watermark: partition.tree === null ? watermark : null, chainStartedAt },
  );
  const scope = current.reading.get(partition.entity)?.scope ?? null;
  transitions.seal.run({ ...conclusion, id, run, now, scope, absence: weakest });
  transitions.dropInner.run({ tree: id });
}

/** Leaves a partition to a later run. A tree with such a listing stays due, as does the listing. */
export function setWalkAside({ ledger, held, current }: Commit, partition: number, why: WalkFailure): void {
  const { id } = ledger.partitions.get(held.connector, partition);
  const drop = { dropPosition: Number(why.dropPosition), dropWatermark: Number(why.dropWatermark) };
  const { transitions } = ledger;
  transitions.setAside.run({ id, run: current.run, failure: writeJson(why), at: why.at, ...drop });
}

/** Walks of this chain that a short page ended, although more follows pages of that length, are due again in full. Gives how many, and those of this run. */
export function unsealEarlyEnds(
  { ledger: { transitions, partitions }, held: { connector }, current, stamp: { now } }: Commit,
  entity: EntityName,
  followed: PageLength,
): { readonly due: number; readonly ofRun: readonly UnsealedWalk[] } {
  const { run, origin, window } = current;
  const early = partitions.earlyEnds.all({ connector, entity, window, origin, ...followed });
  for (const { id } of early) transitions.unseal.run({ id, now, origin });
  const ofRun = early.filter(({ sealedRun }) => sealedRun === run);
  return {
    due: early.length,
    ofRun: ofRun.map(({ mode, proof }) => ({ mode, proof: parseProof(proof) })),
  };
}
