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
} from 'yaml';
import type { Problem } from '../core/problems.ts';
import { yamlData } from './yaml-data.ts';
import { knownOrMade } from '../core/known-or-made.ts';

/** A config of 100,000 connectors fits. */
const maxBytes = 16 * 1024 * 1024;

/** What every file here is read as: YAML 1.2, core schema. */
export const yamlSyntax = {
  schema: 'core',
  stringKeys: true,
  resolveKnownTags: false,
  // `yamlData` looks for them: the library compares each key of a map with all before it.
  uniqueKeys: false,
  prettyErrors: false,
} as const;

/** One YAML file as plain data, with the way back from a place in the data to a line of the file. */
export type YamlFile = ReturnType<typeof parseYaml>;

/**
 * Reads one YAML 1.2 document (core schema: no dates, no code, no custom tags). Never throws: what is wrong is in
 * `problems`. At most 16 MiB; with every alias written out, at most two million values.
 */
export function readYaml(file: string): YamlFile {
  const text = readText(file);
  return typeof text === 'string' ? parseYaml(file, text) : unreadable(file, text.message);
}

/** The same for a text at hand; `file` only names it in problems. */
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
    /** What the file says; null when `problems` is not empty. */
    data,
    /** What keeps the file from being read at all: missing, too large, invalid YAML, forbidden keys. */
    problems: problems as readonly Problem[],
    /** Comments that begin with TODO: what they say, and the first line behind them that is none. */
    todos: todosIn(text),
    /** Line (from 1) of a key or element, or of the closest thing around it; null for an unreadable file. */
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

function unreadable(file: string, message: string): YamlFile {
  const problem = (path: YamlPath, text: string): Problem => ({
    file,
    line: null,
    path: path.map(String).join('.'),
    message: text,
  });
  return { file, data: null, problems: [problem([], message)], todos: [], line: () => null, problem };
}

/** Keys and array positions from the top of the file. */
export type YamlPath = readonly PropertyKey[];

/**
 * Where a key or element begins in the text, or the closest thing around it. What is found on the way is kept: a file
 * with a mistake in each of ten thousand entries is not searched from its top for each of them.
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
