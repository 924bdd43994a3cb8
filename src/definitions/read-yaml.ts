import { readFileSync, statSync } from 'node:fs';
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  visit,
  type Document,
  type Node,
  type Pair,
} from 'yaml';
import type { Problem } from '../core/problems.ts';

const maxBytes = 1_048_576;
const maxAliasCount = 100;
const reservedNames = new Set(['__proto__', 'constructor', 'prototype']);

/** Keys and array positions from the top of the file. */
export type YamlPath = readonly PropertyKey[];

/** One YAML file as plain data, with the way back from a place in the data to a line of the file. */
export interface YamlFile {
  /** The name used in problems. */
  readonly file: string;
  /** What the file says; null when `problems` is not empty. */
  readonly data: unknown;
  /** What keeps the file from being read at all: missing, too large, invalid YAML, forbidden keys. */
  readonly problems: readonly Problem[];
  /** Line (from 1) of a key or element, or of the closest thing around it; null for an unreadable file. */
  readonly line: (path: YamlPath) => number | null;
  /** A problem at a place of this file. */
  readonly problem: (path: YamlPath, message: string) => Problem;
}

/**
 * Reads one YAML 1.2 document (core schema: no dates, no code, no custom tags). Never throws: what is wrong is in
 * `problems`. At most 1 MiB; an anchor may be used 100 times.
 */
export function readYaml(file: string): YamlFile {
  const text = readText(file);
  return typeof text === 'string' ? parseYaml(file, text) : unreadable(file, text.message);
}

/** The same for a text at hand; `file` only names it in problems. */
export function parseYaml(file: string, text: string): YamlFile {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    schema: 'core',
    stringKeys: true,
    resolveKnownTags: false,
    lineCounter: lines,
    prettyErrors: false,
  });
  const lineAt = (offset: number | undefined): number | null =>
    offset === undefined ? null : lines.linePos(offset).line || null;
  const line = (path: YamlPath): number | null => lineAt(offsetOf(document, path));
  const problem = (path: YamlPath, message: string): Problem => ({
    file,
    line: line(path),
    path: path.map(String).join('.'),
    message,
  });
  const problems = [...document.errors, ...document.warnings].map((error): Problem => ({
    file,
    line: lineAt(error.pos[0]),
    path: '',
    message: `invalid YAML: ${error.message}`,
  }));
  if (problems.length === 0) {
    problems.push(...forbiddenParts(document, file, lineAt));
  }
  if (problems.length > 0) {
    return { file, data: null, problems, line, problem };
  }
  try {
    return { file, data: document.toJS({ maxAliasCount }) as unknown, problems, line, problem };
  } catch (error) {
    // The library refuses unknown and excessive aliases only while it builds the data.
    const message = `invalid YAML: ${error instanceof Error ? error.message : String(error)}`;
    return { file, data: null, problems: [problem([], message)], line, problem };
  }
}

/** Names that change an object's prototype when a careless copy is made of them. */
export function isReservedName(name: string): boolean {
  return reservedNames.has(name);
}

/** The text of a file that `readYaml` would parse, or why there is none. Never throws. */
export function readText(file: string): string | { readonly message: string } {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) {
      return { message: `expected at most ${maxBytes} bytes, got ${size}` };
    }
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
  return { file, data: null, problems: [problem([], message)], line: () => null, problem };
}

/** Keys that would reach an object's prototype, and anchors that contain themselves. */
function forbiddenParts(
  document: Document.Parsed,
  file: string,
  lineAt: (offset: number | undefined) => number | null,
): readonly Problem[] {
  const problems: Problem[] = [];
  // Kept on the way: `alias.resolve` would walk the whole document again for every alias.
  const nodeByAnchor = new Map<string, Node>();
  const refuse = (node: Node, path: string, message: string): void => {
    problems.push({ file, line: lineAt(node.range?.[0]), path, message });
  };
  visit(document, {
    Pair(_, pair) {
      const name = isScalar(pair.key) ? String(pair.key.value) : '';
      if (isReservedName(name) && isScalar(pair.key)) {
        refuse(pair.key, name, 'this name is reserved; choose another one');
      }
    },
    Value(_, node) {
      if (node.anchor !== undefined) nodeByAnchor.set(node.anchor, node);
    },
    Alias(_, alias, ancestors) {
      const target = nodeByAnchor.get(alias.source);
      if (target !== undefined && ancestors.some((ancestor) => ancestor === target)) {
        refuse(alias, '', `the alias *${alias.source} lies inside its own anchor`);
      }
    },
  });
  return problems;
}

function offsetOf(document: Document.Parsed, path: YamlPath): number | undefined {
  let node: Node | null = document.contents;
  let offset = node?.range?.[0];
  for (const step of path) {
    if (isAlias(node)) {
      node = node.resolve(document) ?? null;
    }
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.find(
        (candidate) => isScalar(candidate.key) && String(candidate.key.value) === String(step),
      );
      if (pair === undefined || !isScalar(pair.key)) {
        return offset;
      }
      offset = pair.key.range?.[0] ?? offset;
      node = isNode(pair.value) ? pair.value : null;
    } else if (isSeq(node)) {
      const element: unknown = node.items[Number(step)];
      if (!isNode(element)) {
        return offset;
      }
      offset = element.range?.[0] ?? offset;
      node = element;
    } else {
      return offset;
    }
  }
  return offset;
}

function isNode(value: unknown): value is Node {
  return isAlias(value) || isMap(value) || isSeq(value) || isScalar(value);
}
