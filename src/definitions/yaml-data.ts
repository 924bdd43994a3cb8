import { isAlias, isMap, isScalar, isSeq, visit, type Alias, type Document, type Node } from 'yaml';

/** Far above a config of ten thousand connectors; a few lines of nested aliases can stand for billions. */
const maxValues = 2_000_000;
const reservedNames = new Set(['__proto__', 'constructor', 'prototype']);

interface ForbiddenPart {
  readonly offset: number | undefined;
  readonly path: string;
  readonly message: string;
}

/**
 * A parsed document as plain data, or what is refused in it: keys that would reach an object's prototype, a key twice, aliases
 * without an anchor, anchors that contain themselves, and aliases that stand for too many values. The values of an anchor are
 * one and the same object wherever it is used. The library does all of that too, in time that grows with the square of the
 * number of keys and aliases.
 */
export function yamlData(document: Document.Parsed): {
  readonly data: unknown;
  readonly forbidden: readonly ForbiddenPart[];
} {
  const parts: ForbiddenPart[] = [];
  // Kept on the way: `alias.resolve` would walk the whole document again for every alias.
  const nodeByAnchor = new Map<string, Node>();
  const targetByAlias = new Map<Alias, Node>();
  const refuse = (node: Node, path: string, message: string): void => {
    parts.push({ offset: node.range?.[0], path, message });
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
      if (!isMap(node)) return;
      const names = new Set<string>();
      for (const { key } of node.items) {
        if (!isScalar(key)) continue;
        const name = String(key.value);
        if (names.has(name)) refuse(key, '', `invalid YAML: the key ${JSON.stringify(name)} is there twice`);
        names.add(name);
      }
    },
    Alias(_, alias, ancestors) {
      const target = nodeByAnchor.get(alias.source);
      if (target === undefined) {
        refuse(alias, '', `invalid YAML: there is no anchor &${alias.source} above this alias`);
        return;
      }
      targetByAlias.set(alias, target);
      if (ancestors.some((ancestor) => ancestor === target)) {
        refuse(alias, '', `the alias *${alias.source} lies inside its own anchor`);
      }
    },
  });
  // What contains itself has no number of values.
  if (parts.length > 0) return { data: null, forbidden: parts };
  const { contents } = document;
  if (countValues(contents, targetByAlias, new Map()) > maxValues) {
    const message = `expected at most ${maxValues} values with all aliases written out, got more`;
    return { data: null, forbidden: [{ offset: contents?.range[0], path: '', message }] };
  }
  return { data: toData(contents, targetByAlias, new Map()), forbidden: [] };
}

/** Names that change an object's prototype when a careless copy is made of them. */
export function isReservedName(name: string): boolean {
  return reservedNames.has(name);
}

/** Each anchor is counted once, however often it is used. */
function countValues(
  node: unknown,
  targetByAlias: ReadonlyMap<Alias, Node>,
  counted: Map<Node, number>,
): number {
  if (isAlias(node)) {
    const target = targetByAlias.get(node);
    if (target === undefined) return 1;
    const known = counted.get(target) ?? countValues(target, targetByAlias, counted);
    counted.set(target, known);
    return known;
  }
  const inner: readonly unknown[] = isMap(node)
    ? node.items.map(({ value }) => value)
    : isSeq(node)
      ? node.items
      : [];
  return inner.reduce<number>((sum, one) => sum + countValues(one, targetByAlias, counted), 1);
}

function toData(node: unknown, targetByAlias: ReadonlyMap<Alias, Node>, made: Map<Node, unknown>): unknown {
  if (isScalar(node)) return node.value;
  if (isAlias(node)) {
    const target = targetByAlias.get(node);
    if (target === undefined) return null;
    if (!made.has(target)) made.set(target, toData(target, targetByAlias, made));
    return made.get(target);
  }
  if (isSeq(node)) return node.items.map((item) => toData(item, targetByAlias, made));
  if (!isMap(node)) return null;
  return Object.fromEntries(
    node.items.map(({ key, value }) => [
      isScalar(key) ? String(key.value) : '',
      toData(value, targetByAlias, made),
    ]),
  );
}
