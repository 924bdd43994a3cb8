import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SyncError } from '../core/errors.ts';
import { usage } from '../core/usage-error.ts';
import { readSettings } from '../settings/load-settings.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { App, ConnectorTypes, OpenOptions } from './shapes.ts';

/** What an app holds is no part of its shape: it may change with any version. */
const settingsOf = new WeakMap<App, LocalSettings>();

/**
 * Reads and checks the config. Nothing is connected to and nothing is written before `sync`; the API's credentials may
 * be missing until then. Rejects with `SyncError` CONFIG_INVALID (its message names every mistake) or
 * DEFINITION_INVALID.
 */
export async function openApp<const Types extends ConnectorTypes = ConnectorTypes>(
  options: OpenOptions<Types>,
): Promise<App<Types>> {
  const { config, env = process.env } = options;
  const settings = typeof config === 'string' ? readFile(config, env) : readObject(config, env);
  const app: App<Types> = { connectors: [...settings.connectors.keys()] };
  settingsOf.set(app, settings);
  return app;
}

function readFile(config: string, env: NonNullable<OpenOptions['env']>): LocalSettings {
  const file = resolve(config);
  if (existsSync(file)) return readSettings({ file, env });
  throw new SyncError(
    `Expected a config file at ${file}, there is none. Write one with "connector-sync init".`,
    {
      code: 'CONFIG_INVALID',
      recovery: 'stop',
      context: { file },
    },
  );
}

/** JSON is YAML: the object takes the way of every config. Its relative paths start in the working directory. */
function readObject(config: object, env: NonNullable<OpenOptions['env']>): LocalSettings {
  return readSettings({ file: 'config object', text: JSON.stringify(config, null, 2), env });
}

/** @internal */
export function settingsIn(app: App): LocalSettings {
  const settings = settingsOf.get(app);
  if (settings !== undefined) return settings;
  throw usage('Expected what openApp returned, got something else.');
}
