import { historyName, isLikeGlob, isConnectorName, isDeclaredName } from '../core/names.ts';
import { usage } from '../core/errors.ts';
import { firstNames, suggestName } from '../definitions/suggest-name.ts';
import { publishCommands } from './publish-settings.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings, PublishSettings } from './settings.ts';

/**
 * The connectors that a person named, each once and in that order; without names all of the config. A name with `*`
 * stands for all that match. Throws USAGE for an unknown one.
 */
export function chosenConnectors(settings: LocalSettings, names: readonly string[]) {
  checkSome(settings);
  if (names.length === 0) return [...settings.connectors.values()];
  return [
    ...new Set(
      names.flatMap((name) =>
        name.includes('*') ? connectorsMatching(settings, [name]) : [connectorNamed(settings, name)],
      ),
    ),
  ];
}

/**
 * The connectors that match one of the globs (`*` stands for any text); without globs all of the config. Throws USAGE
 * for one that matches nothing.
 */
export function connectorsMatching(settings: LocalSettings, globs: readonly string[]) {
  checkSome(settings);
  const all = [...settings.connectors.values()];
  for (const glob of globs) {
    if (all.some(({ name }) => isLikeGlob(name, glob))) continue;
    throw usage(
      `No connector matches "${glob}"; the config has ${firstNames([...settings.connectors.keys()])}.`,
    );
  }
  return globs.length === 0 ? all : all.filter(({ name }) => globs.some((glob) => isLikeGlob(name, glob)));
}

/** Finds a connector by name. Throws USAGE with the known names. */
export function connectorNamed(settings: LocalSettings, name: string): ConnectorSettings {
  const connector = isConnectorName(name) ? settings.connectors.get(name) : undefined;
  if (connector !== undefined) return connector;
  if (settings.publish.has(name)) {
    throw usage(
      `"${name}" is a target of publish, expected a connector. To publish into it: publish ${name}`,
    );
  }
  const names = [...settings.connectors.keys()];
  const hint = suggestName(name, names) || `; the config has ${firstNames(names)}.`;
  throw usage(`Unknown connector "${name}"${hint}`);
}

/** Finds a sink by name. `called`: the term for the name in messages. Throws USAGE with the known names. */
export function sinkNamed({ sinks, file }: LocalSettings, called: string, name: string | undefined) {
  const all = [...sinks.keys()].join(', ');
  if (name === undefined) throw usage(`${called}: expected the name of a sink; ${file} has ${all}.`);
  const sink = sinks.get(name);
  if (sink === undefined) throw usage(`${called}: the config has no sink "${name}"; it has ${all}.`);
  return sink;
}

/** The sinks of these connectors, each once. */
export function sinksOf(connectors: readonly ConnectorSettings[]): readonly SinkSettings[] {
  return [...new Map(connectors.map(({ sink }) => [sink.name, sink])).values()];
}

/** The sinks of these connectors, each with its connectors. */
export function connectorsBySink(connectors: readonly ConnectorSettings[]) {
  return sinksOf(connectors).map(
    (sink) => [sink, connectors.filter((connector) => connector.sink.name === sink.name)] as const,
  );
}

function checkSome(settings: LocalSettings): void {
  if (settings.connectors.size > 0) return;
  throw usage(
    `Expected at least one connector in ${settings.file}, there is none. Add one below "connectors:".`,
  );
}

/** The table that `<connector>/<entity>` on the command line names. */
export type EntityTarget = ReturnType<typeof targetsOf>[number];

/** Every table of a connector. */
export function targetsOf(connector: ConnectorSettings) {
  return [...connector.definition.entities.values()].flatMap((entity) =>
    [entity.table, entity.explodedTable].flatMap((table) =>
      table === null
        ? []
        : {
            /** The name that a person writes. */
            name: `${connector.name}/${table.entity}`,
            connector,
            /** The entity, or the one whose records have the named rows as elements. */
            entity,
            table,
            /** The rows are elements of the entity's records. */
            isExploded: table !== entity.table,
          },
    ),
  );
}

/** Finds a table by its name. Throws USAGE with the known names. */
export function entityTarget(settings: LocalSettings, text: string): EntityTarget {
  const [connectorText = '', entityText = '', ...rest] = text.split('/');
  if (entityText === '' || rest.length > 0) throw usage(`Expected <connector>/<entity>, got "${text}".`);
  const targets = targetsOf(connectorNamed(settings, connectorText));
  const target = isDeclaredName(entityText)
    ? targets.find(({ table }) => table.entity === entityText)
    : undefined;
  if (target !== undefined) return target;
  const names = targets.map(({ table }) => table.entity);
  const hint = suggestName(entityText, names) || `; it has ${firstNames(names)}.`;
  throw usage(`${connectorText} has no entity "${entityText}"${hint}`);
}

/**
 * The targets that a person named, each once and in that order; without names all of the config. Throws USAGE for an
 * unknown one, and where the config has none.
 */
export function chosenTargets(settings: LocalSettings, names: readonly string[]): readonly PublishSettings[] {
  if (settings.publish.size === 0) {
    throw usage(`Expected at least one target in ${settings.file}, there is none. Add one below "publish:".`);
  }
  if (names.length === 0) return [...settings.publish.values()];
  return [...new Set(names.map((name) => targetNamed(settings, name)))];
}

/** Finds a target by name. Throws USAGE with the known names. */
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
 * Whether the config still publishes the entity, the one that it is exploded from, or the one of which it is the
 * history. Other entities stay in the target unchanged.
 */
export function isStillPublished(
  { connectors }: Pick<PublishSettings, 'connectors'>,
  of: { readonly connector: string; readonly entity: string },
): boolean {
  const connector = connectors.find(({ name }) => name === of.connector);
  return [...(connector?.entities ?? [])].some(([name, { history }]) => {
    const names = [name, connector?.definition.entities.get(name)?.explodedTable?.entity ?? name];
    return [...names, ...(history === null ? [] : names.map(historyName))].some((one) => one === of.entity);
  });
}

/** The targets that the connector is published into. */
export function targetsOfConnector({ publish }: Pick<LocalSettings, 'publish'>, connector: string) {
  return [...publish.values()].filter(({ connectors }) => connectors.some(({ name }) => name === connector));
}

/** The targets that are published after a sync of one of these connectors. */
export function targetsAfterSync(
  { publish }: Pick<LocalSettings, 'publish'>,
  connectors: ReadonlySet<string>,
): readonly PublishSettings[] {
  return [...publish.values()].filter(
    (target) =>
      target.when.kind === 'after-sync' && target.connectors.some(({ name }) => connectors.has(name)),
  );
}
