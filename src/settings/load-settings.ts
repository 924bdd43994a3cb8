import path from 'node:path';
import { usage } from '../core/errors.ts';
import { ProblemsError, type Problem } from '../core/problems.ts';
import { Secret } from '../core/secret.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Definition } from '../definitions/definition.ts';
import { frozen } from '../definitions/frozen.ts';
import { builtInDefinitionsFolder, findDefinitions } from '../definitions/load-definitions.ts';
import type { YamlPath } from '../definitions/read-yaml.ts';
import { parseShape } from '../definitions/schema-problems.ts';
import { buildSinks } from './sink-settings.ts';
import { gatherConnectors, readWritten, type EditedFile, type WrittenConfig } from './config-files.ts';
import { buildConnectors, isDirect } from './connector-settings.ts';
import { buildMcp } from './mcp-settings.ts';
import { buildNotify } from './notify-settings.ts';
import { buildPublish, checkPlaces } from './publish-settings.ts';
import { settingsFile, type SettingsFile } from './settings-file.ts';
import type { LocalSettings, PartName, PublishSettings, Settings, SettingsWith } from './settings.ts';
import { missingHere } from './texts.ts';

interface LoadSettingsOptions {
  readonly file: string;
  /** Config text that is not stored in a file: `file` then only names it, and says where relative paths start. */
  readonly text?: string;
  /** New content of the config file or of a file with connectors. */
  readonly edited?: EditedFile;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A definition that no folder has yet, or that replaces the stored one of its name. */
  readonly definition?: Definition;
  /** The folder of the built-in definitions, if it is not the usual one. */
  readonly builtInDefinitions?: string;
}

const partNames = ['api', 'access', 'redis', 'http'] as const satisfies readonly PartName[];

/** The settings with all their parts. Throws as `readSettings` and `withParts` do. */
export function loadSettings(options: LoadSettingsOptions): Settings {
  return withParts(readSettings(options), ...partNames);
}

/** Adds parts to the settings. Throws `ProblemsError` CONFIG_INVALID with everything that is missing in these parts. */
export function withParts<Name extends PartName>(settings: LocalSettings, ...names: readonly Name[]) {
  throwMissing(settings, (at) => names.some((name) => isOf(name, at)));
  const { api, ...others } = settings.parts;
  if (api === null && names.some((name) => name === 'api')) throw usage(needsApi);
  const all = { ...others, api, access: api };
  const parts = Object.fromEntries(names.map((name) => [name, all[name]]));
  // `as`: the entries are those of the names.
  return { ...settings, ...parts } as LocalSettings as SettingsWith<Name>;
}

/** Throws `ProblemsError` CONFIG_INVALID with everything that these targets need and that is missing here. */
export function checkTargets(settings: LocalSettings, targets: readonly PublishSettings[]): void {
  throwMissing(settings, (at) => targets.some(({ name }) => at.startsWith(`publish.${name}.`)));
}

/** Throws `ProblemsError` CONFIG_INVALID with everything that `notify` needs and that is missing here. */
export function checkChannels(settings: LocalSettings): void {
  throwMissing(settings, (at) => at.startsWith('notify.'));
}

function throwMissing({ missing }: LocalSettings, isNeeded: (at: string) => boolean): void {
  const lacking = missing.filter(({ path: at }) => isNeeded(at));
  if (lacking.length > 0) throw new ProblemsError('CONFIG_INVALID', lacking);
}

const needsApi =
  'This needs a Connector Execution API, and the config has none: its connectors read their services directly. Add api, or use a command that reads a connector, such as sync.';

function isOf(name: PartName, at: string): boolean {
  if (name !== 'access') return at.startsWith(`${name}.`);
  return ['api.', 'connectors.', 'defaults.', 'signIns.', 'mask.'].some((start) => at.startsWith(start));
}

/**
 * Reads the config file and the environment into checked settings. Reads the config file, its files with connectors,
 * its secret files and the definitions, nothing else. Throws `ProblemsError` CONFIG_INVALID with all mistakes in them.
 * A missing variable or secret file that only a part needs is no mistake here; `withParts` reports it.
 */
export function readSettings(options: LoadSettingsOptions): LocalSettings {
  const { edited = null } = options;
  const text = edited?.file === path.resolve(options.file) ? edited.text : options.text;
  const main = readWritten(options.file, text, options.env);
  if (main.yaml.problems.length > 0) throw new ProblemsError('CONFIG_INVALID', main.yaml.problems);
  if (main.yaml.data === null) throw new ProblemsError('CONFIG_INVALID', [main.problem([], emptyFile)]);
  const config = gatherConnectors(main, options.env, edited);
  const problems: Problem[] = [...config.problems];
  const missing: Problem[] = [];
  for (const file of config.files) {
    for (const { at, message, isMissing } of file.unresolved) {
      const isInPart =
        partNames.some((name) => name === at[0]) ||
        ['publish', 'signIns', 'notify', 'mask'].includes(String(at[0]));
      const isOfPart = (file === main && isInPart) || isGiven(at);
      (isMissing && isOfPart ? missing : problems).push(file.yaml.problem(at, message));
    }
  }
  // A reference that could not be resolved is one problem, not two.
  const reported = new Set([...problems, ...missing].map(placeOfProblem));
  const add = (found: Problem): void => {
    if (!reported.has(placeOfProblem(found))) problems.push(found);
  };
  const refuse = (): never => {
    // A mistake in `defaults` is found in every connector, and reported once.
    const each = new Map(
      [...problems, ...missing].map((one) => [`${placeOfProblem(one)}\n${one.message}`, one]),
    );
    throw new ProblemsError('CONFIG_INVALID', [...each.values()]);
  };
  const shape = parseShape(settingsFile, config.data, config, (at) => !config.isFromOutside(at));
  for (const found of shape.problems) add(found);
  if (shape.value === null || problems.length > 0) return refuse();
  const own = shape.value.definitions.map((name) => path.resolve(main.folder, name));
  const found = findDefinitions([options.builtInDefinitions ?? builtInDefinitionsFolder, ...own]);
  problems.push(...found.problems);
  if (problems.length > 0) return refuse();
  const file = path.resolve(options.file);
  const { definition } = options;
  const definitions = new Map([
    ...found.definitions,
    ...(definition ? [[definition.name, definition] as const] : []),
  ]);
  const read = { file, config, definitions, own, missing };
  const settings = buildSettings(withoutMissingKey(shape.value, missing), read, (at, message) => {
    add(config.problem(at, message));
  });
  return problems.length > 0 ? refuse() : frozen({ ...settings, missing });
}

