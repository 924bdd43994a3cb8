import { isConnectorName } from '../core/names.ts';
import { usage } from '../core/usage-error.ts';
import { suggestName } from '../definitions/suggest-name.ts';
import type { ConnectorSettings, LocalSettings } from './settings.ts';

/** The connectors that a person named, each once and in that order; all of the config where none is. Throws USAGE for an unknown one. */
export function chosenConnectors(
  settings: LocalSettings,
  names: readonly string[],
): readonly ConnectorSettings[] {
  checkSome(settings);
  return names.length === 0
    ? [...settings.connectors.values()]
    : [...new Set(names)].map((name) => connectorNamed(settings, name));
}

/** Those that match one of the globs (`*` stands for any text); all of the config where there is none. Throws USAGE for one that matches nothing. */
export function connectorsMatching(
  settings: LocalSettings,
  globs: readonly string[],
): readonly ConnectorSettings[] {
  checkSome(settings);
  const all = [...settings.connectors.values()];
  for (const glob of globs) {
    if (all.some(({ name }) => matches(glob, name))) continue;
    throw usage(`No connector matches "${glob}"; the config has ${all.map(({ name }) => name).join(', ')}.`);
  }
  return globs.length === 0 ? all : all.filter(({ name }) => globs.some((glob) => matches(glob, name)));
}

/** Throws USAGE, naming those that exist. */
export function connectorNamed(settings: LocalSettings, name: string): ConnectorSettings {
  const connector = isConnectorName(name) ? settings.connectors.get(name) : undefined;
  if (connector !== undefined) return connector;
  const known = [...settings.connectors.keys()];
  const suggestion = suggestName(name, known);
  throw usage(
    `Unknown connector "${name}"${suggestion === '' ? `; the config has ${known.join(', ')}.` : suggestion}`,
  );
}

function checkSome(settings: LocalSettings): void {
  if (settings.connectors.size > 0) return;
  throw usage(
    `Expected at least one connector in ${settings.file}, there is none. Add one below "connectors:".`,
  );
}

function matches(glob: string, name: string): boolean {
  const texts = glob.split('*').map((text) => text.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${texts.join('.*')}$`).test(name);
}
