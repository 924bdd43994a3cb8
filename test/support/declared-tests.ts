import { readFileSync } from 'node:fs';
import { parseAst } from 'vitest/node';

/** A test as its source declares it. */
export interface DeclaredTest {
  /** As it stands in the source: the `%s` of a table and `${…}` are not filled in. */
  readonly title: string;
  /** The comment directly above it without its `// Proves `: `promise 1.2; specification 4.7.1-3`. */
  readonly proves: string | null;
}

/**
 * The tests that a file declares: every call of `it` with a title, `it.each(table)(title, …)`,
 * `it.for(table)(title, …)`, `it.skipIf(…)(title, …)` and the like among them, and of `everywhere` in the contract of
 * sinks. What is always skipped does not count.
 */
export function declaredTests(file: string): readonly DeclaredTest[] {
  const source = readFileSync(file, 'utf8');
  return testsBelow(parse(file, source), source);
}

/** The titles of all its tests and suites, also of those that are skipped. */
export function declaredTitles(file: string): readonly string[] {
  const source = readFileSync(file, 'utf8');
  return titlesBelow(parse(file, source), source);
}

function parse(file: string, source: string): Node {
  const program: unknown = parseAst(source, { lang: 'ts' });
  if (!isNode(program)) throw new Error(`${file} has no syntax tree`);
  return program;
}

function titlesBelow(node: Node, source: string): readonly string[] {
  const call = titledCall(node);
  const title = call === null ? null : titleOf(call.title, source);
  const below = membersOf(node).flatMap((member) => titlesBelow(member, source));
  return title === null ? below : [title, ...below];
}

function testsBelow(node: Node, source: string): readonly DeclaredTest[] {
  const call = titledCall(node);
  const title = call === null ? null : titleOf(call.title, source);
  if (call?.isSkipped === true) return [];
  if (call === null || title === null || call.name === 'describe') {
    return membersOf(node).flatMap((member) => testsBelow(member, source));
  }
  const [, proves = null] = /\/\/ Proves (.*)\n *$/.exec(source.slice(0, Number(node['start']))) ?? [];
  return [{ title, proves }];
}

interface Node {
  readonly type: string;
  readonly [member: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function membersOf(node: Node): readonly Node[] {
  return Object.values(node).flat().filter(isNode);
}

interface TitledCall {
  readonly name: string;
  readonly title: Node;
  readonly isSkipped: boolean;
}

/** `it.each(table)` and `it.skipIf(condition)` have no title yet. */
const withoutTitle = new Set(['each', 'for', 'skipIf', 'runIf']);

/** The callee of a test leads down to `it`: `it(title)`, `it.each(table)(title)`, `it.skipIf(condition)(title)`. */
function titledCall(node: Node): TitledCall | null {
  const [title] = nodesIn(node, 'arguments');
  if (node.type !== 'CallExpression' || title === undefined) return null;
  let isSkipped = false;
  for (let callee = node['callee']; isNode(callee);) {
    if (callee.type === 'Identifier') {
      const name = nameOf(callee);
      return ['it', 'everywhere', 'describe'].includes(name) ? { name, title, isSkipped } : null;
    }
    if (callee.type === 'CallExpression') {
      callee = callee['callee'];
      continue;
    }
    if (withoutTitle.has(memberOf(callee)) && callee === node['callee']) return null;
    isSkipped ||= ['skip', 'todo'].includes(memberOf(callee));
    callee = callee['object'];
  }
  return null;
}

function memberOf(node: unknown): string {
  return isNode(node) && isNode(node['property']) ? nameOf(node['property']) : '';
}

function nameOf(node: Node): string {
  return typeof node['name'] === 'string' ? node['name'] : '';
}

function nodesIn(node: Node, member: string): readonly Node[] {
  const nodes = node[member];
  return Array.isArray(nodes) ? nodes.filter(isNode) : [];
}

/** A text as it is, a template as it is written between its backquotes. */
function titleOf({ type, value, start, end }: Node, source: string): string | null {
  if (type === 'Literal' && typeof value === 'string') return value;
  if (type !== 'TemplateLiteral' || typeof start !== 'number' || typeof end !== 'number') return null;
  return source.slice(start + 1, end - 1);
}
