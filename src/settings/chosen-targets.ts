import { usage } from '../core/usage-error.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import { publishCommands } from './build-publish.ts';
import type { LocalSettings, PublishSettings } from './settings.ts';

/**
 * The targets that a person named, each once and in that order; all of the config where none is. Throws USAGE for an
 * unknown one, and where there is none at all.
 */
export function chosenTargets(settings: LocalSettings, names: readonly string[]): readonly PublishSettings[] {
  if (settings.publish.size === 0) {
    throw usage(`Expected at least one target in ${settings.file}, there is none. Add one below "publish:".`);
  }
  if (names.length === 0) return [...settings.publish.values()];
  return [...new Set(names.map((name) => targetNamed(settings, name)))];
}

/** Throws USAGE, naming those that exist. */
export function targetNamed({ publish }: LocalSettings, name: string): PublishSettings {
  const target = publish.get(name);
  if (target !== undefined) return target;
  if (publishCommands.includes(name)) {
    throw usage(`"${name}" is a command of publish, so it comes first: publish ${name} [target...]`);
  }
  const names = [...publish.keys()];
  const hint = suggestName(name, names) || `; the config has ${names.join(', ') || 'none'}.`;
  throw usage(`Unknown target "${name}"${hint}`);
}

/**
 * Whether the config has the entity, or the one that it is exploded from, among those that a target holds. Others stay
 * there as they were.
 */
export function isStillPublished(
  { connectors }: Pick<PublishSettings, 'connectors'>,
  of: { readonly connector: string; readonly entity: string },
): boolean {
  const connector = connectors.find(({ name }) => name === of.connector);
  return [...(connector?.entities.keys() ?? [])].some(
    (name) =>
      name === of.entity || connector?.definition.entities.get(name)?.explodedTable?.entity === of.entity,
  );
}

/** Those that the connector is published into. */
export function targetsOfConnector(
  { publish }: Pick<LocalSettings, 'publish'>,
  connector: string,
): readonly PublishSettings[] {
  return [...publish.values()].filter(({ connectors }) => connectors.some(({ name }) => name === connector));
}

/** Those that are published when a sync of one of these connectors has ended. */
export function targetsAfterSync(
  { publish }: Pick<LocalSettings, 'publish'>,
  connectors: ReadonlySet<string>,
): readonly PublishSettings[] {
  return [...publish.values()].filter(
    (target) =>
      target.when.kind === 'after-sync' && target.connectors.some(({ name }) => connectors.has(name)),
  );
}

/** A target that workers publish into. */
export type WorkerTarget = ReturnType<typeof workerTargets>[number];

/**
 * Those with one of these connectors, in the config's order. `sink`: the name of the one that it is published from;
 * `everyMs`: null: after syncs.
 */
export function workerTargets({ publish }: Pick<LocalSettings, 'publish'>, connectors: ReadonlySet<string>) {
  return [...publish.values()].flatMap(({ name, when, connectors: [first, ...others] }) =>
    when.kind !== 'by-hand' &&
    first !== undefined &&
    [first, ...others].some((one) => connectors.has(one.name))
      ? [{ name, sink: first.sink.name, everyMs: when.kind === 'every' ? when.everyMs : null }]
      : [],
  );
}
