import { instant, type Clock, type Instant } from '../core/clock.ts';
import type { EntityName } from '../core/names.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ExpiredOf, LeftStep, Purges, Retention } from '../sinks/purges.ts';
import { accessSink, openExistingRecords, openSink } from '../sinks/registry.ts';
import { withTarget } from './publish-target.ts';
import { removerOf } from './purge-records.ts';

interface Applying extends OpenTarget {
  /** Also where a run has looked within a day. */
  readonly isAsked: boolean;
  readonly isDryRun?: boolean;
}

/**
 * Removes what is older than the settings keep: tombstones that every target has published, records in quarantine,
 * files of deleted records. Rejects with TARGET_FAILED and others where a target cannot tell what it has published, and
 * with `ConnectorBusyError`.
 */
export async function applyRetention(
  settings: LocalSettings,
  connector: ConnectorSettings,
  purges: Purges,
  how: Applying,
): Promise<readonly ExpiredOf[]> {
  const kept = retentionsOf(connector, how.clock);
  if (kept.length === 0) return [];
  const { name } = connector;
  // Before targets are asked: mostly there is nothing.
  const due = await purges.expired(name, { entities: kept, isAsked: how.isAsked });
  const has = due.filter(({ rows, quarantined, files }) => rows + quarantined + files > 0);
  const isAnyRow = has.some(({ rows }) => rows > 0);
  const through = isAnyRow ? await publishedThrough(settings, connector, how) : new Map<EntityName, number>();
  const entities = kept
    .filter(({ entity }) => due.some((one) => one.entity === entity))
    .map((one) => ({ ...one, publishedThrough: through.get(one.entity) ?? one.publishedThrough }));
  if (how.isDryRun === true) return await purges.expired(name, { entities, isAsked: true });
  if (entities.length === 0) return [];
  const { signal, isAsked } = how;
  return await purges.expire(name, {
    entities,
    isAsked,
    signal,
    removeFile: removerOf(connector, how.clock),
  });
}

/** Applies the retention of the settings now, and completes purges. Rejects as `applyRetention`. */
export async function pruneConnector(
  settings: LocalSettings,
  connector: ConnectorSettings,
  { isDryRun, ...how }: OpenTarget & { readonly isDryRun: boolean },
): Promise<{ readonly entities: readonly ExpiredOf[]; readonly left: readonly LeftStep[] }> {
  if (!(await accessSink(connector.sink).isThere())) return { entities: [], left: [] };
  await using sink = await openSink(connector.sink, how);
  const left = isDryRun ? [] : await sink.purges.complete(connector.name);
  const entities = await applyRetention(settings, connector, sink.purges, {
    ...how,
    isDryRun,
    isAsked: true,
  });
  return { entities, left };
}

function retentionsOf({ entities, definition }: ConnectorSettings, clock: Clock): readonly Retention[] {
  const before = (ms: number | undefined): Instant | null =>
    ms === undefined ? null : instant(clock.now() - ms);
  return [...entities].flatMap(([entity, { retention }]) => {
    if (retention === undefined) return [];
    const exploded = definition.entities.get(entity)?.explodedTable?.entity;
    return [entity, ...(exploded === undefined ? [] : [exploded])].map((one) => ({
      entity: one,
      deletedBefore: before(retention.deletedRowsMs),
      quarantinedBefore: before(retention.quarantineMs),
      filesBefore: before(retention.downloadsMs),
      publishedThrough: Number.MAX_SAFE_INTEGER,
    }));
  });
}

/** Up to which change number every target of the connector has an entity; 0 where one has nothing of it. */
async function publishedThrough(
  settings: LocalSettings,
  connector: ConnectorSettings,
  how: OpenTarget,
): Promise<ReadonlyMap<EntityName, number>> {
  const targets = [...settings.publish.values()].filter(({ connectors }) =>
    connectors.some(({ name }) => name === connector.name),
  );
  const through = new Map<EntityName, number>();
  if (targets.length === 0) return through;
  checkTargets(settings, targets);
  await using reader = await openExistingRecords(connector.sink);
  for (const target of targets) {
    const newest = await withTarget(target, how, async (one) => await one.newest());
    for (const { entity } of retentionsOf(connector, how.clock)) {
      const tableId = (await reader?.tableId(connector.name, entity)) ?? null;
      const published = newest?.manifest.entities.find(
        (one) => one.connector === connector.name && one.entity === entity && one.tableId === tableId,
      );
      through.set(entity, Math.min(published?.through ?? 0, through.get(entity) ?? Number.MAX_SAFE_INTEGER));
    }
  }
  return through;
}
