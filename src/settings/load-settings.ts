import path from 'node:path';
import { ProblemsError, type Problem } from '../core/problems.ts';
import type { Note } from '../definitions/check-names.ts';
import { deepFreeze } from '../definitions/deep-freeze.ts';
import type { Definition } from '../definitions/definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../definitions/load-definitions.ts';
import { readYaml, type YamlPath } from '../definitions/read-yaml.ts';
import { parseShape } from '../definitions/schema-problems.ts';
import { buildApi, buildRedis } from './build-api.ts';
import { buildConnectors } from './build-connectors.ts';
import { buildSinks } from './build-sinks.ts';
import { interpolate } from './interpolate.ts';
import type { Settings } from './settings.ts';
import { settingsFile, type SettingsFile } from './settings-file.ts';

export interface LoadSettingsOptions {
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
  const yaml = readYaml(options.file);
  const problems: Problem[] = [...yaml.problems];
  const folder = path.dirname(path.resolve(options.file));
  // A value that could not be put in is one problem, not two.
  const failed = new Set<string>();
  const note: Note = (at, message) => {
    if (!failed.has(dotted(at))) {
      problems.push(yaml.problem(at, message));
    }
  };
  const { data, hidden } = interpolate(yaml.data ?? {}, { folder, env: options.env, note });
  for (const problem of problems) {
    failed.add(problem.path);
  }
  if (yaml.problems.length === 0) {
    const shape = parseShape(settingsFile, data, yaml, (at) => !hidden.has(dotted(at)));
    problems.push(...shape.problems.filter((problem) => !failed.has(problem.path)));
    const settings =
      shape.value === null ? null : buildSettings(shape.value, folder, options, problems, note);
    if (settings !== null && problems.length === 0) {
      return deepFreeze(settings);
    }
  }
  throw new ProblemsError('CONFIG_INVALID', problems);
}

function dotted(at: YamlPath): string {
  return at.map(String).join('.');
}

function buildSettings(
  file: SettingsFile,
  folder: string,
  options: LoadSettingsOptions,
  problems: Problem[],
  note: Note,
): Settings | null {
  const definitions = readDefinitions(file, folder, options, problems);
  const api = buildApi(file.api, note);
  const redis = buildRedis(file.redis.url, note);
  const sinks = buildSinks(file.sinks, folder, note);
  const connectors = buildConnectors(file, { definitions, sinks }, note);
  return api === null || redis === null || definitions === null
    ? null
    : { file: path.resolve(options.file), api, sinks, redis, connectors, guards: file.guards, definitions };
}

/** Null when a definition is broken: then nothing is said about the connectors, which would only be guesses. */
function readDefinitions(
  file: SettingsFile,
  folder: string,
  options: LoadSettingsOptions,
  problems: Problem[],
): ReadonlyMap<string, Definition> | null {
  const own = file.definitions.map((name) => path.resolve(folder, name));
  try {
    return loadDefinitions([options.builtInDefinitions ?? builtInDefinitionsFolder, ...own]);
  } catch (error) {
    if (!(error instanceof ProblemsError)) {
      throw error;
    }
    problems.push(...error.problems);
    return null;
  }
}
