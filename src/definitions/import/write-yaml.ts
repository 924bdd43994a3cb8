import { Document, isCollection, isMap, isPair, isScalar, isSeq, type Node, type Pair } from 'yaml';
import type { JsonObject } from '../../core/json.ts';
import type { YamlPath } from '../read-yaml.ts';

/** A comment above a place of the file. */
export interface Comment {
  readonly at: YamlPath;
  readonly text: string;
}

/** The data as YAML without aliases: short lists and maps on one line, `head` as comments at the top. */
export function writeYaml(data: JsonObject, comments: readonly Comment[], head: readonly string[]): string {
  const document = new Document(data, { aliasDuplicateObjects: false });
  document.commentBefore = head.map((line) => ` ${line}`).join('\n');
  flow(document.contents);
  for (const { at, text } of comments) comment(document, at, text);
  return document.toString({ lineWidth: 110, flowCollectionPadding: true });
}

const longestFlow = 90;

/** Collections of scalars stand on one line, if they fit there. */
function flow(node: unknown): number {
  if (isPair(node)) return flow(node.key) + flow(node.value) + 4;
  if (isScalar(node)) {
    // A text of several lines is written as one.
    return typeof node.value === 'string' && /\n/.test(node.value) ? 1_000 : String(node.value).length;
  }
  if (!isCollection(node)) return 4;
  const width = node.items.reduce<number>((sum, item) => sum + flow(item), 2);
  const isShallow = node.items.every((item) => {
    const value: unknown = isPair(item) ? item.value : item;
    return !isCollection(value) || value.flow === true;
  });
  if (isShallow && (isSeq(node) || width <= longestFlow) && node.items.length <= 12) node.flow = true;
  return node.flow === true ? width : 1_000;
}

function comment(document: Document, at: YamlPath, text: string): void {
  let node: unknown = document.contents;
  let pair: Pair | null = null;
  for (const step of at) {
    if (isMap(node)) {
      const found: Pair | undefined = node.items.find(({ key }) => isScalar(key) && key.value === step);
      if (found === undefined) break;
      // Within one line there is no room for a comment: it goes above the line.
      if (node.flow === true) break;
      pair = found;
      node = found.value;
    } else if (isSeq(node)) {
      if (node.flow === true) break;
      node = node.items[Number(step)];
    } else break;
  }
  const key = pair?.key;
  if (isScalar(key)) key.commentBefore = added(key, text);
}

function added({ commentBefore }: Node, text: string): string {
  return commentBefore === null || commentBefore === undefined ? ` ${text}` : `${commentBefore}\n ${text}`;
}
