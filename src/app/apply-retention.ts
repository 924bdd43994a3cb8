import type { RunEvent } from '../core/events.ts';
import type { EntityName } from '../core/names.ts';
import { exceedsGuards } from '../engine/sweep/sweep-run.ts';
import type { OpenTarget } from '../publish/open-target.ts';
import { targetsOfConnector } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { checkTargets } from '../settings/load-settings.ts';
import type { DueOf, ExpiredOf, LeftStep, Retention } from '../sinks/requests.ts';
import { accessSink, openExistingRecords, openSink } from '../sinks/registry.ts';
import type { Sink } from '../sinks/sink-access.ts';
import { withTarget } from './publish-target.ts';
import { removerOf } from './purge-records.ts';
import { retentionsOf } from './connector-states.ts';

interface Applying extends OpenTarget {
  /** Checks even if a run has checked within the last day. */
  readonly isAsked: boolean;
  readonly isDryRun?: boolean;
  /** Also removes items that a guard keeps. */
  readonly allowDeletes?: boolean;
}

/** Items that were, or would be, removed, and items that a guard keeps. */
interface Applied {
  readonly entities: readonly ExpiredOf[];
  readonly withheld: readonly Extract<RunEvent, { readonly kind: 'retention-withheld' }>[];
}

const nothing: Applied = { entities: [], withheld: [] };

/**
 * Removes data older than the settings keep: tombstones that every target has published, records in quarantine, files
 * of deleted records, versions. Keeps them if there are more than the guards of the settings allow. Rejects with
 * `ConnectorBusyError`, and with TARGET_FAILED and others if a target cannot tell what it has published.
 */
export async function applyRetention(
  settings: LocalSettings,
  connector: ConnectorSettings,
  purges: Sink['purges'],
  how: Applying,
): Promise<Applied> {
  const kept = retentionsOf(connector, how.clock);
  if (kept.length === 0) return nothing;
  const { name } = connector;
  const { isAsked, isDryRun = false, allowDeletes = false, signal } = how;
  // Checked before any target is asked, because usually nothing has expired.
  let due = await purges.expired(name, { entities: kept, isAsked });
  let entities = kept.filter(({ entity }) => due.some((one) => one.entity === entity));
  if (due.some(({ rows }) => rows > 0)) {
    const through = await publishedThrough(settings, connector, how);
    entities = entities.map((one) => ({
      ...one,
      publishedThrough: through.get(one.entity) ?? one.publishedThrough,
    }));
    due = await purges.expired(name, { entities, isAsked: true });
  }
  if (entities.length === 0) return nothing;
  const withheld = allowDeletes ? [] : due.flatMap((one) => withheldOf(one, settings));
  if (isDryRun) return { entities: due.map((one) => withoutWithheld(one, withheld)), withheld };
  const request = {
    entities: entities.map((one) => keeping(one, withheld)),
    isAsked,
    signal,
    removeFile: removerOf(connector, how.clock),
  };
  return { entities: await purges.expire(name, request), withheld };
}

/** Applies the guards as to deletes. Quarantined records are exempt: they are removed after 90 days in any case. */
function withheldOf(due: DueOf, { guards }: LocalSettings): Applied['withheld'] {
  const { entity } = due;
  return (['rows', 'files', 'versions'] as const)
    .filter((what) => exceedsGuards(due[what], due.of[what], guards))
    .map((what) => ({ kind: 'retention-withheld', entity, what, count: due[what], of: due.of[what] }));
}

function withoutWithheld({ of: _of, ...due }: DueOf, withheld: Applied['withheld']): ExpiredOf {
  const kept = withheld.filter(({ entity }) => entity === due.entity).map(({ what }) => [what, 0]);
  return { ...due, ...(Object.fromEntries(kept) as Partial<ExpiredOf>) };
}

function keeping(retention: Retention, withheld: Applied['withheld']): Retention {
  const own = withheld.filter(({ entity }) => entity === retention.entity);
  const isKept = (which: (typeof own)[number]['what']): boolean => own.some(({ what }) => what === which);
  return {
    ...retention,
    deletedBefore: isKept('rows') ? null : retention.deletedBefore,
    filesBefore: isKept('files') ? null : retention.filesBefore,
    versionsBefore: isKept('versions') ? null : retention.versionsBefore,
    withheld: own.reduce((sum, { count }) => sum + count, 0),
  };
}

/** Applies the retention of the settings now, and completes purges. Rejects as `applyRetention`. */
export async function pruneConnector(
  settings: LocalSettings,
  connector: ConnectorSettings,
  how: OpenTarget & { readonly isDryRun: boolean; readonly allowDeletes: boolean },
): Promise<Applied & { readonly left: readonly LeftStep[] }> {
  if (!(await accessSink(connector.sink).isThere())) return { ...nothing, left: [] };
  await using sink = await openSink(connector.sink, how);
  const left = how.isDryRun ? [] : await sink.purges.complete(connector.name);
  return { ...(await applyRetention(settings, connector, sink.purges, { ...how, isAsked: true })), left };
}

/** The change number up to which every target of the connector has an entity; 0 if one has nothing of it. */
async function publishedThrough(settings: LocalSettings, connector: ConnectorSettings, how: OpenTarget) {
  const targets = targetsOfConnector(settings, connector.name);
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
