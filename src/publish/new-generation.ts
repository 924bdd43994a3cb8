import path from 'node:path';
import { SyncError } from '../core/errors.ts';
import { entityName, type Manifest, type PublishedEntity } from './manifest.ts';
import { publishedRun, type StoredEntity, type StoredState } from './stored-state.ts';

/**
 * A sink that was restored gives numbers again that the target knows already: of every connector, as they are in one
 * sink.
 */
export function reasonForAll(
  newest: Manifest | null,
  stored: StoredState,
  wishes: { readonly target: string; readonly isNewGenerationAsked: boolean },
): string | null {
  if (newest === null) return null;
  if (wishes.isNewGenerationAsked) return 'it was asked for';
  if (newest.sink !== stored.sinkId) {
    if (followedEntities(newest, stored).length === 0) throw otherSinkError(newest, wishes.target);
    return 'the records were copied to another sink';
  }
  const reused = stored.connectors.find(({ hasReusedNumbers }) => hasReusedNumbers);
  if (reused !== undefined) {
    return `the sink was restored from a backup: changes of ${reused.connector} have numbers that were published before`;
  }
  const ended = stored.connectors.find(({ isPublishedEndKnown }) => !isPublishedEndKnown);
  if (ended !== undefined) {
    const run = publishedRun(newest, ended.connector)?.run ?? '';
    return `the sink was restored from a backup: it does not know the end of run ${run} of ${ended.connector}, which was published`;
  }
  const lost = stored.connectors
    .map((connector) => ({ connector, run: publishedRun(newest, connector.connector) }))
    .find(
      ({ connector: { isPublishedRunKnown, oldestRunAt }, run }) =>
        !isPublishedRunKnown && run !== null && oldestRunAt !== null && oldestRunAt < run.startedAt,
    );
  if (lost === undefined) return null;
  return `the sink was restored from a backup: it knows older runs of ${lost.connector.connector}, but not ${lost.run?.run ?? ''}, which was published`;
}

/** Why rows that were published cannot be followed any further; null where they can. */
export function reasonOfEntity(
  published: PublishedEntity,
  { table, tableId }: StoredEntity,
  key: readonly string[],
  layout: string | null,
): string | null {
  if (published.tableId !== tableId) return 'its table in the sink was reset, purged or rewritten';
  if (published.key.join() !== key.join()) {
    return `its key was ${published.key.join(', ')} and is now ${key.join(', ')}`;
  }
  for (const { field, type } of published.columns) {
    const column = table.columns.find(({ name }) => name === field);
    if (column === undefined) return `its column ${field} is gone`;
    if (column.type !== type) return `its column ${field} was ${type} and is now ${column.type}`;
  }
  // Who reads all files of a generation by a pattern would miss those of the other names.
  if (published.layout !== null && layout !== null && published.layout !== layout) {
    const [before, now] = [path.posix.parse(published.layout), path.posix.parse(layout)];
    return path.posix.join(before.dir, before.name) === path.posix.join(now.dir, now.name)
      ? `its files were ${before.ext} and are now ${now.ext}`
      : `its files were named ${published.layout} and are now named ${layout}`;
  }
  return null;
}

/** Those whose table is still the one that was published: a copied one keeps its id. */
export function followedEntities(newest: Manifest, { connectors }: StoredState): readonly PublishedEntity[] {
  const tableIds = new Map(
    connectors.flatMap(({ connector, entities }) =>
      entities.map(({ table: { entity }, tableId }) => [entityName({ connector, entity }), tableId]),
    ),
  );
  return newest.entities.filter((one) => tableIds.get(entityName(one)) === one.tableId);
}

/** Two projects with one place would replace each other's rows with every publication. */
function otherSinkError({ sink, publication }: Manifest, target: string): SyncError {
  return new SyncError(
    `Target ${target} holds publication ${publication} of another sink (id ${sink}). If the target belongs to another project, name another place for it. ` +
      `If this sink has taken the place of that one, replace all published rows: publish ${target} --new-generation.`,
    { code: 'TARGET_INCOMPATIBLE', recovery: 'stop', context: { target, sink } },
  );
}
