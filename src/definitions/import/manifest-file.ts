import { createHash } from 'node:crypto';
import { basename, dirname } from 'node:path';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ProblemsError } from '../../core/problems.ts';
import { readText, type YamlPath } from '../read-yaml.ts';
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
  const text = readText(file);
  if (typeof text !== 'string') throw invalid([{ file, line: null, path: '', message: text.message }]);
  if (text.length > mostBytes) {
    const message = `expected at most ${mostBytes} bytes, got ${text.length}`;
    throw invalid([{ file, line: null, path: '', message }]);
  }
  const yaml = readDocument(file, text);
  // `as`: the reader of YAML gives JSON and nothing else.
  const root = yaml.data as JsonValue;
  if (!isJsonObject(root) || !isManifest(root)) {
    throw invalid([yaml.problem([], 'expected a low-code manifest: type: DeclarativeSource, with streams')]);
  }
  checkReferences(root, (at, message) => invalid([yaml.problem(at, message)]));
  const spec = plain(root, root['spec'] ?? null);
  const described = objectIn(spec, 'connection_specification');
  const settings = openSettings(described, computedPlaces(spec));
  const source: Source = { root, settings, line: (at) => yaml.line(at) };
  const top = openComponent(source, [{ value: root, at: [] }], {}, 'DeclarativeSource');
  return {
    file,
    sha256: createHash('sha256').update(text).digest('hex'),
    name: nameOf(file, textIn(described, 'title') ?? ''),
    version: oneLine(plainText(top.get('version')) || 'unknown', 40),
    top,
  };
}

/** Values of the connector that the file itself computes or moves. */
function computedPlaces(spec: JsonValue): ReadonlySet<string> {
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
  readonly root: JsonObject;
  readonly settings: Settings;
  readonly line: (at: YamlPath) => number | null;
}

