import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Alias,
  type Document,
  type Node,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';

/** Far above a config of ten thousand connectors; a few lines of nested aliases can stand for billions. */
const maxValues = 2_000_000;
const reservedNames = new Set(['__proto__', 'constructor', 'prototype']);

interface ForbiddenPart {
  readonly offset: number | undefined;
  readonly path: string;
  readonly message: string;
}

/**
 * A parsed document as plain data, or what is refused in it: keys that would reach an object's prototype, a key twice,
 * aliases without an anchor, anchors that contain themselves, and aliases that stand for too many values. The values of
 * an anchor are one and the same object wherever it is used. The library does all of that too, in time that grows with
 * the square of the number of keys and aliases.
 */
export function yamlData(document: Document.Parsed) {
  const forbidden: ForbiddenPart[] = [];
  const anchors = new Map<string, Anchored>();
  /** So far, with aliases written out. */
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

/** What stands at an anchor, once it was read. */
interface Anchored {
  /** While it is read: what refers to it then lies in it. */
  isOpen: boolean;
  data: unknown;
  values: number;
}

/** Names that change an object's prototype when a careless copy is made of them. */
export function isReservedName(name: string): boolean {
  return reservedNames.has(name);
}
