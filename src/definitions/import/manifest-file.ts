import { basename, dirname } from 'node:path';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ProblemsError } from '../../core/problems.ts';
import type { YamlPath } from '../read-yaml.ts';
import { isNothing, parseExpression, type Expression } from './expressions.ts';
import { openSettings, type Settings } from './manifest-settings.ts';
import { listIn, objectIn, oneLine, partIn, plainText, textIn, wordsOf } from './schemas.ts';
import { invalid, readDocument } from './service-file.ts';

/** Far above public manifests, of which the largest has 300 kB. */
const mostBytes = 5 * 1024 * 1024;
const mostDepth = 100;
const mostReference = 1_000;
/** With every reference written out. Public manifests have up to 240,000 values. */
const mostValues = 5_000_000;

export type Manifest = ReturnType<typeof readManifest>;

/** Whether the content is that of a manifest; never throws. */
export function isManifest(root: JsonValue | undefined): boolean {
  const isNamed = textIn(root, 'type') === 'DeclarativeSource';
  return isNamed || (listIn(root, 'streams').length > 0 && isJsonObject(partIn(root, 'check')));
}

/**
 * Reads a low-code manifest, with its references and `$parameters` resolved where they are read. Nothing is downloaded
 * and no template runs. Throws `ProblemsError` DEFINITION_INVALID.
 */
export function readManifest(file: string) {
  const { root, sha256, yaml } = readDocument(file, mostBytes);
  if (!isJsonObject(root) || !isManifest(root)) {
    throw invalid([yaml.problem([], 'expected a low-code manifest: type: DeclarativeSource, with streams')]);
  }
  const places = new Map<JsonValue, YamlPath>();
  const resolved = objectIn(
    withReferences(root, places, (at, message) => invalid([yaml.problem(at, message)])),
  );
  const spec = partIn(resolved, 'spec');
  const described = objectIn(spec, 'connection_specification');
  const settings = openSettings(described, computedPlaces(spec));
  const placeOf = (value: JsonObject): YamlPath => places.get(value) ?? [];
  const source: Source = { settings, placeOf, line: (value) => yaml.line(placeOf(value)) };
  const top = openComponent(source, resolved, {}, 'DeclarativeSource');
  return {
    file,
    sha256,
    name: nameOf(file, textIn(described, 'title') ?? ''),
    version: oneLine(plainText(top.get('version')) || 'unknown', 40),
    top,
  };
}

/** Values of the connector that the file itself computes or moves. */
function computedPlaces(spec: JsonValue | undefined): ReadonlySet<string> {
  const all = listIn(spec, 'config_normalization_rules', 'transformations');
  const paths = all.flatMap((one) => listIn(one, 'fields').map((field) => listIn(field, 'path')));
  return new Set(paths.map((path) => path.map(plainText).join('.')));
}

/** `source-corner-shop/manifest.yaml` and `corner-shop.yaml`: `corner-shop`. */
function nameOf(file: string, title: string): string {
  const own = basename(file).replace(/\.[a-z]+$/i, '');
  const folder = basename(dirname(file));
  const named = own !== 'manifest' ? own : folder.startsWith('source-') ? folder : null;
  const words = wordsOf(named ?? title).filter(
    (word) => !/^(?:source|spec|manifest|declarative)$/.test(word),
  );
  const name = words.join('-').slice(0, 33).replace(/-$/, '');
  return /^[a-z]/.test(name) ? name : 'service';
}

interface Source {
  readonly settings: Settings;
  /** The place of an object in the file, and the line there. */
  readonly placeOf: (value: JsonObject) => YamlPath;
  readonly line: (value: JsonObject) => number | null;
}

/** Types of components that the file may leave out, by the member that holds them. */
const typeByMember = new Map([
  ['stream', 'DeclarativeStream'],
  ['streams', 'DeclarativeStream'],
  ['retriever', 'SimpleRetriever'],
  ['requester', 'HttpRequester'],
  ['login_requester', 'HttpRequester'],
  ['record_selector', 'RecordSelector'],
  ['extractor', 'DpathExtractor'],
  ['record_filter', 'RecordFilter'],
  ['decoder', 'JsonDecoder'],
]);

/** A component of the manifest. */
export interface Component extends ReturnType<typeof openMembers> {
  readonly part: (name: string) => Component | null;
  readonly parts: (name: string) => readonly Component[];
}

/** `inherited`: parameters from above. `implied`: the type, where the file leaves it out. */
function openComponent(source: Source, value: JsonObject, inherited: JsonObject, implied: string): Component {
  const members = openMembers(source, value, inherited, implied);
  const opened = (name: string, one: JsonValue | undefined): readonly Component[] => {
    const { [name]: _, ...passed } = members.parameters;
    return isJsonObject(one) ? [openComponent(source, one, passed, typeByMember.get(name) ?? '')] : [];
  };
  return {
    ...members,
    part: (name) => opened(name, members.get(name))[0] ?? null,
    parts: (name) => listIn(members.get(name)).flatMap((one) => opened(name, one)),
  };
}

