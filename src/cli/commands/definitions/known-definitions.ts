import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { usage } from '../../../core/errors.ts';
import type { Definition } from '../../../definitions/definition.ts';
import {
  builtInDefinitionsFolder,
  loadDefinition,
  loadDefinitions,
} from '../../../definitions/load-definitions.ts';
import { firstNames, suggestName } from '../../../definitions/suggest-name.ts';
import type { LocalSettings } from '../../../settings/settings.ts';
import type { CommandContext } from '../../command.ts';
import { configFile } from '../../load-config.ts';

/** The config; null if there is none and none was named: definitions can be written before it. */
export async function settingsIfAny(context: CommandContext): Promise<LocalSettings | null> {
  const isAskedFor = context.config !== null || (context.env['CONNECTOR_SYNC_CONFIG'] ?? '') !== '';
  return isAskedFor || existsSync(configFile(context)) ? await context.settings() : null;
}

/** The definitions of the config; without a config, those that come with the program. */
export function knownDefinitions(settings: LocalSettings | null): ReadonlyMap<string, Definition> {
  return settings?.definitions ?? loadDefinitions([builtInDefinitionsFolder]);
}

/**
 * Finds a definition by its name, or by the path of its file, which need not be in the config. Throws USAGE for an
 * unknown name, and `ProblemsError` for a file with mistakes.
 */
export function definitionFrom(
  nameOrFile: string,
  { cwd }: Pick<CommandContext, 'cwd'>,
  settings: LocalSettings | null,
): Definition {
  if (/[/\\]|\.ya?ml$/.test(nameOrFile)) return loadDefinition(resolve(cwd, nameOrFile));
  const known = knownDefinitions(settings);
  const found = known.get(nameOrFile);
  if (found !== undefined) return found;
  const names = [...known.keys()];
  const hint =
    suggestName(nameOrFile, names) || `; known are ${firstNames(names)}, or give the path of a file.`;
  throw usage(`There is no definition "${nameOrFile}"${hint}`);
}
