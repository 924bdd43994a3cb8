import {
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

/** Keys and array positions from the top of the file. */
export type YamlPath = readonly PropertyKey[];

/**
 * Where a key or element begins in the text, or the closest thing around it. What is found on the way is kept: a file with a
 * mistake in each of ten thousand entries is not searched from its top for each of them.
 */
export function openYamlPlaces(document: Document.Parsed): (path: YamlPath) => number | undefined {
  const pairsByMap = new WeakMap<YAMLMap, ReadonlyMap<string, Pair>>();
  const pairs = (map: YAMLMap): ReadonlyMap<string, Pair> => {
    const known = pairsByMap.get(map) ?? pairsOf(map);
    pairsByMap.set(map, known);
    return known;
  };
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
