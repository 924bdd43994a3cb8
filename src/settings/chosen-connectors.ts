import { isLikeGlob } from '../core/glob.ts';
import { isConnectorName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import { firstNames, suggestName } from '../definitions/suggest-name.ts';
import type { ConnectorSettings, LocalSettings, SinkSettings } from './settings.ts';

/**
 * The connectors that a person named, each once and in that order; all of the config where none is. A name with `*`
 * stands for all that match. Throws USAGE for an unknown one.
 */
export function chosenConnectors(
  settings: LocalSettings,
  names: readonly string[],
): readonly ConnectorSettings[] {
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
 * Those that match one of the globs (`*` stands for any text); all of the config where there is none. Throws USAGE for
 * one that matches nothing.
 */
export function connectorsMatching(
  settings: LocalSettings,
  globs: readonly string[],
): readonly ConnectorSettings[] {
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

/** Throws USAGE, naming those that exist. */
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

/** `called`: what messages call the name. Throws USAGE, naming those that exist. */
export function sinkNamed(
  { sinks, file }: LocalSettings,
  called: string,
  name: string | undefined,
): SinkSettings {
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

function checkSome(settings: LocalSettings): void {
  if (settings.connectors.size > 0) return;
  throw usage(
    `Expected at least one connector in ${settings.file}, there is none. Add one below "connectors:".`,
  );
}
