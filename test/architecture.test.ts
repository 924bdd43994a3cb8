import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { allowedImports, homesOfLibraries } from './rooms.ts';

const root = resolve(import.meta.dirname, '..');

const commentLine = /^\s*(\/\/|\/\*|\*)/;

const sources = filesBelow('src').map(readSource);
const tests = filesBelow('test').map(readSource);

describe('the architecture', () => {
  it('knows every room', () => {
    expect([...new Set(sources.map(({ room }) => room))].filter((room) => !(room in allowedImports))).toEqual(
      [],
    );
  });

  it('lets rooms import only what the table allows', () => {
    const forbidden = sources.flatMap(({ path, room, imports }) =>
      imports
        .filter((name) => name.startsWith('.'))
        .map((name) => relative(join(root, 'src'), resolve(root, path, '..', name)))
        .filter((target) => !mayImport(room, target))
        .map((target) => `${path} -> ${target}`),
    );
    expect(forbidden).toEqual([]);
  });

  it('keeps each vendor library in its room', () => {
    const forbidden = sources.flatMap(({ path, imports }) =>
      imports
        .filter((name) => !name.startsWith('.') && !name.startsWith('node:'))
        .filter((name) => !livesIn(homesOfLibraries[name], path))
        .map((name) => `${path} -> ${name}`),
    );
    expect(forbidden).toEqual([]);
  });

  it('does no input or output in core', () => {
    const used = sources.filter(({ room }) => room === 'core').flatMap(({ imports }) => imports);
    expect(used.filter((name) => name.startsWith('node:') && name !== 'node:util')).toEqual([]);
  });

  it('imports in one direction: no file leads back to itself, types included', () => {
    expect(circles(sources)).toEqual([]);
  });

  it('has no two files of the same name', () => {
    const names = sources.map(({ path }) => path.split('/').at(-1) ?? '');
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it('writes relative imports with their extension', () => {
    const bare = [...sources, ...tests].flatMap(({ path, imports }) =>
      imports
        .filter((name) => name.startsWith('.') && !name.endsWith('.ts'))
        .map((name) => `${path} -> ${name}`),
    );
    expect(bare).toEqual([]);
  });

  it('keeps comments within 120 columns', () => {
    const wide = [...sources, ...tests].flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) => {
        const isWide = commentLine.test(line) && line.length > 120 && line.trim().split(' ').length > 2;
        return isWide ? [`${path}:${index + 1}`] : [];
      }),
    );
    expect(wide).toEqual([]);
  });

  it('keeps functions within 60 lines of their own, schemas apart', () => {
    const long = sources.flatMap(({ path, text }) =>
      functionsOf(text)
        .filter(({ own }) => own > 60)
        .map(({ name, own }) => `${path}: ${name} has ${own}`),
    );
    expect(long.filter((one) => !schemaLists.some((name) => one.includes(`: ${name} has `)))).toEqual([]);
  });

  it('has no barrels, no default exports and no folders named by syntax', () => {
    const barrels = sources.filter(
      ({ path, text }) =>
        path.endsWith('/index.ts') ||
        /^export (\*|\{[^}]*\}) from /m.test(text) ||
        /^export default /m.test(text),
    );
    expect(barrels.map(({ path }) => path)).toEqual([]);
    const syntax = /\/(utils?|helpers?|common|types|interfaces|classes|managers?|services)\//;
    expect(sources.map(({ path }) => path).filter((path) => syntax.test(path))).toEqual([]);
  });

  it('prints only in the command line', () => {
    const printing = sources.filter(({ text }) => /\bconsole\.\w+\(|process\.std(out|err)[,.]/.test(text));
    expect(printing.map(({ path }) => path)).toEqual(['src/main.ts']);
  });
});

