import path from 'node:path';
import { ProblemsError, type Problem } from '../core/problems.ts';
import type { Note } from '../definitions/check-names.ts';
import { deepFreeze } from '../definitions/deep-freeze.ts';
import {
  builtInDefinitionsFolder,
  findDefinitions,
  type FoundDefinitions,
} from '../definitions/load-definitions.ts';
import { readYaml, type YamlPath } from '../definitions/read-yaml.ts';
import { parseShape } from '../definitions/schema-problems.ts';
import { brokenPlaces, noteAround } from '../definitions/note-around.ts';
import { buildApi } from './build-api.ts';
import { buildConnectors } from './build-connectors.ts';
import { buildHttp } from './build-http.ts';
import { buildRedis } from './build-redis.ts';
import { buildSinks } from './build-sinks.ts';
import { hideValue } from './hide-value.ts';
import { interpolate } from './interpolate.ts';
import type { Settings } from './settings.ts';
import { settingsFile, type SettingsFile } from './settings-file.ts';

interface LoadSettingsOptions {
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of the definitions that come with the program, unless others stand in for them. */
  readonly builtInDefinitions?: string;
}

/**
 * The config file and the environment as checked, frozen settings. Reads the config file, the secret files it names
 * and the definitions, nothing else. Throws `ProblemsError` CONFIG_INVALID with everything that is wrong in them.
 */
export function loadSettings(options: LoadSettingsOptions): Settings {
  const file = path.resolve(options.file);
  const folder = path.dirname(file);
  const yaml = readYaml(options.file);
  if (yaml.problems.length > 0) {
    throw new ProblemsError('CONFIG_INVALID', yaml.problems);
  }
  const problems: Problem[] = [];
  const add: Note = (at, message) => problems.push(yaml.problem(at, message));
  const { data, hidden, unresolved } = interpolate(yaml.data ?? {}, { folder, env: options.env, note: add });
  const shape = parseShape(settingsFile, data, yaml, (at) => !hidden.has(dotted(at)));
  // A value that could not be put in is one problem, not two.
  const told = new Set(unresolved.map(dotted));
  problems.push(...shape.problems.filter((problem) => !told.has(problem.path)));
  const broken = brokenPlaces([...unresolved, ...shape.broken]);
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
    throw new ProblemsError('CONFIG_INVALID', problems);
  }
  return deepFreeze(settings);
}

function buildSettings(
  data: SettingsFile,
  file: string,
  found: FoundDefinitions,
  note: Note,
): Settings | null {
  const api = buildApi(data.api, note);
  const redis = buildRedis(data.redis, note);
  const http = buildHttp(data.http, note);
  const folder = path.dirname(file);
  const sinks = buildSinks(data.sinks, folder, note);
  const connectors = buildConnectors(data, { found, sinks, folder }, note);
  const { guards } = data;
  return api === null || redis === null
    ? null
    : { file, api, sinks, redis, http, connectors, guards, definitions: found.definitions };
}

function dotted(at: YamlPath): string {
  return at.map(String).join('.');
}
