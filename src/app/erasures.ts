import { SyncError } from '../core/errors.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import type { PublishEnd } from '../publish/publication.ts';
import type { Target } from '../publish/target.ts';
import type { PublishSettings } from '../settings/settings.ts';
import type { PurgeWork } from '../sinks/purges.ts';
import { openExistingHistory, openSink } from '../sinks/registry.ts';
import { counted } from '../telemetry/format.ts';

/** The state of a target after a purge. */
export interface CleanedTarget {
  readonly target: string;
  /** The newest publication: it is all that the target has. Null: nothing was ever published. */
  readonly publication: number | null;
  /** Publications and files that were removed. */
  readonly removed: { readonly publications: number; readonly files: number };
  /** Why it may still hold what was purged; null: it does not. */
  readonly problem: string | null;
}

/** A target that could not be cleaned. */
export function notCleaned(target: string, problem: string): CleanedTarget {
  return { target, publication: null, removed: { publications: 0, files: 0 }, problem };
}

/** Steps that purges of the target's connectors have not finished there. */
export async function targetWork({ name, connectors }: PublishSettings): Promise<readonly PurgeWork[]> {
  const [first] = connectors;
  await using history = first === undefined ? null : await openExistingHistory(first.sink);
  const work = (await history?.purgeWork(connectors.map((one) => one.name))) ?? [];
  return work.filter(({ step }) => step === `target:${name}`);
}

/**
 * Finishes purges in a target, after a publication that began when their rows were gone from the sink: removes
 * everything that was published before, and what killed publishers left. What cannot be done now stays noted.
 */
export async function finishPurges(
  target: Target,
  { name, connectors: [first] }: PublishSettings,
  { work, end, ...how }: OpenTarget & { readonly work: readonly PurgeWork[]; readonly end: PublishEnd },
): Promise<CleanedTarget> {
  try {
    const { publications, files, waiting } = await target.prune(how.clock.now() + 1, false, true);
    const left = `${counted(waiting.files, 'file')} of a publication that was begun and is not there; the next publication removes what is left of it.`;
    const problem = heldText(name, work, end) ?? (waiting.files > 0 ? left : null);
    if (problem === null && first !== undefined) {
      await using sink = await openSink(first.sink, how);
      await sink.purges.noteDone(work);
    }
    const newest =
      end.kind === 'nothing-stored' ? null : end.kind === 'published' ? end.published : end.newest;
    const publication = newest?.manifest.publication ?? null;
    return { target: name, publication, removed: { publications, files }, problem };
  } catch (error) {
    how.signal.throwIfAborted();
    if (!(error instanceof SyncError)) throw error;
    return notCleaned(name, error.message);
  }
}

/** An entity that waits to be read again keeps what was published. */
function heldText(target: string, work: readonly PurgeWork[], end: PublishEnd): string | null {
  const held = (end.kind === 'nothing-stored' ? [] : end.heldBack).filter((one) =>
    work.some(({ connector, entity }) => connector === one.connector && entity === one.entity),
  );
  if (held.length === 0) return null;
  return `${held.map(({ entity }) => entity).join(', ')} stay as they were published until they are read completely again. To replace all rows now: publish ${target} --new-generation, then publish prune.`;
}
