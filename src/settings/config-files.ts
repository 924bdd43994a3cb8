import { readdirSync, statSync, closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Problem } from '../core/problems.ts';
import { parseYaml, readYaml, type YamlPath } from '../definitions/read-yaml.ts';
import { parseShape } from '../definitions/schema-problems.ts';
import { connectorFiles, connectorsFile } from './settings-file.ts';
import { missingHere } from './texts.ts';

type WrittenFile = ReturnType<typeof readWritten>;
/** The config with the connectors of all files, each with the defaults that apply to it. */
export type WrittenConfig = ReturnType<typeof gatherConnectors>;

type Env = Readonly<Record<string, string | undefined>>;
export type Members = Readonly<Record<PropertyKey, unknown>>;

/** New content of a file, which is read in place of the stored content. */
export interface EditedFile {
  /** Absolute path. The file may not exist yet. */
  readonly file: string;
  readonly text: string;
}

/** Reads the file of this name, or the text that replaces it, and resolves its references. */
export function readWritten(file: string, text: string | undefined, env: Env) {
  const folder = path.dirname(path.resolve(file));
  const yaml = text === undefined ? readYaml(file) : parseYaml(file, text);
  const { data, files, hidden, unresolved } = interpolate(yaml.data ?? {}, { folder, env });
  const outside = withOuterPlaces(hidden);
  /** Whether the value at a place, or a part of it, came from the environment or a secret file. */
  const isFromOutside = (at: YamlPath): boolean => outside.has(at.map(String).join('.'));
  return {
    yaml,
    /** Relative paths in the file begin in it. */
    folder,
    data,
    files,
    unresolved,
    isFromOutside,
    /** A problem with a value, which is not quoted if it came from outside. */
    problem: (at: YamlPath, message: string): Problem =>
      yaml.problem(at, isFromOutside(at) ? hideValue(message) : message),
  };
}

/** Reads the files that the config names below `connectors`. Never throws: mistakes are in `problems`. */
export function gatherConnectors(main: WrittenFile, env: Env, edited: EditedFile | null = null) {
  const config = isMembers(main.data) ? main.data : {};
  const names = config['connectors'];
  const isNamed = Array.isArray(names) || typeof names === 'string';
  const named = isNamed ? readNamed(main, names, env, edited) : { files: [], problems: [], folders: [] };
  const files = [main, ...named.files];
  const problems = [...named.problems];
  const connectors: Record<string, unknown> = {};
  const written = new Map<string, { readonly file: WrittenFile; readonly entry: Members | null }>();
  for (const file of files) {
    const defaults = { ...memberOf(config, 'defaults'), ...memberOf(file.data, 'defaults') };
    for (const [name, entry] of Object.entries(memberOf(file.data, 'connectors'))) {
      const other = written.get(name);
      if (other !== undefined) {
        const message = `the connector ${name} is already in ${other.file.yaml.file}; rename one of them`;
        problems.push(file.yaml.problem(['connectors', name], message));
        continue;
      }
      written.set(name, { file, entry: isMembers(entry) ? entry : null });
      connectors[name] = isMembers(entry) ? withDefaults(entry, defaults) : entry;
    }
  }
  const writtenAt = (at: YamlPath): { readonly file: WrittenFile; readonly at: YamlPath } => {
    const [top, name, key] = at;
    const found = top === 'connectors' && name !== undefined ? written.get(String(name)) : undefined;
    if (found === undefined) return { file: main, at };
    const { file, entry } = found;
    if (key === undefined || entry === null || Object.hasOwn(entry, key)) return { file, at };
    const giver = [file, main].find(({ data }) => Object.hasOwn(memberOf(data, 'defaults'), key));
    return giver === undefined ? { file, at } : { file: giver, at: ['defaults', ...at.slice(2)] };
  };
  return {
    /** The config file's data with every connector below `connectors`. */
    data: isNamed || isMembers(names) ? { ...config, connectors } : main.data,
    /** The files, starting with the config file. */
    files,
    /** Absolute paths of files and folders that were read. */
    places: [...files.flatMap((file) => [path.resolve(file.yaml.file), ...file.files]), ...named.folders],
    /** The file's name, followed by the path of a place of `data` in it: also in `defaults`. */
    placeOf: (place: YamlPath): YamlPath => {
      const { file, at } = writtenAt(place);
      return [file.yaml.file, ...at];
    },
    problem: (place: YamlPath, message: string): Problem => {
      const { file, at } = writtenAt(place);
      return file.problem(at, message);
    },
    isFromOutside: (place: YamlPath): boolean => {
      const { file, at } = writtenAt(place);
      return file.isFromOutside(at);
    },
    /** The variables and secret files that the credentials of a connector come from. */
    keyPlacesOf: (connector: string): readonly SecretPlace[] => {
      const { file, at } = writtenAt(['connectors', connector, 'credentials']);
      const start = memberOf({ data: file.yaml.data }, 'data');
      const asWritten = at.reduce((of, name) => memberOf(of, String(name)), start);
      return Object.values(asWritten).flatMap((value) => placesIn(String(value)));
    },
    /** The folder in which the relative paths of a connector begin. */
    folderOf: (connector: string): string => written.get(connector)?.file.folder ?? main.folder,
    /** Files that cannot be read, and connectors that are defined twice. */
    problems,
  };
}