/** An object of the file, and its place there. */
interface Layer {
  readonly value: JsonObject;
  readonly at: YamlPath;
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

/** `layers`: the object and what its references lead to, the first one wins. `inherited`: parameters from above. */
function openComponent(
  source: Source,
  layers: readonly Layer[],
  inherited: JsonObject,
  implied: string,
): Component {
  const members = openMembers(source, layers, inherited, implied);
  const at = (name: string) => resolved(source.root, members.member(name) ?? null, members.placeOf(name));
  const opened = (name: string, { value, at: from }: Found): readonly Component[] => {
    const inner = layersOf(source.root, value, from);
    const { [name]: _, ...passed } = members.parameters;
    return inner.length === 0 ? [] : [openComponent(source, inner, passed, typeByMember.get(name) ?? '')];
  };
  return {
    ...members,
    part: (name) => opened(name, at(name))[0] ?? null,
    parts: (name) => {
      const list = at(name);
      return listIn(list.value).flatMap((value, index) => opened(name, { value, at: [...list.at, index] }));
    },
  };
}

function openMembers(
  { root, settings, line }: Source,
  layers: readonly Layer[],
  inherited: JsonObject,
  implied: string,
) {
  const layerOf = (name: string) => layers.find(({ value }) => memberOf(value, name) !== undefined);
  const placeOf = (name: string): YamlPath => [...((layerOf(name) ?? layers[0])?.at ?? []), name];
  const own = layerOf('$parameters')?.value['$parameters'];
  const parameters = { ...inherited, ...objectIn(plain(root, own ?? null)) };
  /** A member; of its name, where it is absent or empty, a parameter. */
  const member = (name: string): JsonValue | undefined => {
    const found = layerOf(name)?.value[name];
    const isEmpty = isNothing({ kind: 'value', value: found ?? null });
    return (isEmpty && !name.startsWith('$') ? memberOf(parameters, name) : undefined) ?? found;
  };
  const get = (name: string): JsonValue | undefined => {
    const found = member(name);
    return found === undefined ? undefined : plain(root, found);
  };
  const text = (name: string): string | null => plainText(get(name)) || null;
  const parse = (value: JsonValue): Expression =>
    typeof value === 'string' ? parseExpression(value, parameters) : { kind: 'value', value };
  const className = text('class_name');
  const stated = text('type') ?? implied;
  return {
    /** `SimpleRetriever`; `custom`: code of the connector. */
    kind: className === null ? stated : 'custom',
    /** The kind, or of custom code the name of its class; an empty text where nothing says it. */
    type: className?.split('.').at(-1) ?? stated,
    line: line(layers[0]?.at ?? []),
    /** Equal for the same place of the file, reached with the same parameters. */
    id: JSON.stringify([layers.map(({ at }) => at), parameters]),
    settings,
    parameters,
    placeOf,
    /** A member as it is written. */
    member,
    /** A member as data, with its references resolved; undefined where it is absent. */
    get,
    /** A member that is a text, number or flag, as a text; null where it is none. */
    text,
    /** Parses a value that lies somewhere inside of the component. */
    parse,
    /** A text of a member, with the templates in it. */
    expression: (name: string): Expression | null => {
      const value = get(name) ?? null;
      return value === null ? null : parse(value);
    },
  };
}

interface Found {
  readonly value: JsonValue;
  readonly at: YamlPath;
}

/** The object at a place, and behind it those that its references lead to; none: there is no object. */
function layersOf(root: JsonObject, value: JsonValue, at: YamlPath): readonly Layer[] {
  const found = resolved(root, value, at);
  if (!isJsonObject(found.value)) return [];
  const further = textIn(found.value, '$ref');
  const own = { value: found.value, at: found.at };
  return further === null ? [own] : [own, ...layersOf(root, further, found.at)];
}

/** Follows texts that are references. */
function resolved(root: JsonObject, value: JsonValue, at: YamlPath): Found {
  const target = typeof value === 'string' && value.startsWith('#/') ? targetOf(root, value) : null;
  return target === null ? { value, at } : resolved(root, target.value, target.at);
}

/** The value as data, with every reference inside of it resolved. `checkReferences` has bounded it. */
function plain(root: JsonObject, given: JsonValue): JsonValue {
  const { value } = resolved(root, given, []);
  if (typeof value !== 'object' || value === null) return value;
  if (isJsonArray(value)) return value.map((one) => plain(root, one));
  // A layer in front wins.
  const members = layersOf(root, value, [])
    .toReversed()
    .flatMap((layer) => Object.entries(layer.value));
  return Object.fromEntries(
    members.filter(([name]) => name !== '$ref').map(([name, one]) => [name, plain(root, one)]),
  );
}

/** The value that a reference names. A name may hold a slash. */
function targetOf(root: JsonObject, reference: string): Found | null {
  const find = (value: JsonValue, names: readonly string[], at: YamlPath): Found | null => {
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

/** Throws for references that lead nowhere, out of the file or in a circle, and for what would grow without bounds. */
function checkReferences(root: JsonObject, problem: (at: YamlPath, message: string) => ProblemsError): void {
  const sizes = new Map<JsonValue, number>();
  const open = new Set<JsonValue>();
  const sizeOf = (value: JsonValue, at: YamlPath, depth: number): number => {
    if (depth > mostDepth) {
      throw problem(at, `expected at most ${mostDepth} levels, with references followed`);
    }
    if (typeof value === 'string') {
      if (!value.startsWith('#/')) return 1;
      const target = targetOf(root, value);
      if (target === null) {
        throw problem(at, `expected a part of this file, there is no ${oneLine(value, 100)}`);
      }
      // A text that leads to itself is no object that could be open.
      return sizeOf(target.value, at, depth + 1);
    }
    if (typeof value !== 'object' || value === null) return 1;
    const known = sizes.get(value);
    if (known !== undefined) return known;
    if (open.has(value)) {
      throw problem(at, 'expected no part that leads back to itself: references form a circle');
    }
    open.add(value);
    let size = 1;
    for (const [name, one] of Object.entries(value)) {
      if (name === '$ref' && (typeof one !== 'string' || !one.startsWith('#/'))) {
        throw problem([...at, name], 'expected a reference within this file (#/...): nothing is downloaded');
      }
      size += sizeOf(one, [...at, isJsonArray(value) ? Number(name) : name], depth + 1);
    }
    if (size > mostValues) {
      throw problem(at, `expected at most ${mostValues} values with all references written out, got more`);
    }
    open.delete(value);
    sizes.set(value, size);
    return size;
  };
  sizeOf(root, [], 0);
}