function openMembers(source: Source, value: JsonObject, inherited: JsonObject, implied: string) {
  const parameters = { ...inherited, ...objectIn(value, '$parameters') };
  const get = (name: string): JsonValue | undefined => {
    const found = memberOf(value, name);
    const isEmpty = isNothing({ kind: 'value', value: found ?? null });
    return (isEmpty ? memberOf(parameters, name) : undefined) ?? found;
  };
  const text = (name: string): string | null => plainText(get(name)) || null;
  const parse = (one: JsonValue): Expression =>
    typeof one === 'string' ? parseExpression(one, parameters) : { kind: 'value', value: one };
  const className = text('class_name');
  const stated = text('type') ?? implied;
  return {
    /** `SimpleRetriever`; `custom`: code of the connector. */
    kind: className === null ? stated : 'custom',
    /** The kind, or of custom code the name of its class; an empty text where nothing says it. */
    type: className?.split('.').at(-1) ?? stated,
    line: source.line(value),
    /** Equal for the same place of the file, reached with the same parameters. */
    id: JSON.stringify([source.placeOf(value), parameters]),
    settings: source.settings,
    parameters,
    /** A member; of its name, where it is absent or empty, a parameter. */
    get,
    /** A member that is a text, number or flag, as a text; null where it is none. */
    text,
    /** Parses a value that lies somewhere inside of the component. */
    parse,
    /** A text of a member, with the templates in it. */
    expression: (name: string): Expression | null => {
      const one = get(name) ?? null;
      return one === null ? null : parse(one);
    },
  };
}

/** The value that a reference names, and its place. A name may hold a slash. */
function targetOf(root: JsonObject, reference: string) {
  const find = (value: JsonValue, names: readonly string[], at: YamlPath): Target | null => {
    if (names.length === 0) return { value, at };
    for (let end = names.length; end > 0; end -= 1) {
      const name = names.slice(0, end).join('/');
      const inner = isJsonArray(value) ? value[/^\d+$/.test(name) ? Number(name) : -1] : partIn(value, name);
      if (inner !== undefined) return find(inner, names.slice(end), [...at, name]);
    }
    return null;
  };
  return reference.length > mostReference ? null : find(root, reference.slice(2).split('/'), []);
}

interface Target {
  readonly value: JsonValue;
  readonly at: YamlPath;
}

/**
 * The content with its references resolved: what several references name is one object. Throws for references that
 * lead nowhere, out of the file or in a circle, and for what would grow without bounds. Fills `places`.
 */
function withReferences(
  root: JsonObject,
  places: Map<JsonValue, YamlPath>,
  problem: (at: YamlPath, message: string) => ProblemsError,
): JsonValue {
  const known = new Map<JsonValue, { readonly value: JsonValue; readonly size: number }>();
  const open = new Set<JsonValue>();
  const circle = 'expected no part that leads back to itself: references form a circle';
  const resolve = (given: JsonValue, at: YamlPath, depth: number): { value: JsonValue; size: number } => {
    if (depth > mostDepth) {
      throw problem(at, `expected at most ${mostDepth} levels, with references followed`);
    }
    if (typeof given === 'string' && given.startsWith('#/')) {
      const target = targetOf(root, given);
      if (target === null) {
        throw problem(at, `expected a part of this file, there is no ${oneLine(given, 100)}`);
      }
      if (open.has(target.value)) throw problem(at, circle);
      return resolve(target.value, target.at, depth + 1);
    }
    if (typeof given !== 'object' || given === null) return { value: given, size: 1 };
    const before = known.get(given);
    if (before !== undefined) return before;
    if (open.has(given)) throw problem(at, circle);
    open.add(given);
    const members = Object.entries(given).map(([name, one]) => {
      if (name === '$ref' && (typeof one !== 'string' || !one.startsWith('#/'))) {
        throw problem([...at, name], 'expected a reference within this file (#/...): nothing is downloaded');
      }
      return [name, resolve(one, [...at, isJsonArray(given) ? Number(name) : name], depth + 1)] as const;
    });
    open.delete(given);
    const size = members.reduce((sum, [, member]) => sum + member.size, 1);
    if (size > mostValues) {
      throw problem(at, `expected at most ${mostValues} values with all references written out, got more`);
    }
    const { $ref, ...own } = Object.fromEntries(members.map(([name, member]) => [name, member.value]));
    const value = isJsonArray(given)
      ? members.map(([, member]) => member.value)
      : { ...objectIn($ref), ...own };
    places.set(value, at);
    known.set(given, { value, size });
    return { value, size };
  };
  return resolve(root, [], 0).value;
}