/** Adds every place that contains one of them. */
function withOuterPlaces(hidden: ReadonlySet<string>): ReadonlySet<string> {
  const places = new Set(hidden);
  for (const place of hidden) {
    const names = place.split('.');
    for (let length = 0; length < names.length; length += 1) places.add(names.slice(0, length).join('.'));
  }
  return places;
}

function readNamed(main: WrittenFile, names: unknown, env: Env, edited: EditedFile | null) {
  const problems: Problem[] = [];
  const add = (index: number, message: string): void => {
    const at = typeof names === 'string' ? ['connectors'] : ['connectors', index];
    problems.push(main.problem(at, message));
  };
  const parsed = parseShape(connectorFiles, typeof names === 'string' ? [names] : names, {
    problem: (at, message) => main.yaml.problem(['connectors', ...at], message),
  });
  if (parsed.problems.length > 0) return { files: [], problems: parsed.problems, folders: [] };
  const places = new Set<string>();
  const folders = new Set<string>();
  for (const [index, named] of (parsed.value ?? []).entries()) {
    try {
      const place = path.resolve(main.folder, named);
      const isEdited = edited !== null && standsFor(place, edited.file);
      const found = [...findConnectorFiles(place), ...(isEdited ? [edited.file] : [])];
      folders.add(kindOf(place) === 'folder' ? place : path.dirname(place));
      for (const file of found) places.add(file);
      if (found.length > 0) continue;
      const what = named.includes('*') ? 'got a pattern (name its folder)' : 'nothing is found';
      add(index, `expected a file or a folder of YAML files, ${what}: ${JSON.stringify(named)}`);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      add(index, `expected YAML files, they cannot be looked for: ${why}`);
    }
  }
  // The folder may be that of the config file itself.
  places.delete(path.resolve(main.yaml.file));
  const shownFrom = path.dirname(main.yaml.file);
  const files = [...places].map((file) => {
    const shown = path.join(shownFrom, path.relative(main.folder, file));
    const text = file === edited?.file ? edited.text : undefined;
    const written = readWritten(path.isAbsolute(main.yaml.file) ? file : shown, text, env);
    const { yaml, data, isFromOutside } = written;
    const shape = parseShape(connectorsFile, data, written, (at) => !isFromOutside(at));
    problems.push(...(yaml.problems.length > 0 ? yaml.problems : shape.problems));
    return written;
  });
  return { files, problems, folders: [...folders] };
}

