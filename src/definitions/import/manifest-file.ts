import { createHash } from 'node:crypto';
import { basename, dirname } from 'node:path';
import { isJsonArray, isJsonObject, memberOf, type JsonObject, type JsonValue } from '../../core/json.ts';
import type { ProblemsError } from '../../core/problems.ts';
import { readText, type YamlPath } from '../read-yaml.ts';
import { parseExpression, type Expression } from './expressions.ts';
import { listIn, objectIn, oneLine, partIn, plainText, textIn, wordsOf } from './schemas.ts';
import { invalid, readDocument } from './service-file.ts';

/** Far above public manifests, of which the largest has 300 kB. */
const mostBytes = 5 * 1024 * 1024;
const mostDepth = 100;
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
  const source: Source = { root, line: (at) => yaml.line(at) };
  const top = openComponent(source, [{ value: root, at: [] }], {}, 'DeclarativeSource');
  return {
    file,
    sha256: createHash('sha256').update(text).digest('hex'),
    name: nameOf(file, top),
    version: oneLine(plainText(top.get('version')) || 'unknown', 40),
    top,
    /** The part of the file that describes the settings of a connector. */
    spec: objectIn(top.part('spec')?.get('connection_specification') ?? {}),
  };
}

/** `source-corner-shop/manifest.yaml` and `corner-shop.yaml`: `corner-shop`. */
function nameOf(file: string, top: Component): string {
  const own = basename(file).replace(/\.[a-z]+$/i, '');
  const folder = basename(dirname(file));
  const named = own !== 'manifest' ? own : folder.startsWith('source-') ? folder : null;
  const title = textIn(top.part('spec')?.get('connection_specification'), 'title') ?? '';
  const words = wordsOf(named ?? title).filter(
    (word) => !/^(?:source|spec|manifest|declarative)$/.test(word),
  );
  const name = words.join('-').slice(0, 33).replace(/-$/, '');
  return /^[a-z]/.test(name) ? name : 'service';
}

interface Source {
  readonly root: JsonObject;
  readonly line: (at: YamlPath) => number | null;
}

/** An object of the file, and its place there. */
interface Layer {
  readonly value: JsonObject;
  readonly at: YamlPath;
}

/** A component of the manifest. */
export interface Component {
  /** `SimpleRetriever`; of custom code the name of its class; an empty text where nothing says it. */
  readonly type: string;
  readonly isCustom: boolean;
  readonly line: number | null;
  /** Equal for the same place of the file, reached with the same parameters. */
  readonly id: string;
  /** A member as data, with its references resolved; undefined where it is absent. */
  readonly get: (name: string) => JsonValue | undefined;
  /** A member that is a text, number or flag, as a text; null where it is none. */
  readonly text: (name: string) => string | null;
  /** A text of a member, with the templates in it. */
  readonly expression: (name: string) => Expression | null;
  /** Parses a text that lies somewhere inside of the component. */
  readonly parse: (text: string) => Expression;
  readonly part: (name: string) => Component | null;
  readonly parts: (name: string) => readonly Component[];
}

/** Types of components that the file may leave out, by the member that holds them. */
const typeByMember = new Map(
  Object.entries({
    retriever: 'SimpleRetriever',
    requester: 'HttpRequester',
    login_requester: 'HttpRequester',
    record_selector: 'RecordSelector',
    extractor: 'DpathExtractor',
    record_filter: 'RecordFilter',
    schema_loader: 'JsonFileSchemaLoader',
    paginator: 'NoPagination',
    parent_stream_configs: 'ParentStreamConfig',
    stream: 'DeclarativeStream',
    streams: 'DeclarativeStream',
    start_datetime: 'MinMaxDatetime',
    end_datetime: 'MinMaxDatetime',
    spec: 'Spec',
    check: 'CheckStream',
    fields: 'AddedFieldDefinition',
    decoder: 'JsonDecoder',
  }),
);

