import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { SyncError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import { readSettings, withParts } from '../settings/load-settings.ts';
import type { LocalSettings, PartName, SettingsWith } from '../settings/settings.ts';
import type { Scrubber } from '../telemetry/scrubber.ts';
import type { CommandContext } from './command.ts';

const defaultConfigFile = join('config', 'connector-sync.yaml');

/** `--config`, else `$CONNECTOR_SYNC_CONFIG`, else the default place below the working directory; absolute. */
export function configFile({ config, env, cwd }: Pick<CommandContext, 'config' | 'env' | 'cwd'>): string {
  const fromEnv = env['CONNECTOR_SYNC_CONFIG'];
  return resolve(cwd, config ?? (fromEnv === undefined || fromEnv === '' ? defaultConfigFile : fromEnv));
}

/**
 * The settings with the parts that a command needs (none: it works where no credentials are); their secrets are known
 * to the scrubber from here on. Throws `ProblemsError`.
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

/** Every secret, wherever in the settings it is: a new one is found without a change here. */
export function registerSecrets(settings: LocalSettings, scrubber: Scrubber): void {
  const { url } = settings.parts.redis;
  for (const secret of secretsIn(settings, new Set())) {
    // Missing, or without a password: then the address is no secret, and messages need it.
    const isAddress = secret === url && (url.reveal() === '' || new URL(url.reveal()).password === '');
    if (!isAddress) scrubber.register(secret);
  }
}

function* secretsIn(value: unknown, seen: Set<object>): Generator<Secret> {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Secret) yield value;
  const inner = value instanceof Map || value instanceof Set ? value.values() : Object.values(value);
  for (const one of inner) yield* secretsIn(one, seen);
}
