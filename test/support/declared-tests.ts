import { readFileSync } from 'node:fs';
import { format } from 'node:util';
import { parseAst } from 'vitest/node';

/** A test as its source declares it. */
export interface DeclaredTest {
  /** The titles of the suites around it, the outermost first. */
  readonly suites: readonly string[];
  /** As it stands in the source: the `%s` of a table and `${…}` are not filled in. */
  readonly title: string;
  /** The titles that vitest prints for the rows of its table, where these are written out in the file. */
  readonly printed: readonly string[];
}

/**
 * The tests that a file declares: every call of `it` with a title, `it.each(table)(title, …)`,
 * `it.for(table)(title, …)`, `it.skipIf(…)(title, …)` and the like among them, and of `everywhere` in the contract of
 * sinks. What is always skipped does not count.
 */
export function declaredTests(file: string): readonly DeclaredTest[] {
  const known = testsByFile.get(file);
  if (known !== undefined) return known;
  const source = readFileSync(file, 'utf8');
  const program: unknown = parseAst(source, { lang: 'ts' });
  if (!isNode(program)) throw new Error(`${file} has no syntax tree`);
  const constants = new Map<string, Node>();
  for (const { type, id, init } of nodesBelow(program)) {
    if (type === 'VariableDeclarator' && isNode(id) && isNode(init)) constants.set(nameOf(id), init);
  }
  const tests = testsBelow(program, { source, constants, suites: [] });
  testsByFile.set(file, tests);
  return tests;
}

/**
 * What is wrong with the line `file: title` of a document, or null where it names exactly one test. The title is whole:
 * as it stands in the source, or as vitest prints it for one row of a table; suites may stand before it, `suite >
 * title`.
 */
export function quoteProblem(file: string, quoted: string): string | null {
  const named = declaredTests(file).filter(({ suites, title, printed }) =>
    [title, ...printed].some((one) =>
      suites
        .map((_, depth) => [...suites.slice(depth), one].join(' > '))
        .concat(one)
        .includes(quoted),
    ),
  );
  if (named.length === 1) return null;
  return named.length === 0
    ? `${file} has no test with the whole title "${quoted}"`
    : `${file} has ${named.length} tests with the title "${quoted}": put the suite before it, "suite > title"`;
}

const testsByFile = new Map<string, readonly DeclaredTest[]>();

interface Place {
  readonly source: string;
  /** What is written behind `const name =`. */
  readonly constants: ReadonlyMap<string, Node>;
  readonly suites: readonly string[];
}

function testsBelow(node: Node, place: Place): readonly DeclaredTest[] {
  const call = titledCall(node);
  const title = call === null ? null : titleOf(call.title, place.source);
  if (call?.isSkipped === true) return [];
  if (call === null || title === null) return membersOf(node).flatMap((member) => testsBelow(member, place));
  if (call.name === 'describe') {
    const inside = { ...place, suites: [...place.suites, title] };
    return membersOf(node).flatMap((member) => testsBelow(member, inside));
  }
  const table = call.table === null ? [] : valueOf(call.table, place.constants);
  const rows: readonly unknown[] = Array.isArray(table) ? table : [];
  return [{ suites: place.suites, title, printed: rows.flatMap((row) => printedTitle(title, row)) }];
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

function nodesBelow(node: Node): readonly Node[] {
  return [node, ...membersOf(node).flatMap(nodesBelow)];
}

interface TitledCall {
  readonly name: string;
  readonly title: Node;
  readonly table: Node | null;
  readonly isSkipped: boolean;
}

/** `it.each(table)` and `it.skipIf(condition)` have no title yet. */
const withoutTitle = new Set(['each', 'for', 'skipIf', 'runIf']);

/** The callee of a test leads down to `it`: `it(title)`, `it.each(table)(title)`, `it.skipIf(condition)(title)`. */
function titledCall(node: Node): TitledCall | null {
  const [title] = nodesIn(node, 'arguments');
  if (node.type !== 'CallExpression' || title === undefined) return null;
  let table: Node | null = null;
  let isSkipped = false;
  for (let callee = node['callee']; isNode(callee);) {
    if (callee.type === 'Identifier') {
      const name = nameOf(callee);
      return ['it', 'everywhere', 'describe'].includes(name) ? { name, title, table, isSkipped } : null;
    }
    if (callee.type === 'CallExpression') {
      [table = null] = ['each', 'for'].includes(memberOf(callee['callee']))
        ? nodesIn(callee, 'arguments')
        : [table];
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

/** What a literal stands for; undefined for all that has to be computed. */
function valueOf(node: unknown, constants: ReadonlyMap<string, Node>): unknown {
  if (!isNode(node)) return undefined;
  switch (node.type) {
    case 'Literal':
      return node['value'];
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
      return valueOf(node['expression'], constants);
    case 'Identifier':
      return valueOf(constants.get(nameOf(node)), constants);
    case 'UnaryExpression': {
      const value = valueOf(node['argument'], constants);
      return node['operator'] === '-' && typeof value === 'number' ? -value : undefined;
    }
    case 'ArrayExpression':
      return nodesIn(node, 'elements').map((element) => valueOf(element, constants));
    case 'ObjectExpression':
      return Object.fromEntries(
        nodesIn(node, 'properties').map(({ key, value }) => [
          isNode(key) ? nameOf(key) || valueOf(key, constants) : '',
          valueOf(value, constants),
        ]),
      );
    default:
      return undefined;
  }
}

/** As vitest fills a row into a title; nothing where a value of the title is computed. */
function printedTitle(title: string, row: unknown): readonly string[] {
  const values: readonly unknown[] = Array.isArray(row) ? row : [row];
  const shown = values.slice(0, title.match(/%[sdifj]/g)?.length ?? 0);
  const isWritten = shown.length > 0 && !shown.some(isComputed);
  return isWritten ? [format(title, ...shown)] : [];
}

function isComputed(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === undefined;
  return Object.values(value).some(isComputed);
}
