import type { CleanedTarget } from '../app/erasures.ts';
import { targetNames, type LeftStep, type PurgeWork } from '../sinks/purges.ts';
import { counted } from '../telemetry/format.ts';

/** That a record was purged which is not stored, as the sink notes it. */
export function purgedText({
  at,
  who,
  canReturn,
}: {
  readonly at: string;
  readonly who: string;
  readonly canReturn: boolean;
}): string {
  const next = canReturn ? 'the next sync that meets it stores it again' : 'syncs do not store it again';
  return `was purged at ${at} by ${who}; ${next}.`;
}

/** That purges are not finished, and where it matters; empty: they are. */
export function unfinishedPurgeText(work: readonly PurgeWork[], program: string): string {
  if (work.length === 0) return '';
  const connectors = [...new Set(work.map(({ connector }) => connector))].join(' ');
  return `a purge is not finished: ${purgedPlaces(work)} may still hold what was purged; to finish it: ${program} prune ${connectors}`;
}

/** Where purges have left work. */
export function purgedPlaces(work: readonly PurgeWork[]): string {
  const isSinkLeft = work.some(({ step }) => step === 'lines' || step === 'space');
  return [...(isSinkLeft ? ['the sink'] : []), ...targetNames(work).map((name) => `target ${name}`)].join(
    ' and ',
  );
}

/** What a purge has left to do in the sink. */
export function leftText({ step, entity, why }: LeftStep): string {
  const what = step === 'lines' ? 'lines of its files' : 'freed space of its table';
  return `Not done yet: ${what} (${entity}): ${why} Then: prune`;
}

/** Says what a purge left in a target. */
export function cleanedText({ target, publication, removed, problem }: CleanedTarget): string {
  if (problem !== null) return `Target ${target} may still hold what was purged: ${problem}`;
  if (publication === null) return `Target ${target}: nothing was ever published`;
  const { publications, files } = removed;
  return `Target ${target}: publication ${publication} is without what was purged; ${counted(publications, 'older publication')} removed, with ${counted(files, 'file')}`;
}