describe('the docs', () => {
  const documents = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...filesBelow('docs', '.md')];

  it.each(documents)('%s names only paths that exist', (document) => {
    const text = readFileSync(join(root, document), 'utf8');
    const quoted = [...text.matchAll(/(?<![\w/.-])((?:src|test|config|docs|bench|\.ci)\/[\w./-]*\w)/g)].map(
      ([, path = '']) => path,
    );
    const missing = quoted.filter((path) => !existsSync(join(root, path)) && !writtenByUsers.has(path));
    expect([...new Set(missing)]).toEqual([]);
  });
});

/** Paths that come into being on the user's machine. */
const writtenByUsers = new Set(['config/connector-sync.yaml']);

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(root, path), 'utf8');
  const found = text.matchAll(
    /(?:^|\n)(?:import|export)\s[^;'"]*?from\s+'([^']+)'|(?:^|\n)import\s+'([^']+)'|\bimport\('([^']+)'\)/g,
  );
  const imports = [...found].map(([, from, bare, dynamic]) => from ?? bare ?? dynamic ?? '');
  return { path, room: path.split('/')[1] ?? '', text, imports };
}

/** Files that lead to themselves through what they import, each circle once. */
function circles(files: readonly SourceFile[]): readonly string[] {
  const importsOf = new Map(
    files.map(({ path, imports }) => [
      path,
      imports.filter((name) => name.startsWith('.')).map((name) => join(path, '..', name)),
    ]),
  );
  const found: string[] = [];
  const isDone = new Map<string, boolean>();
  const follow = (path: string, way: readonly string[]): void => {
    if (isDone.get(path) === false) found.push([...way.slice(way.indexOf(path)), path].join(' -> '));
    if (isDone.has(path)) return;
    isDone.set(path, false);
    for (const next of importsOf.get(path) ?? []) follow(next, [...way, path]);
    isDone.set(path, true);
  };
  for (const path of importsOf.keys()) follow(path, []);
  return found;
}

function mayImport(room: string, target: string): boolean {
  const rules = allowedImports[room] ?? [];
  return (
    target.split('/')[0] === room ||
    rules.includes('*') ||
    rules.some((rule) => target === rule || (!rule.endsWith('.ts') && target.startsWith(`${rule}/`)))
  );
}

function livesIn(folders: readonly string[] | undefined, path: string): boolean {
  return folders?.some((one) => one === '*' || path.startsWith(`src/${one}/`)) === true;
}

function filesBelow(folder: string, extension = '.ts'): readonly string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(extension))
    .map((name) => `${folder}/${name}`)
    .sort();
}

/** Functions that only list the parts of a schema. */
const schemaLists = [
  'entity',
  'paginationFile',
  'upstreamFile',
  'authentication',
  '(context, _flags, names)',
];

/**
 * Functions with a body of several lines, and how many of its lines are not those of functions inside it. Prettier ends
 * a line with each opening brace, and puts the closing one at the indentation of the line where the function begins.
 */
function functionsOf(text: string): readonly { readonly name: string; readonly own: number }[] {
  const lines = text.split('\n');
  const indentOf = (line: string): number => line.search(/\S/);
  const found = lines.flatMap((line, at) => {
    if (
      !/(=> \{|\)(: [^=]*)? \{)$/.test(line) ||
      /^\s*(\} )?(if|else|for|while|switch|catch|try) /.test(line)
    ) {
      return [];
    }
    const indent = indentOf(line);
    const isEndOfHead = /^\s*[)}\]]/.test(line);
    const head = isEndOfHead
      ? lines.findLastIndex((one, above) => above < at && indentOf(one) === indent)
      : at;
    const end = lines.findIndex((one, below) => below > at && indentOf(one) === indent);
    return [{ head, end, name: /(?:function\*?|const) (\w+)/.exec(lines[head] ?? '')?.[1] ?? line.trim() }];
  });
  return found.map(({ head, end, name }) => {
    const inside = found.filter((other) => other.head > head && other.end < end);
    const covered = new Set(inside.flatMap((one) => span(one.head, one.end)));
    return { name, own: span(head, end).length - covered.size };
  });
}

function span(from: number, to: number): readonly number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