/** `layers`: the object and what its references lead to, the first one wins. `inherited`: parameters from above. */
function openComponent(
  source: Source,
  layers: readonly Layer[],
  inherited: JsonObject,
  implied: string,
): Component {
  const raw = (name: string): { readonly value: JsonValue; readonly at: YamlPath } | null => {
    for (const { value, at } of layers) {
      const found = memberOf(value, name);
      if (found !== undefined) return { value: found, at: [...at, name] };
    }
    return null;
  };
  const stated = raw('$parameters');
  const ownParameters = stated === null ? {} : plain(source, stated.value, 0);
  const parameters = { ...inherited, ...(isJsonObject(ownParameters) ? ownParameters : {}) };
  /** A member; of its name, where it is absent or empty, a parameter. */
  const member = (name: string) => {
    const found = raw(name);
    const isEmpty = found === null || found.value === null || found.value === '' || isHollow(found.value);
    const parameter = isEmpty && !name.startsWith('$') ? memberOf(parameters, name) : undefined;
    return parameter === undefined ? found : { value: parameter, at: found?.at ?? layers[0]?.at ?? [] };
  };
  const get = (name: string): JsonValue | undefined => {
    const found = member(name);
    return found === null ? undefined : plain(source, found.value, 0);
  };
  const text = (name: string): string | null => plainText(get(name)) || null;
  const parse = (one: string): Expression => parseExpression(one, parameters);
  const opened = (name: string, value: JsonValue, at: YamlPath): Component | null => {
    const inner = layersOf(source, value, at);
    if (inner === null) return null;
    const { [name]: _, ...passed } = parameters;
    return openComponent(source, inner, passed, typeByMember.get(name) ?? '');
  };
  const className = text('class_name');
  return {
    type: className?.split('.').at(-1) ?? (text('type') || implied),
    isCustom: className !== null,
    line: source.line(layers[0]?.at ?? []),
    id: JSON.stringify([layers.map(({ at }) => at), parameters]),
    get,
    text,
    parse,
    expression: (name) => {
      const value = get(name);
      if (value === undefined || value === null) return null;
      return typeof value === 'string' ? parse(value) : { kind: 'value', value };
    },
    part: (name) => {
      const found = member(name);
      return found === null ? null : opened(name, found.value, found.at);
    },
    parts: (name) => {
      const found = member(name);
      const list = found === null ? null : resolved(source, found.value, found.at);
      if (list === null || !isJsonArray(list.value)) return [];
      return list.value.flatMap((value, index) => opened(name, value, [...list.at, index]) ?? []);
    },
  };
}

function isHollow(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

/** The object at a place, and behind it those that its references lead to; null: there is no object. */
function layersOf(source: Source, value: JsonValue, at: YamlPath): readonly Layer[] | null {
  const found = resolved(source, value, at);
  if (!isJsonObject(found.value)) return null;
  const further = memberOf(found.value, '$ref');
  const own = { value: found.value, at: found.at };
  if (typeof further !== 'string') return [own];
  return [own, ...(layersOf(source, further, found.at) ?? [])];
}

/** Follows texts that are references. */
function resolved(source: Source, value: JsonValue, at: YamlPath) {
  let found = { value, at };
  while (typeof found.value === 'string' && found.value.startsWith('#/')) {
    const target = targetOf(source.root, found.value);
    if (target === null) break;
    found = target;
  }
  return found;
}

/** The value as data, with every reference inside of it resolved. `checkReferences` has bounded it. */
function plain(source: Source, given: JsonValue, depth: number): JsonValue {
  const { value } = resolved(source, given, []);
  if (typeof value !== 'object' || value === null) return value;
  if (isJsonArray(value)) return value.map((one) => plain(source, one, depth + 1));
  const layers = layersOf(source, value, []) ?? [];
  const members = new Map<string, JsonValue>();
  for (const layer of layers) {
    for (const [name, one] of Object.entries(layer.value)) {
      if (name !== '$ref' && !members.has(name)) members.set(name, plain(source, one, depth + 1));
    }
  }
  return Object.fromEntries(members);
}

/** The value that a reference names. A name may hold a slash, and references on the way are followed. */
function targetOf(root: JsonObject, reference: string) {
  const names = reference.slice(2).split('/');
  let value: JsonValue | undefined = root;
  const at: PropertyKey[] = [];
  for (let index = 0; index < names.length;) {
    let taken = 0;
    for (let end = names.length; end > index && taken === 0; end -= 1) {
      const name = names.slice(index, end).join('/');
      const found: JsonValue | undefined = isJsonArray(value)
        ? value[/^\d+$/.test(name) ? Number(name) : -1]
        : isJsonObject(value)
          ? memberOf(value, name)
          : undefined;
      if (found === undefined) continue;
      value = found;
      at.push(name);
      taken = end - index;
    }
    if (taken === 0) return null;
    index += taken;
  }
  return { value, at };
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
