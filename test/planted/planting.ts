import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAst } from 'vitest/node';

/** A mistake that a change of the program could make, and the test that finds it. */
export interface Defect {
  readonly id: string;
  /** The function, class or constant that has the mistake: it is looked for in all of `src`. */
  readonly name: string;
  /** Another name that the same file declares. Needed where several files have a `name` with this text. */
  readonly beside?: string;
  /** Occurs once in what `name` declares. White space counts as one blank, so that a line may be broken elsewhere. */
  readonly find: string;
  readonly replace: string;
  /** The harm to a user, as one sentence. */
  readonly because: string;
  /** The test file that fails with the defect and passes without it. */
  readonly foundBy: string;
  /** Part of the titles of the tests to run; absent: the whole file. */
  readonly titled?: string;
  /** The tests run the built program, in processes: it is built again with the defect. */
  readonly runsProgram?: true;
}

/** A source file of the program. */
export interface Source {
  readonly path: string;
  readonly text: string;
}

/** A source file with a defect in it. */
export interface Planted {
  readonly path: string;
  /** As the file was. */
  readonly before: string;
  readonly text: string;
}

/** All TypeScript files below `src` of a project folder. */
export function readSources(project: string): readonly Source[] {
  return readdirSync(join(project, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .toSorted()
    .map((name) => ({ path: join('src', name), text: readFileSync(join(project, 'src', name), 'utf8') }));
}

/** Throws an error that says what to change where the defect cannot be planted, or not without doubt. */
export function plantDefect(
  sources: readonly Source[],
  { name, beside, find, replace }: Pick<Defect, 'name' | 'beside' | 'find' | 'replace'>,
): Planted {
  const named = sources.filter(({ text }) => text.includes(name) && text.includes(beside ?? name));
  // Parsing takes time: of the others only a message speaks.
  const having = named.filter(({ text }) => placesOf(find, text).length > 0);
  const declaring = declarationsOf(having.length > 0 ? having : named, name, beside);
  if (declaring.length === 0) {
    throw new Error(`src declares no ${name} with this text: expected its new name`);
  }
  const places = declaring.flatMap(({ source, start, end }) =>
    placesOf(find, source.text.slice(start, end)).map((place) => ({
      source,
      start: start + place.start,
      end: start + place.end,
    })),
  );
  // A name may be declared inside of another declaration of that name.
  const distinct = [...new Map(places.map((one) => [`${one.source.path} ${one.start}`, one])).values()];
  const [place] = distinct;
  if (place === undefined || distinct.length > 1) {
    const files = [...new Set(declaring.map(({ source }) => source.path))].join(', ');
    throw new Error(
      `${name} (${files}) has the text ${distinct.length} times, expected it once: change \`find\`, or name another declaration of its file in \`beside\``,
    );
  }
  const { path, text } = place.source;
  const planted = text.slice(0, place.start) + replace + text.slice(place.end);
  try {
    parseAst(planted, { lang: 'ts' });
  } catch (cause) {
    throw new Error(`${path} has another syntax with the defect: change \`replace\``, { cause });
  }
  return { path, before: text, text: planted };
}

interface DeclaredIn extends Declared {
  readonly source: Source;
}

function declarationsOf(
  sources: readonly Source[],
  name: string,
  beside: string | undefined,
): readonly DeclaredIn[] {
  return sources.flatMap((source) => {
    const declared = declarationsIn(source);
    const isBeside = beside === undefined || declared.some((one) => one.name === beside);
    return isBeside ? declared.filter((one) => one.name === name).map((one) => ({ source, ...one })) : [];
  });
}

/** Where a text has these words, with any white space between them. */
function placesOf(find: string, text: string): readonly { readonly start: number; readonly end: number }[] {
  const words = find.trim().split(/\s+/);
  const pattern = new RegExp(words.map(escaped).join('\\s+'), 'g');
  return [...text.matchAll(pattern)].map(({ index, 0: found }) => ({
    start: index,
    end: index + found.length,
  }));
}

/** For a regular expression. */
export function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

interface Declared {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

/** Functions, classes and variables with a single name, at any depth. */
function declarationsIn({ path, text }: Source): readonly Declared[] {
  const program: unknown = parseAst(text, { lang: 'ts' });
  if (!isNode(program)) throw new Error(`${path} has no syntax tree`);
  return declaredBelow(program);
}

const declaring = new Set(['FunctionDeclaration', 'ClassDeclaration', 'VariableDeclarator']);

function declaredBelow(node: Node): readonly Declared[] {
  const below = membersOf(node).flatMap(declaredBelow);
  const { type, id, start, end } = node;
  if (!declaring.has(type) || !isNode(id) || id.type !== 'Identifier') return below;
  return [{ name: String(id['name']), start: Number(start), end: Number(end) }, ...below];
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
