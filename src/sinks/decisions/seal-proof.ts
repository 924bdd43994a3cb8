import type { Instant } from '../../core/clock.ts';
import type { Doubt, Seal, StoredDoubt, StoredProof, WalkMode } from '../partition.ts';

/** What was known of a partition when its listing was read to its end. */
export interface BeforeEnd {
  /** Of the walk before; null: there was none. */
  readonly proof: StoredProof | null;
  readonly fullAt: Instant | null;
  readonly sealedAt: Instant | null;
}

/** What is stored when a partition's own listing has been read to its end; what counts of it is known when its whole tree is read. */
export function endProof(
  { proof, doubt, absence: _absence, watermark: _watermark, ...shown }: Seal,
  before: BeforeEnd,
): StoredProof {
  const doubtBefore = before.proof?.doubt;
  return {
    ...proof,
    ...shown,
    ...(doubt === undefined ? {} : { doubt: { ...doubt, runs: 1 } }),
    ...(doubtBefore === undefined ? {} : { doubtBefore }),
    readAt: readBefore(before),
  };
}

/** Versions before did not note it. They read nothing of what changed before they had read everything. */
function readBefore({ proof, fullAt, sealedAt }: BeforeEnd): Instant | null {
  if (proof === null || proof.readAt !== undefined) return proof?.readAt ?? null;
  return fullAt ?? sealedAt;
}

export interface SealedTree {
  readonly mode: WalkMode | null;
  /** Of a listing inside the tree. */
  readonly innerDoubt?: Doubt;
  readonly now: Instant;
}

/** What is stored when every listing of the tree has been read: with a doubt of one of them, the last complete read remains as it was. */
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