/** A value as the checks quote it: at the start, after `got`, `matches` or a colon. Names of characters ("_") stay. */
const quoted = /(^|got |matches |: )("(?:[^"\\]|\\.)*"|-?\d[\d.]*)/g;
const suggestion = /; did you mean "[^"]*"\?$/;

/** Removes from a problem's message the value it is about, which came from the environment or a secret file. */
export function hideValue(message: string): string {
  return message.replace(suggestion, '').replaceAll(quoted, '$1[from outside]');
}

const addresses = [['id'], ['workspace'], ['credentials', 'settings']];

/**
 * Merges an entry with the defaults; a member of the entry replaces the default as a whole. An id, a workspace, and
 * credentials with settings are alternatives: an entry with one of them takes none of the others from the defaults.
 */
function withDefaults(entry: Members, defaults: Members): Members {
  const merged: Record<PropertyKey, unknown> = { ...defaults, ...entry };
  const isOwn = (name: string): boolean => Object.hasOwn(entry, name);
  if (addresses.some((names) => names.some(isOwn))) {
    for (const names of addresses) if (!names.some(isOwn)) for (const name of names) delete merged[name];
  }
  return merged;
}

export function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members of a member; none where it is no object. */
export function memberOf(value: unknown, name: string): Members {
  const member = isMembers(value) && Object.hasOwn(value, name) ? value[name] : null;
  return isMembers(member) ? member : {};
}

/** The files that a line of `connectors` stands for, by name: a file, or the `*.yaml` and `*.yml` files of a folder. */
function findConnectorFiles(place: string): readonly string[] {
  const kind = kindOf(place);
  if (kind !== 'folder') return kind === 'file' ? [place] : [];
  return readdirSync(place)
    .sort()
    .map((name) => path.join(place, name))
    .filter((file) => standsFor(place, file) && kindOf(file) === 'file');
}

/** Whether the line of `connectors` includes this file, or will once it exists. */
function standsFor(place: string, file: string): boolean {
  if (place === file) return true;
  return path.dirname(file) === place && /^[^.].*\.ya?ml$/.test(path.basename(file));
}

function kindOf(place: string): 'file' | 'folder' | 'nothing' {
  const found = statSync(place, { throwIfNoEntry: false });
  return found?.isFile() === true ? 'file' : found?.isDirectory() === true ? 'folder' : 'nothing';
}

const reference = /\$(\$?)\{([^{}]*)(\}?)/g;
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/** Where a secret comes from: a file, as the config names it, or a variable of the environment. */
export interface SecretPlace {
  readonly kind: 'file' | 'variable';
  readonly name: string;
}

function placesIn(text: string): readonly SecretPlace[] {
  return [...text.matchAll(reference)].flatMap(([, escape, inner = '']): readonly SecretPlace[] => {
    if (escape === '$') return [];
    if (inner.startsWith('file:')) return [{ kind: 'file', name: inner.slice('file:'.length) }];
    const [, name] = variable.exec(inner) ?? [];
    return name === undefined ? [] : [{ kind: 'variable', name }];
  });
}

