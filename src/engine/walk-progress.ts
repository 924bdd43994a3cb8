import { hash } from 'node:crypto';
import * as z from 'zod';

/** Of the keys that a walk has met it keeps so many: those with the smallest hashes. */
const sampleSize = 100;
/** Pages in a row that may lead no further, and records beyond those that the rules below allow: some services send many empty pages. */
const patience = 1_000;
/** How often a record may come while a walk goes on: pages of eleven records overlap by ten. */
const mostRepeats = 32;
/** So many times what a walk had read before may come again, as rows move: then it is no accident. */
const mostRereads = 4;

const hashes = z.array(z.string()).readonly();

/**
 * Whether a walk gets anywhere, whatever its strategy: kept in its position, so that it survives a kill. A key that was not met before
 * joins a full sample with a probability of its size to all keys met. So a walk that goes on is all but certain (1 to 10^13) to change
 * its sample before it has read four times as much again, and one that only meets known keys never does.
 */
export const walkProgress = z.object({
  /** Pages in a row that were empty, or led to no row behind those read. */
  stalled: z.number(),
  sample: hashes,
  /** Records up to the last change of the sample; an empty page counts as one. */
  before: z.number(),
  /** Records since then, and the sample of their keys alone. */
  since: z.number(),
  sinceSample: hashes,
});
export type WalkProgress = z.infer<typeof walkProgress>;

export const noProgress: WalkProgress = { stalled: 0, sample: [], before: 0, since: 0, sinceSample: [] };

/** `keys`: of the page's records that have one. `isFurther`: the page reaches behind what was read. */
export function afterKeys(progress: WalkProgress, keys: readonly string[], isFurther: boolean): WalkProgress {
  const { before, since, sinceSample } = progress;
  const stalled = isFurther ? 0 : progress.stalled + 1;
  const met = keys.map((key) => hash('sha256', key, 'hex').slice(0, 8));
  const sample = withSmallest(progress.sample, met);
  const read = since + Math.max(1, keys.length);
  return sample === progress.sample
    ? { stalled, sample, before, since: read, sinceSample: withSmallest(sinceSample, met) }
    : { stalled, sample, before: before + read, since: 0, sinceSample: [] };
}

/** Why the walk must not go on; null while it gets somewhere. */
export function stuckBecause({ stalled, before, since, sinceSample }: WalkProgress): string | null {
  const advice =
    'what was read is kept, and the next run begins this listing again; report it to the operator of the service if it stays so';
  if (stalled > patience) {
    return `expected each page to lead on, got ${stalled} in a row that were empty or showed no row behind those read; ${advice}`;
  }
  const isCounted = sinceSample.length < sampleSize;
  const most = isCounted
    ? mostRepeats * sinceSample.length
    : Math.max(mostRepeats * sampleSize, mostRereads * before);
  if (since <= patience + most) return null;
  const shown = isCounted ? `${sinceSample.length} different ones` : 'all known before';
  return `expected each page to lead to other records, got the same ones again and again: the last ${since} were ${shown}; ${advice}`;
}

/** The sample itself where none of `met` belongs into it. */
function withSmallest(sample: readonly string[], met: readonly string[]): readonly string[] {
  const largest = sample.length < sampleSize ? null : (sample.at(-1) ?? null);
  const known = new Set(sample);
  const joining = new Set(met.filter((one) => (largest === null || one < largest) && !known.has(one)));
  return joining.size === 0 ? sample : [...sample, ...joining].toSorted().slice(0, sampleSize);
}
