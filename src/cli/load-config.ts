import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SyncError } from '../core/errors.ts';
import { readSettings, withParts, secretsOf } from '../settings/load-settings.ts';
import type { LocalSettings, PartName, SettingsWith } from '../settings/settings.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { CommandContext } from './command.ts';

const defaultConfigFile = join('config', 'connector-sync.yaml');

/** The path in `--config`, else in `$CONNECTOR_SYNC_CONFIG`, else the default below the working directory; absolute. */
export function configFile({ config, env, cwd }: Pick<CommandContext, 'config' | 'env' | 'cwd'>): string {
  const fromEnv = env['CONNECTOR_SYNC_CONFIG'];
  return resolve(cwd, config ?? (fromEnv === undefined || fromEnv === '' ? defaultConfigFile : fromEnv));
}

/**
 * Loads the settings with the parts that a command needs (without parts it works without credentials); the scrubber
 * hides their secrets from then on. Throws `ProblemsError`.
 */
export function loadConfig<Name extends PartName = never>(
  context: CommandContext,
  ...parts: readonly Name[]
): SettingsWith<NoInfer<Name>> {
  const file = configFile(context);
  if (!existsSync(file)) {
    throw new SyncError(
      `Expected a config file at ${file}, there is none. Write one with "${context.program} init", name another with --config, or look around with "${context.program} demo".`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { file } },
    );
  }
  const settings = readSettings({ file, env: context.env });
  registerSecrets(settings, context.scrubber);
  return withParts(settings, ...parts);
}

export function registerSecrets(settings: LocalSettings, scrubber: Scrubber): void {
  for (const secret of secretsOf(settings)) scrubber.register(secret);
}
