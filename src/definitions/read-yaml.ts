import { readFileSync, statSync } from 'node:fs';
import {
  LineCounter,
  parseDocument,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  visit,
  type Document,
  type Node,
  type Pair,
  type YAMLMap,
  type Alias,
  type Scalar,
  type YAMLSeq,
} from 'yaml';
import { knownOrMade } from '../core/grouped.ts';
import type { Problem } from '../core/problems.ts';

/** A config of 100,000 connectors fits. */
const maxBytes = 16 * 1024 * 1024;

/** Options for reading every file: YAML 1.2, core schema. */
export const yamlSyntax = {
  schema: 'core',
  stringKeys: true,
  resolveKnownTags: false,
  // `yamlData` checks keys itself: the library compares each key of a map with all earlier ones.
  uniqueKeys: false,
  prettyErrors: false,
} as const;

/** One YAML file as plain data, with the line of the file for each place in the data. */
export type YamlFile = ReturnType<typeof parseYaml>;

/**
 * Reads one YAML 1.2 document (core schema: no dates, no code, no custom tags). Never throws: mistakes are in
 * `problems`. At most 16 MiB; with every alias written out, at most two million values.
 */
export function readYaml(file: string, text = readText(file)): YamlFile {
  if (typeof text === 'string') return parseYaml(file, text);
  return { ...parseYaml(file, ''), problems: [{ file, line: null, path: '', message: text.message }] };
}

/** Parses a text in the same way; `file` only names it in problems. */
export function parseYaml(file: string, text: string) {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...yamlSyntax, lineCounter: lines });
  const placeAt = (offset: number | undefined): Pick<Problem, 'line' | 'column'> => {
    if (offset === undefined) return { line: null };
    const { line, col } = lines.linePos(offset);
    return line === 0 ? { line: null } : { line, column: col };
  };
  const offsetOf = openYamlPlaces(document);
  const problems = [...document.errors, ...document.warnings].map((error): Problem => ({
    file,
    ...placeAt(error.pos[0]),
    path: '',
    message: `invalid YAML: ${error.message}`,
  }));
  const { data, forbidden } = problems.length > 0 ? { data: null, forbidden: [] } : yamlData(document);
  for (const { offset, path, message } of forbidden) {
    problems.push({ file, ...placeAt(offset), path, message });
  }
  return {
    /** The name used in problems. */
    file,
    /** The content of the file; null when `problems` is not empty. */
    data,
    /** Problems that prevent reading the file at all: missing, too large, invalid YAML, forbidden keys. */
    problems: problems as readonly Problem[],
    /** Comments that begin with TODO: their text, and the first line below that is no comment. */
    todos: todosIn(text),
    /** Line (from 1) of a key or element, or of its closest ancestor in the file; null for an unreadable file. */
    line: (path: YamlPath): number | null => placeAt(offsetOf(path)).line,
    /** A problem at a place of this file. */
    problem: (path: YamlPath, message: string): Problem => ({
      file,
      ...placeAt(offsetOf(path)),
      path: path.map(String).join('.'),
      message,
    }),
  };
}

function todosIn(text: string) {
  const isComment = (line: string): boolean => /^\s*(?:#|$)/.test(line);
  const lines = text.split('\n');
  return lines.flatMap((line, index) => {
    const [, what] = /^\s*# TODO\b:?\s*(.*?)\s*$/.exec(line) ?? [];
    if (what === undefined) return [];
    const behind = lines.slice(index).findIndex((one) => !isComment(one));
    return [{ line: index + 1, text: what, before: behind === -1 ? lines.length : index + 1 + behind }];
  });
}

/** The text of a file that `readYaml` would parse, or why there is none. Never throws. */
export function readText(file: string): string | { readonly message: string } {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) return { message: `expected at most ${maxBytes} bytes, got ${size}` };
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { message: `cannot be read: ${why}` };
  }
}

/** Keys and array positions from the root of the file. */
export type YamlPath = readonly PropertyKey[];

/**
 * Finds the start of a key or element in the text, or of its closest ancestor. Visited places are cached: a file with a
 * mistake in each of ten thousand entries is not searched from its root for each of them.
 */
