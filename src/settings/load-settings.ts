import path from 'node:path';
import { ProblemsError, type Problem } from '../core/problems.ts';
import type { Note } from '../definitions/check-names.ts';
import { deepFreeze } from '../definitions/deep-freeze.ts';
import {
  builtInDefinitionsFolder,
  findDefinitions,
  type FoundDefinitions,
} from '../definitions/load-definitions.ts';
import { parseYaml, readYaml, type YamlPath } from '../definitions/read-yaml.ts';
import { parseShape } from '../definitions/schema-problems.ts';
import { brokenPlaces, noteAround } from '../definitions/note-around.ts';
import { buildApi } from './build-api.ts';
import { buildConnectors } from './build-connectors.ts';
import { buildHttp } from './build-http.ts';
import { buildRedis } from './build-redis.ts';
import { buildSinks } from './build-sinks.ts';
import { hideValue } from './hide-value.ts';
import { interpolate } from './interpolate.ts';
import type { LocalSettings, PartName, Settings, SettingsWith } from './settings.ts';
import { settingsFile, type SettingsFile } from './settings-file.ts';

interface LoadSettingsOptions {
  readonly file: string;
  /** What the file holds, where it is none: then `file` only names it, and says where relative paths start. */
  readonly text?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of the definitions that come with the program, unless others stand in for them. */
  readonly builtInDefinitions?: string;
}

const partNames = ['api', 'redis', 'http'] as const satisfies readonly PartName[];

/** The settings with all their parts. Throws as `readSettings` and `withParts` do. */
export function loadSettings(options: LoadSettingsOptions): Settings {
  return withParts(readSettings(options), ...partNames);
}

/** Throws `ProblemsError` CONFIG_INVALID with everything that is missing in these parts. */
export function withParts<Name extends PartName>(
  settings: LocalSettings,
  ...names: readonly Name[]
): SettingsWith<NoInfer<Name>> {
  const lacking = settings.missing.filter(({ path: at }) => names.some((name) => at.startsWith(`${name}.`)));
  if (lacking.length > 0) throw new ProblemsError('CONFIG_INVALID', lacking);
  const parts = Object.fromEntries(names.map((name) => [name, settings.parts[name]]));
  // `as`: the entries are those of the names.
  return Object.freeze({ ...settings, ...parts }) as LocalSettings as SettingsWith<Name>;
}

/**
 * The config file and the environment as checked, frozen settings. Reads the config file, the secret files it names
 * and the definitions, nothing else. Throws `ProblemsError` CONFIG_INVALID with everything that is wrong in them; where only
 * variables and secret files of parts are missing, that is for those who need the parts.
 */
export function readSettings(options: LoadSettingsOptions): LocalSettings {
  const file = path.resolve(options.file);
  const folder = path.dirname(file);
  const yaml = options.text === undefined ? readYaml(options.file) : parseYaml(options.file, options.text);
  if (yaml.problems.length > 0) {
    throw new ProblemsError('CONFIG_INVALID', yaml.problems);
  }
  const problems: Problem[] = [];
  const add: Note = (at, message) => problems.push(yaml.problem(at, message));
  const { data, hidden, unresolved } = interpolate(yaml.data ?? {}, { folder, env: options.env });
  const isOfPart = (at: YamlPath): boolean => partNames.some((name) => name === at[0]);
  const missing = unresolved
    .filter(({ at, isMissing }) => isMissing && isOfPart(at))
    .map(({ at, message }) => yaml.problem(at, message));
  for (const { at, message, isMissing } of unresolved) if (!isMissing || !isOfPart(at)) add(at, message);
  const shape = parseShape(settingsFile, data, yaml, (at) => !hidden.has(dotted(at)));
  // A value that could not be put in is one problem, not two.
  const told = new Set(unresolved.map(({ at }) => dotted(at)));
  problems.push(...shape.problems.filter((problem) => !told.has(problem.path)));
  const broken = brokenPlaces([...unresolved.map(({ at }) => at), ...shape.broken]);
  const isFromOutside = (at: YamlPath): boolean =>
    [...hidden].some((place) => `${place}.`.startsWith(`${dotted(at)}.`));
  const note = noteAround(broken, (at, message) => add(at, isFromOutside(at) ? hideValue(message) : message));
  const own = (shape.value?.definitions ?? [])
    .filter((_, index) => !broken.include(['definitions', index]))
    .map((name) => path.resolve(folder, name));
  const found = findDefinitions([options.builtInDefinitions ?? builtInDefinitionsFolder, ...own]);
  problems.push(...found.problems);
  const settings = shape.value === null ? null : buildSettings(shape.value, file, found, note);
  if (settings === null || problems.length > 0) {
    throw new ProblemsError('CONFIG_INVALID', [...problems, ...missing]);
  }
  return deepFreeze({ ...settings, missing });
}

function buildSettings(
  data: SettingsFile,
  file: string,
  found: FoundDefinitions,
  note: Note,
): Omit<LocalSettings, 'missing'> {
  const parts = {
    api: buildApi(data.api, note),
    redis: buildRedis(data.redis, note),
    http: buildHttp(data.http, note),
  };
  const folder = path.dirname(file);
  const sinks = buildSinks(data.sinks, folder, note);
  const connectors = buildConnectors(data, { found, sinks, folder }, note);
  const { guards } = data;
  return { file, parts, sinks, connectors, guards, definitions: found.definitions };
}

function dotted(at: YamlPath): string {
  return at.map(String).join('.');
}
