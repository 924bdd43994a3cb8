import { SyncError } from '../core/errors.ts';
import { isConnectorName } from '../core/names.ts';
import type { ConnectorSettings, Settings } from '../settings/settings.ts';

/** The connectors that a person named, each once and in that order; all of the config where none is. Throws USAGE for an unknown one. */
export function chosenConnectors(settings: Settings, names: readonly string[]): readonly ConnectorSettings[] {
  if (settings.connectors.size === 0) {
    throw usage(
      `Expected at least one connector in ${settings.file}, there is none. Add one below "connectors:".`,
    );
  }
  return names.length === 0
    ? [...settings.connectors.values()]
    : [...new Set(names)].map((name) => connectorNamed(settings, name));
}

/** Throws USAGE, naming those that exist. */
export function connectorNamed(settings: Settings, name: string): ConnectorSettings {
  const connector = isConnectorName(name) ? settings.connectors.get(name) : undefined;
  if (connector !== undefined) return connector;
  throw usage(`Expected one of the connectors ${[...settings.connectors.keys()].join(', ')}, got "${name}".`);
}

function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
