import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { SyncError } from '../core/errors.ts';
import { Secret } from '../core/secret.ts';
import { loadSettings } from '../settings/load-settings.ts';
import type { Settings } from '../settings/settings.ts';
import { checkLogLevel } from '../telemetry/log.ts';
import type { CommandContext } from './command-context.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export const defaultConfigFile = join('config', 'connector-sync.yaml');

/** `--config`, else `$CONNECTOR_SYNC_CONFIG`, else the default place below the working directory; absolute. */
export function configFile({ config, env, cwd }: Pick<CommandContext, 'config' | 'env' | 'cwd'>): string {
  const fromEnv = env['CONNECTOR_SYNC_CONFIG'];
  return resolve(cwd, config ?? (fromEnv === undefined || fromEnv === '' ? defaultConfigFile : fromEnv));
}

/** The settings; their secrets are known to the scrubber from here on. Throws `ProblemsError`. */
export function loadConfig(context: CommandContext): Settings {
  const file = configFile(context);
  if (!existsSync(file)) {
    throw new SyncError(
      `Expected a config file at ${file}, there is none. Write one with "${context.program} init", name another with --config, or look around with "${context.program} demo".`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { file } },
    );
  }
  const settings = loadSettings({ file, env: context.env });
  registerSecrets(settings, context);
  return settings;
}

export function registerSecrets(settings: Settings, { scrubber }: Pick<CommandContext, 'scrubber'>): void {
  scrubber.register(settings.api.clientSecret);
  if (settings.http.token !== null) scrubber.register(settings.http.token);
  // Without a password the address is no secret, and messages need it.
  const { password } = new URL(settings.redis.url.reveal());
  if (password === '') return;
  scrubber.register(settings.redis.url);
  scrubber.register(new Secret(password));
}

/** The environment, filled up from `.env` in the working directory; what is set already wins. Throws CONFIG_INVALID for a file that cannot be read. */
export function withDotEnv(
  env: Environment,
  cwd: string,
): { readonly env: Environment; readonly warning: string | null } {
  const file = join(cwd, '.env');
  if (!existsSync(file)) return { env, warning: null };
  const mode = statSync(file).mode & 0o777;
  const isOpen = (mode & 0o044) !== 0 && process.platform !== 'win32';
  return {
    env: { ...parseEnv(readDotEnv(file)), ...env },
    warning: isOpen
      ? `Warning: ${file} can be read by others on this machine (mode ${mode.toString(8)}); where it holds credentials, run: chmod 600 .env`
      : null,
  };
}

function readDotEnv(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new SyncError(
      `${file} cannot be read (${reason}). Run this as the user whose file it is, or in another working directory.`,
      { code: 'CONFIG_INVALID', recovery: 'stop', context: { file }, cause: error },
    );
  }
}

/** $LOG_LEVEL; null where it is not set. Throws USAGE for an unknown one. */
export function logLevel(env: Environment): string | null {
  const level = env['LOG_LEVEL'] ?? '';
  return level === '' ? null : checkLogLevel(level);
}
