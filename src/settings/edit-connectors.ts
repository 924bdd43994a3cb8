import path from 'node:path';
import { usage } from '../core/errors.ts';
import { withoutYamlEntry, withYamlEntry } from '../definitions/edit-yaml.ts';
import { readText } from '../definitions/read-yaml.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { gatherConnectors, readWritten } from './config-files.ts';
import { readSettings } from './load-settings.ts';
import type { LocalSettings } from './settings.ts';

interface EditOptions {
  /** The config file, absolute. */
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A change to one file of the config, checked as a whole and not yet written. */
export interface ConfigEdit {
  /** Absolute path. */
  readonly file: string;
  /** The current content; null: there is no such file. */
  readonly before: string | null;
  readonly after: string;
  /** The config with this change. */
  readonly settings: LocalSettings;
}

/** The file for a new connector, and the members that it may omit because of `defaults`. */
export type ConnectorsPlace = ReturnType<typeof connectorsPlace>;

/**
 * `chosen`: an absolute path. Throws USAGE where it is no file of the config and where one has to be chosen. The config
 * itself must be one that `readSettings` takes.
 */
export function connectorsPlace({ file, env }: EditOptions, chosen: string | null) {
  const main = readWritten(file, undefined, env);
  const { files } = gatherConnectors(main, env);
  const data = membersOf(main.data);
  const isListed = Array.isArray(data['connectors']) || typeof data['connectors'] === 'string';
  const possible = isListed ? files.slice(1).map(({ yaml }) => path.resolve(yaml.file)) : [file];
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
  const defaults = { ...membersOf(data['defaults']), ...membersOf(membersOf(own?.data)['defaults']) };
  return { file: place, defaults: new Set(Object.keys(defaults)) };
}

/**
 * Adds a connector to the config. Throws `ProblemsError` CONFIG_INVALID with the problems of the result, USAGE where
 * the file cannot be edited.
 */
export function addedConnector(
  options: EditOptions,
  file: string,
  { name, entry }: { readonly name: string; readonly entry: object },
): ConfigEdit {
  const before = existingText(file);
  const after = withYamlEntry(before ?? '', 'connectors', name, entry);
  const edit = checkedEdit(options, { file, before, after });
  if (edit.settings.connectors.size > readSettings(options).connectors.size) return edit;
  throw usage(
    `--file: no line of "connectors:" in ${options.file} stands for ${file}. Add one, or choose another file.`,
  );
}

/** Removes an existing connector from the config. Throws as `addedConnector`. */
export function removedConnector(options: EditOptions, name: string): ConfigEdit {
  const config = gatherConnectors(readWritten(options.file, undefined, options.env), options.env);
  const file = path.resolve(String(config.placeOf(['connectors', name])[0]));
  const before = existingText(file);
  return checkedEdit(options, { file, before, after: withoutYamlEntry(before ?? '', 'connectors', name) });
}

function checkedEdit(
  options: EditOptions,
  { file, before, after }: Pick<ConfigEdit, 'file' | 'before'> & { readonly after: string | null },
): ConfigEdit {
  if (after === null) {
    throw usage(
      `${file} is written in a way that cannot be edited without changing more (anchors, JSON or connectors on one line, for example). Nothing was changed; edit it by hand.`,
    );
  }
  return { file, before, after, settings: readSettings({ ...options, edited: { file, text: after } }) };
}

/** Null where there is no such file. Throws USAGE where it cannot be read. */
function existingText(file: string): string | null {
  const text = readText(file);
  if (typeof text === 'string') return text;
  if (text.message.includes('ENOENT')) return null;
  throw usage(`${file} ${text.message}`);
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