const emptyFile =
  'the file is empty; expected api, sinks and connectors. Remove it and run "connector-sync init", which writes one to start from';

/** Removes the placeholder of a key that is missing here: it must never mask a value. */
function withoutMissingKey(data: SettingsFile, missing: readonly Problem[]): SettingsFile {
  return missing.some(({ path: at }) => at === 'mask.key') ? { ...data, mask: { key: null } } : data;
}

/** Whether the path leads into the credentials or settings of a connector or of the defaults. */
function isGiven([top, ...at]: YamlPath): boolean {
  const part = top === 'connectors' ? at[1] : top === 'defaults' ? at[0] : null;
  return part === 'credentials' || part === 'settings';
}

interface Read {
  readonly file: string;
  readonly config: WrittenConfig;
  readonly definitions: ReadonlyMap<string, Definition>;
  /** Folders of the user's definitions. */
  readonly own: readonly string[];
  readonly missing: readonly Problem[];
}

function buildSettings(
  data: SettingsFile,
  { file, config, definitions, own, missing }: Read,
  note: Note,
): Omit<LocalSettings, 'missing'> {
  const direct = Object.values(data.connectors).filter((one) => {
    return isDirect(one, definitions.get(one.definition));
  }).length;
  if (data.api === undefined && direct < Object.keys(data.connectors).length) {
    const why = direct === 0 ? '' : '; connectors without credentials are read through it';
    note(
      ['api'],
      `is missing; expected an object${why}. For example: api: { baseUrl: https://api.example.com, clientId: my-id, clientSecret: "\${CONNECTOR_API_CLIENT_SECRET}" }`,
    );
  }
  const { api = null, redis, http, guards, allowUpstreamHosts, allowNotifyHosts } = data;
  checkTokens(http, note);
  const sinks = buildSinks(data.sinks, path.dirname(file), note);
  const keys = { key: data.signIns.key, maskKey: data.mask.key };
  const { folderOf, isFromOutside, keyPlacesOf } = config;
  const connectors = buildConnectors(
    data,
    { definitions, sinks, folderOf, isFromOutside, keyPlacesOf, ...keys },
    note,
  );
  const named = Object.keys(data.connectors);
  const isWhole = (part: string): boolean => !missing.some(({ path: at }) => at.startsWith(`${part}.`));
  const publish = buildPublish(data.publish, { connectors, named, folder: path.dirname(file) }, note);
  checkPlaces(sinks, publish, isWhole, note);
  return {
    file,
    watch: data.watch,
    places: [...config.places, ...own],
    // `as`: the config has the shape of its schema.
    parts: { api, redis: { ...redis, isConfigured: Object.hasOwn(config.data as object, 'redis') }, http },
    sinks,
    connectors,
    publish,
    notify: buildNotify(data.notify, { named, allowHosts: allowNotifyHosts }, note),
    mcp: buildMcp(data.mcp, connectors, named, note),
    allowUpstreamHosts,
    allowNotifyHosts,
    signIns: data.signIns,
    mask: data.mask,
    guards,
    definitions,
  };
}

/** Names identify who acted: each token has a different one, and none looks like `user@host` or `http.token`. */
function checkTokens({ token, tokens }: SettingsFile['http'], note: Note): void {
  const names = new Map(token === null ? [] : [[token.reveal(), 'http.token']]);
  for (const [name, one] of Object.entries(tokens)) {
    const at = ['http', 'tokens', name];
    if (!/^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$/.test(name)) {
      note(at, 'expected a name of at most 40 letters, digits, "_" and "-"');
    }
    const other = names.get(one.token.reveal());
    if (other !== undefined) note([...at, 'token'], `is the token of ${other}, too; give each its own`);
    names.set(one.token.reveal(), `http.tokens.${name}`);
  }
}

function placeOfProblem({ file, path: at }: Problem): string {
  return `${file}\n${at}`;
}

/**
 * Collects every secret, wherever it is in the settings: a new one is found without a change here. Definitions hold
 * none.
 */
export function secretsOf(settings: LocalSettings): readonly Secret[] {
  const { url } = settings.parts.redis;
  // An address that is missing or has no password is no secret, and messages need it.
  const isAddress = url.reveal() === missingHere || new URL(url.reveal()).password === '';
  const seen = new Set<object>(settings.definitions.values());
  return [...secretsIn(settings, seen)].filter((secret) => secret !== url || !isAddress);
}

function* secretsIn(value: unknown, seen: Set<object>): Generator<Secret> {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  if (value instanceof Secret) yield value;
  const inner = value instanceof Map || value instanceof Set ? value.values() : Object.values(value);
  for (const one of inner) yield* secretsIn(one, seen);
}
