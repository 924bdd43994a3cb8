import path from 'node:path';
import { usage } from '../core/errors.ts';
import { ProblemsError } from '../core/problems.ts';
import type { Definition } from '../definitions/definition.ts';
import { withoutYamlEntry, withYamlEntry, withYamlList, withYamlMember } from '../definitions/edit-yaml.ts';
import { readText } from '../definitions/read-yaml.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { gatherConnectors, isMembers, memberOf, readWritten } from './config-files.ts';
import { readSettings } from './load-settings.ts';
import type { LocalSettings } from './settings.ts';

interface EditOptions {
  /** The config file, absolute. */
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The text of a config file that does not exist yet. */
  readonly text?: string;
  /** As for `readSettings`. */
  readonly definition?: Definition;
}

/**
 * A change to one file of the config, checked as a whole and not yet written: the file's path, its current content
 * (null: there is no such file) and the next one, and the config with this change.
 */
export type ConfigEdit = Readonly<ReturnType<typeof checkedEdit>>;

/** The file for a new connector, and the members that it may omit because of `defaults`. */
export type ConnectorsPlace = ReturnType<typeof connectorsPlace>;

/**
 * `chosen`: an absolute path. Throws USAGE where it is no file of the config and where one has to be chosen. The config
 * itself must be one that `readSettings` takes.
 */
export function connectorsPlace(options: EditOptions, chosen: string | null) {
  const { file } = options;
  const { files, data, isListed, possible } = writtenPlaces(options);
  const [only] = possible;
  if (chosen === null && (only === undefined || possible.length > 1)) {
    throw usage(
      `The config has its connectors in several files (${firstNames(possible.map((one) => path.basename(one)))}). Choose one, or a new one, with --file.`,
    );
  }
  if (chosen !== null && !isListed && chosen !== file) {
    throw usage(
      `--file: ${file} has its connectors in itself. Leave --file out, or list files below "connectors:" first.`,
    );
  }
  const place = chosen ?? only ?? file;
  const own = files.find(({ yaml }) => path.resolve(yaml.file) === place);
  const defaults = { ...memberOf(data, 'defaults'), ...memberOf(own?.data, 'defaults') };
  const folders = Array.isArray(data['definitions']) ? data['definitions'].map(String) : [];
  return {
    file: place,
    defaults: new Set(Object.keys(defaults)),
    /** The folders of definitions, absolute. */
    folders: folders.map((name) => path.resolve(path.dirname(file), name)),
  };
}

/** The files that a new connector can go into, absolute: those with connectors, or the config itself. */
export function writtenPlaces({ file, env, text }: EditOptions) {
  const main = readWritten(file, text, env);
  const { files } = gatherConnectors(main, env);
  const data = isMembers(main.data) ? main.data : {};
  const isListed = Array.isArray(data['connectors']) || typeof data['connectors'] === 'string';
  const possible = isListed ? files.slice(1).map(({ yaml }) => path.resolve(yaml.file)) : [file];
  return { files, data, isListed, possible };
}

/**
 * Adds a connector to the config. Throws `ProblemsError` CONFIG_INVALID with the problems of the result and the values
 * of the connector that are missing here, USAGE where the file cannot be edited.
 */
export function addedConnector(
  options: EditOptions,
  file: string,
  { name, entry }: { readonly name: string; readonly entry: object },
): ConfigEdit {
  const before = existingText(file);
  const text = before ?? (file === options.file ? options.text : undefined) ?? '';
  const after = withYamlEntry(text, 'connectors', name, entry);
  const edit = checkedEdit(options, { file, before, after });
  const missing = edit.settings.missing.filter(({ path: at }) => at.startsWith(`connectors.${name}.`));
  if (missing.length > 0) throw new ProblemsError('CONFIG_INVALID', missing);
  if (edit.settings.connectors.size > readSettings(options).connectors.size) return edit;
  throw usage(
    `--file: no line of "connectors:" in ${options.file} stands for ${file}. Add one, or choose another file.`,
  );
}

/** Adds the first folder of definitions to a config. Throws USAGE where its text cannot be edited. */
export function withDefinitionsFolder(file: string, text: string, folder: string): string {
  const name = path.relative(path.dirname(file), folder);
  return editable(file, withYamlList(text, 'definitions', name.startsWith('.') ? name : `./${name}`));
}

/** Members of a new connector's entry; absent ones are those of `defaults`, or not set. */
interface AskedEntry {
  readonly definition?: string | undefined;
  readonly id?: string | undefined;
  readonly workspace?: string | undefined;
  /** Absent where several sinks leave a choice. */
  readonly sink?: string | undefined;
  /** References by field, as `environmentReference` and `secretReference` make them. */
  readonly credentials?: Readonly<Record<string, string>> | undefined;
  /** Texts or references by name. */
  readonly settings?: Readonly<Record<string, string>> | undefined;
  readonly exclude?: readonly string[];
  readonly schedule: { readonly every?: string; readonly cron?: string; readonly timezone?: string };
  readonly freshWithin?: string | undefined;
}

