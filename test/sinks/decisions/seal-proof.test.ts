import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { endProof, sealProof } from '../../../src/sinks/ledger/partitions/end-walk.ts';
import type { Doubt, Seal, StoredProof } from '../../../src/sinks/partition.ts';

const proof = { kind: 'seam', isOrdered: true } as const;
const seal: Seal = { proof, watermark: null, absence: 'nothing' };
const doubt: Doubt = { kind: 'total', total: 8, shown: 3 };
const at = (hour: number): string => instant(Date.UTC(2026, 2, 1, hour));

function ended(one: Seal, before: StoredProof | null, mode: 'full' | 'incremental' = 'full'): StoredProof {
  return sealProof(endProof(one, before), { mode, now: at(10) });
}

it('notes when a listing was read in full without a doubt, and keeps that through other walks', () => {
  const full = ended(seal, null);
  expect(full).toEqual({ ...proof, readAt: at(10) });
  const before = { ...proof, readAt: at(8) };
  expect(ended(seal, before, 'incremental').readAt).toBe(at(8));
  expect(ended({ ...seal, doubt }, before).readAt).toBe(at(8));
  expect(ended({ ...seal, doubt }, null).readAt).toBe(null);
});

it.each<[string, Doubt, number]>([
  ['the same numbers', { ...doubt }, 4],
  ['other numbers', { ...doubt, shown: 4 }, 1],
  ['another doubt', { kind: 'repeats' }, 1],
])('counts a doubt with %s as that of %i runs in a row', (_what, next, runs) => {
  const before = { ...proof, doubt: { ...doubt, runs: 3 }, readAt: null };
  expect(ended({ ...seal, doubt: next }, before)).toEqual({
    ...proof,
    doubt: { ...next, runs },
    readAt: null,
  });
});

it('forgets the doubt where the next walk has none', () => {
  const before = { ...proof, doubt: { ...doubt, runs: 3 }, readAt: null };
  expect(ended(seal, before)).toEqual({ ...proof, readAt: at(10) });
});

it('keeps how far an earlier walk has reached where the next one ends with a doubt', () => {
  const before = { ...proof, reach: 40, readAt: null };
  expect(ended({ ...seal, doubt, reach: 3 }, before).reach).toBe(40);
  expect(ended({ ...seal, reach: 3 }, before).reach).toBe(3);
});