function openYamlPlaces(document: Document.Parsed): (path: YamlPath) => number | undefined {
  const pairsByMap = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();
  const pairs = (map: YAMLMap): ReadonlyMap<string, Pair> => knownOrMade(pairsByMap, map, () => pairsOf(map));
  let anchors: ReadonlyMap<string, Node> | null = null;
  const behind = (node: Node | null): Node | null => {
    if (!isAlias(node)) return node;
    anchors ??= anchorsIn(document);
    return anchors.get(node.source) ?? null;
  };
  return (path) => {
    let node: Node | null = document.contents;
    let offset = node?.range?.[0];
    for (const step of path) {
      node = behind(node);
      if (isMap(node)) {
        const pair = pairs(node).get(String(step));
        if (pair === undefined || !isScalar(pair.key)) return offset;
        offset = pair.key.range?.[0] ?? offset;
        node = isNode(pair.value) ? pair.value : null;
      } else if (isSeq(node)) {
        const element: unknown = node.items[Number(step)];
        if (!isNode(element)) return offset;
        offset = element.range?.[0] ?? offset;
        node = element;
      } else {
        return offset;
      }
    }
    return offset;
  };
}

function pairsOf(map: YAMLMap): ReadonlyMap<string, Pair> {
  return new Map(map.items.flatMap((pair) => (isScalar(pair.key) ? [[String(pair.key.value), pair]] : [])));
}

function anchorsIn(document: Document.Parsed): ReadonlyMap<string, Node> {
  const nodeByAnchor = new Map<string, Node>();
  visit(document, {
    Value(_, node) {
      if (node.anchor !== undefined) nodeByAnchor.set(node.anchor, node);
    },
  });
  return nodeByAnchor;
}

function isNode(value: unknown): value is Node {
  return isAlias(value) || isMap(value) || isSeq(value) || isScalar(value);
}

/** Far above a config of ten thousand connectors; a few lines of nested aliases can stand for billions. */
const maxValues = 2_000_000;
const reservedNames = new Set(['__proto__', 'constructor', 'prototype']);

interface ForbiddenPart {
  readonly offset: number | undefined;
  readonly path: string;
  readonly message: string;
}

/**
 * Converts a parsed document to plain data, or returns the problems: keys that would reach an object's prototype,
 * duplicate keys, aliases without an anchor, anchors that contain themselves, and aliases that stand for too many
 * values. All uses of an anchor share one object. The library does all of this too, in time that grows with the square
 * of the number of keys and aliases.
 */
function yamlData(document: Document.Parsed) {
  const forbidden: ForbiddenPart[] = [];
  const anchors = new Map<string, Anchored>();
  /** The number of values so far, with aliases written out. */
  let values = 0;
  const refuse = (node: Node, path: string, message: string): void => {
    forbidden.push({ offset: node.range?.[0], path, message });
  };
  const read = (node: unknown): unknown => {
    if (isAlias(node)) return readAlias(node);
    values += 1;
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return null;
    if (node.anchor === undefined) return readInner(node);
    const before = values - 1;
    const anchored: Anchored = { isOpen: true, data: null, values: 0 };
    anchors.set(node.anchor, anchored);
    anchored.data = readInner(node);
    anchored.values = values - before;
    anchored.isOpen = false;
    return anchored.data;
  };
  const readAlias = (alias: Alias): unknown => {
    const target = anchors.get(alias.source);
    if (target === undefined) {
      refuse(alias, '', `invalid YAML: there is no anchor &${alias.source} above this alias`);
    } else if (target.isOpen) refuse(alias, '', `the alias *${alias.source} lies inside its own anchor`);
    values += target?.values ?? 1;
    return target?.data ?? null;
  };
  const readInner = (node: Scalar | YAMLMap | YAMLSeq): unknown => {
    if (isScalar(node)) return node.value;
    if (isSeq(node)) return node.items.map(read);
    const data = new Map<string, unknown>();
    for (const { key, value } of node.items) {
      if (!isScalar(key)) continue;
      const name = String(key.value);
      if (isReservedName(name)) refuse(key, name, 'this name is reserved; choose another one');
      else if (data.has(name)) {
        refuse(key, '', `invalid YAML: the key ${JSON.stringify(name)} is there twice`);
      }
      data.set(name, read(value));
    }
    return Object.fromEntries(data);
  };
  const data = read(document.contents);
  if (forbidden.length === 0 && values > maxValues) {
    const message = `expected at most ${maxValues} values with all aliases written out, got more`;
    forbidden.push({ offset: document.contents?.range[0], path: '', message });
  }
  return { data: forbidden.length === 0 ? data : null, forbidden };
}

/** The value at an anchor, once it was read. */
interface Anchored {
  /** True while the value is read: an alias to it is then part of it. */
  isOpen: boolean;
  data: unknown;
  values: number;
}

/** Names that change an object's prototype when a careless copy is made of them. */
export function isReservedName(name: string): boolean {
  return reservedNames.has(name);
}
