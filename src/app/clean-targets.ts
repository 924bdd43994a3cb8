import type { ConnectorName, EntityName } from '../core/names.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { LocalSettings, PublishSettings } from '../settings/settings.ts';
import { ordinaryPublication, publishTarget, withTarget } from './publish-target.ts';

/** What became of a target after a purge. */
export interface CleanedTarget {
  readonly target: string;
  /** The newest publication: it is all that the target has. Null: nothing was ever published. */
  readonly publication: number | null;
  /** Publications and files that were removed. */
  readonly removed: { readonly publications: number; readonly files: number };
  /** Why it may still hold what was purged; null: it does not. */
  readonly problem: string | null;
}

/**
 * Publishes into each target of the connector, and removes everything that was published before. Readers that follow a
 * target of files load it again. What cannot be cleaned now is named, and never keeps others from it.
 */
export async function cleanTargets(
  settings: LocalSettings,
  { connector, entities }: { readonly connector: ConnectorName; readonly entities: readonly EntityName[] },
  how: OpenTarget,
): Promise<readonly CleanedTarget[]> {
  const cleaned: CleanedTarget[] = [];
  const targets = [...settings.publish.values()].filter(({ connectors }) =>
    connectors.some(({ name }) => name === connector),
  );
  for (const target of targets) {
    how.signal.throwIfAborted();
    try {
      checkTargets(settings, [target]);
      cleaned.push(await cleanTarget(target, { connector, entities }, how));
    } catch (error) {
      how.signal.throwIfAborted();
      const problem = error instanceof Error ? error.message : String(error);
      cleaned.push({ target: target.name, publication: null, removed: nothing, problem });
    }
  }
  return cleaned;
}

const nothing = { publications: 0, files: 0 } as const;

async function cleanTarget(
  settings: PublishSettings,
  { connector, entities }: { readonly connector: ConnectorName; readonly entities: readonly EntityName[] },
  how: OpenTarget,
): Promise<CleanedTarget> {
  const { name } = settings;
  // With all rows of every entity, so that no reader needs an older publication.
  const asked = { ...ordinaryPublication, isSnapshotAsked: true };
  const end = await publishTarget(settings, {
    ...asked,
    ...how,
    onProgress: () => undefined,
    notifier: null,
  });
  if (end.kind === 'nothing-stored') {
    return { target: name, publication: null, removed: nothing, problem: null };
  }
  const { manifest } = end.kind === 'published' ? end.published : end.newest;
  const { publications, files } = await withTarget(
    settings,
    how,
    async (target) => await target.prune(how.clock.now() + 1, false, true),
  );
  const held = end.heldBack.filter(
    (one) => one.connector === connector && entities.some((entity) => entity === one.entity),
  );
  const problem =
    held.length === 0
      ? null
      : `${held.map(({ entity }) => entity).join(', ')} stay as they were published until they are read completely again. To replace all rows now: publish ${name} --new-generation, then publish prune.`;
  return { target: name, publication: manifest.publication, removed: { publications, files }, problem };
}
