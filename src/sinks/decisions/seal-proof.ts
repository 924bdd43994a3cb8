import type { Instant } from '../../core/clock.ts';
import type { Doubt, Seal, StoredDoubt, StoredProof, WalkMode } from '../partition.ts';

/**
 * What is stored when a partition's own listing has been read to its end; which of it counts is known only when its
 * whole tree is read. `before`: of the walk before.
 */
export function endProof(
  { proof, doubt, absence: _absence, watermark: _watermark, reach, ...shown }: Seal,
  before: StoredProof | null,
): StoredProof {
  // A walk that proves nothing does not take back how far an earlier one has reached.
  const isKnown = doubt === undefined && reach !== undefined;
  const kept = isKnown ? reach : Math.max(reach ?? 0, before?.reach ?? 0);
  const doubtBefore = before?.doubt;
  return {
    ...proof,
    ...shown,
    ...(kept === 0 ? {} : { reach: kept }),
    ...(doubt === undefined ? {} : { doubt: { ...doubt, runs: 1 } }),
    ...(doubtBefore === undefined ? {} : { doubtBefore }),
    readAt: before?.readAt ?? null,
  };
}

export interface SealedTree {
  readonly mode: WalkMode | null;
  /** Of a listing inside the tree. */
  readonly innerDoubt?: Doubt;
  readonly now: Instant;
}

/**
 * What is stored when every listing of the tree has been read: with a doubt of one of them, the last complete read
 * remains as it was.
 */
export function sealProof(
  { doubt: own, doubtBefore, ...ended }: StoredProof,
  { mode, innerDoubt, now }: SealedTree,
): StoredProof {
  const doubt = own ?? innerDoubt;
  if (doubt !== undefined) return { ...ended, doubt: { ...doubt, runs: runsWith(doubt, doubtBefore) } };
  return mode === 'full' ? { ...ended, readAt: now } : ended;
}

function runsWith(doubt: Doubt, before: StoredDoubt | undefined): number {
  return before !== undefined && numbersOf(before) === numbersOf(doubt) ? before.runs + 1 : 1;
}

function numbersOf(doubt: Doubt): string {
  return doubt.kind === 'total' ? `${doubt.total} ${doubt.shown}` : doubt.kind;
}