/** Makes the entry for `connectors` in the config. The only sink is named, unless `defaults` has one. */
export function connectorEntry(
  { sinks }: Pick<LocalSettings, 'sinks'>,
  { defaults }: ConnectorsPlace,
  { definition, id, workspace, credentials, settings = {}, sink, exclude = [], ...asked }: AskedEntry,
) {
  const [onlySink] = sinks.keys();
  const ownSink = sink ?? (defaults.has('sink') ? undefined : onlySink);
  return {
    ...(definition === undefined ? {} : { definition }),
    ...(id === undefined ? {} : { id }),
    ...(workspace === undefined ? {} : { workspace }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(Object.keys(settings).length === 0 ? {} : { settings }),
    ...(ownSink === undefined ? {} : { sink: ownSink }),
    ...(Object.keys(asked.schedule).length === 0 ? {} : { schedule: asked.schedule }),
    ...(asked.freshWithin === undefined ? {} : { freshWithin: asked.freshWithin }),
    ...(exclude.length === 0 ? {} : { exclude }),
  };
}

/** Null for anything that is no name of a variable. */
export function environmentReference(name: string): string | null {
  return /^[A-Za-z_]\w*$/.test(name) ? `\${${name}}` : null;
}

/** A secret file, absolute, as a file of the config refers to it; null where its path cannot be written so. */
export function secretReference(config: string, file: string): string | null {
  const shown = path.relative(path.dirname(config), file);
  return /[{}]/.test(shown) ? null : `\${file:${shown.startsWith('.') ? shown : `./${shown}`}}`;
}

/** The variable that usually holds a field of the credentials. */
export function usualVariable(
  { name, aliases: [alias] }: Pick<Definition, 'name' | 'aliases'>,
  field: string,
) {
  return `${alias ?? name}_${field}`.replaceAll(/[^A-Za-z0-9]+/g, '_').toUpperCase();
}

/** The definition's name, with a number where a connector of the config has it. */
export function freeName({ connectors }: Pick<LocalSettings, 'connectors'>, definition: string): string {
  const taken = new Set<string>([...connectors.keys()].map((name) => name.replaceAll('-', '_')));
  let name = definition;
  for (let number = 2; taken.has(name.replaceAll('-', '_')); number += 1) name = `${definition}-${number}`;
  return name;
}

/** Changes the schedule of an existing connector; null: removes it. Throws as `addedConnector`. */
export function rescheduledConnector(
  options: EditOptions,
  name: string,
  schedule: Readonly<Record<string, string>> | null,
): ConfigEdit {
  return entryEdit(options, name, (text) => withYamlMember(text, ['connectors', name, 'schedule'], schedule));
}

/**
 * Refers to other places for some credentials of an existing connector. `references`: as its file of the config writes
 * them. Throws as `addedConnector`.
 */
export function rekeyedConnector(
  options: EditOptions,
  name: string,
  references: (file: string) => Readonly<Record<string, string>>,
): ConfigEdit {
  const { file, config } = writtenFile(options, name);
  const own = config.files.find(({ yaml }) => path.resolve(yaml.file) === file)?.yaml.data;
  const given = memberOf(memberOf(memberOf(own, 'connectors'), name), 'credentials');
  const all = { ...given, ...references(file) };
  return entryEdit(options, name, (text) => withYamlMember(text, ['connectors', name, 'credentials'], all));
}

/** Removes an existing connector from the config. Throws as `addedConnector`. */
export function removedConnector(options: EditOptions, name: string): ConfigEdit {
  return entryEdit(options, name, (text) => withoutYamlEntry(text, 'connectors', name));
}

function entryEdit(options: EditOptions, name: string, edited: (text: string) => string | null): ConfigEdit {
  const { file } = writtenFile(options, name);
  const before = existingText(file);
  return checkedEdit(options, { file, before, after: edited(before ?? '') });
}

/** The file that has the connector, and the config as it is written. */
function writtenFile({ file, env }: EditOptions, name: string) {
  const config = gatherConnectors(readWritten(file, undefined, env), env);
  return { config, file: path.resolve(String(config.placeOf(['connectors', name])[0])) };
}

function checkedEdit(
  options: EditOptions,
  { file, before, after }: Readonly<Record<'file', string> & Record<'before' | 'after', string | null>>,
) {
  const text = editable(file, after);
  return { file, before, after: text, settings: readSettings({ ...options, edited: { file, text } }) };
}

function editable(file: string, after: string | null): string {
  if (after !== null) return after;
  throw usage(
    `${file} is written in a way that cannot be edited without changing more (anchors, JSON or connectors on one line, for example). Nothing was changed; edit it by hand.`,
  );
}

/** Null where there is no such file. Throws USAGE where it cannot be read. */
function existingText(file: string): string | null {
  const text = readText(file);
  if (typeof text === 'string') return text;
  if (text.message.includes('ENOENT')) return null;
  throw usage(`${file} ${text.message}`);
}