interface InterpolateOptions {
  /** Folder that `${file:...}` is relative to. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A place whose reference could not be resolved. */
interface Unresolved {
  readonly at: YamlPath;
  readonly message: string;
  /** True where the reference is valid and its target is missing here; false where it is written wrongly. */
  readonly isMissing: boolean;
}

/**
 * Replaces `${NAME}`, `${NAME:-default}` and `${file:path}` in the string values of a parsed file; `$${` stays a
 * literal `${`. Inserted text is not interpolated again. Keys, numbers and flags are left alone. A variable that is
 * missing or empty and a file that cannot be read or that others may read come back as `unresolved`.
 */
export function interpolate(data: unknown, options: InterpolateOptions) {
  const hidden = new Set<string>();
  const unresolved: Unresolved[] = [];
  const files = new Set<string>();
  const textAt = (text: string, at: YamlPath): string => {
    const before = unresolved.length;
    const filled = text.replaceAll(reference, (whole, escape: string, inner: string, end: string) => {
      if (escape === '$') return whole.slice(1);
      const found = resolve(inner, end, { ...options, files });
      if (found.ok) return found.value;
      unresolved.push({ at, message: found.message, isMissing: found.isMissing });
      return '';
    });
    return unresolved.length === before ? filled : missingHere;
  };
  // Values without a reference are not copied: in a large config that is nearly everything.
  const walk = (value: unknown, path: () => YamlPath): unknown => {
    if (typeof value === 'string') {
      if (!value.includes('${')) return value;
      const at = path();
      hidden.add(at.join('.'));
      return textAt(value, at);
    }
    if (Array.isArray(value)) {
      const elements = value.map((element, index) => walk(element, () => [...path(), index]));
      return elements.every((element, index) => element === value[index]) ? value : elements;
    }
    if (typeof value === 'object' && value !== null) {
      let copy: Record<string, unknown> | null = null;
      for (const [key, inner] of Object.entries(value)) {
        const found = walk(inner, () => [...path(), key]);
        if (found !== inner) (copy ??= { ...value })[key] = found;
      }
      return copy ?? value;
    }
    return value;
  };
  return {
    data: walk(data, () => []),
    /** Absolute paths of the secret files. */
    files,
    /** Dotted paths of values that came from outside the file, and so must not be quoted in messages. */
    hidden,
    /** References without a value, in the order of the file; the data have `missingHere` at their places. */
    unresolved,
  };
}

type Found =
  { readonly ok: true; readonly value: string } | ({ readonly ok: false } & Omit<Unresolved, 'at'>);

function resolve(
  inner: string,
  end: string,
  { folder, env, files }: InterpolateOptions & { readonly files: Set<string> },
): Found {
  if (end === '') return malformed('expected } after ${; write $${ for a literal ${');
  if (inner.startsWith('file:')) {
    const file = path.resolve(folder, inner.slice('file:'.length));
    files.add(file);
    const secret = readSecretFile(file);
    return secret.ok ? secret : missing(secret.why);
  }
  const [, name, fallback] = variable.exec(inner) ?? [];
  if (name === undefined) {
    return malformed('expected ${NAME}, ${NAME:-default} or ${file:path}; write $${ for a literal ${');
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value !== undefined && value !== '') return { ok: true, value };
  if (fallback !== undefined) return { ok: true, value: fallback };
  const state = value === undefined ? 'not set' : 'empty';
  // No default is advised: most missing values are secrets.
  return missing(`the environment variable ${name} is ${state}: export it, or put it into .env`);
}

function malformed(message: string): Found {
  return { ok: false, message, isMissing: false };
}

function missing(message: string): Found {
  return { ok: false, message, isMissing: true };
}

const maxSecretBytes = 65_536;

type SecretText =
  { readonly ok: true; readonly value: string } | { readonly ok: false; readonly why: string };

/**
 * The text of a file that only its owner may access, without its last line end. Fails, with a reason that names the
 * file and quotes nothing of it, if the file cannot be read, others may read or change it, or it is no short text in
 * UTF-8.
 */
export function readSecretFile(file: string): SecretText {
  let descriptor: number | null = null;
  try {
    // Checks the opened file, so that it cannot be replaced in between, and does not wait for the writer of a pipe.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { mode, size } = fstatSync(descriptor);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) {
      return { ok: false, why: `expected a file, got something else: ${file}` };
    }
    if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
      return { ok: false, why: `others may read or change the secret file ${file}: chmod 600 it` };
    }
    if (size > maxSecretBytes) {
      return { ok: false, why: `expected a secret of at most ${maxSecretBytes} bytes, ${file} has ${size}` };
    }
    const value = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(descriptor));
    return { ok: true, value: value.replace(/\r?\n$/, '') };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'not a text in UTF-8';
    return { ok: false, why: `the secret file ${file} cannot be read (${code})` };
  } finally {
    if (descriptor !== null) closeSync(descriptor);
  }
}
