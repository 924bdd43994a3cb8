import path from 'node:path';
import type { Node, SourceFile } from 'typescript/unstable/ast';
import {
  isCallExpression,
  isIdentifier,
  isImportDeclaration,
  isPropertyAccessExpression,
  isPropertyAssignment,
  isVariableStatement,
} from 'typescript/unstable/ast/is';
import type { Program } from 'typescript/unstable/sync';

/** Something that a module exports. */
export interface Export {
  readonly file: string;
  readonly name: string;
}

interface Module {
  readonly source: SourceFile;
  /** Statements of the module by the names that they declare. */
  readonly statements: ReadonlyMap<string, Node>;
  /** What is imported from the folder, by its name here. */
  readonly imports: ReadonlyMap<string, Export>;
}

/** Finds what is given to `printJson` in code that an export of a module leads to, within a folder. */
export function openPrintedDocuments(program: Program, folder: string) {
  const modules = new Map<string, Module>();
  const moduleOf = (file: string): Module => {
    const known = modules.get(file) ?? readModule(file);
    modules.set(file, known);
    return known;
  };

  const readModule = (file: string): Module => {
    const source = program.getSourceFile(file);
    if (source === undefined) throw new Error(`expected ${file} in the project`);
    const statements = new Map<string, Node>();
    const imports = new Map<string, Export>();
    for (const statement of source.statements) {
      if (isImportDeclaration(statement)) {
        const [, names = '', from = ''] =
          /^import \{(.*)\} from '(\.[^']+)';$/s.exec(statement.getText(source).trim()) ?? [];
        for (const [name, imported] of importedNames(names, from, file)) imports.set(name, imported);
      } else {
        for (const name of declaredNames(statement, source)) statements.set(name, statement);
      }
    }
    return { source, statements, imports };
  };

  const importedNames = (names: string, from: string, file: string): readonly [string, Export][] => {
    const target = path.resolve(path.dirname(file), from);
    if (from === '' || !target.startsWith(`${folder}/`)) return [];
    return names
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '' && !one.startsWith('type '))
      .map((one) => {
        const [name = one, here = name] = one.split(' as ');
        return [here, { file: target, name }];
      });
  };

  return {
    of(entries: readonly Export[]) {
      const found = new Map<string, { readonly place: string; readonly node: Node }>();
      const seen = new Set<string>();
      const open = [...entries];
      for (let entry = open.pop(); entry !== undefined; entry = open.pop()) {
        const { file, name } = entry;
        const { source, statements, imports } = moduleOf(file);
        const statement = statements.get(name);
        const key = `${file}\n${name}`;
        if (statement === undefined || seen.has(key)) continue;
        seen.add(key);
        const visit = (node: Node): void => {
          if (isIdentifier(node)) {
            if (statements.has(node.text)) open.push({ file, name: node.text });
            const imported = imports.get(node.text);
            if (imported !== undefined) open.push(imported);
          }
          if (isCallExpression(node)) {
            const [, from] = /^import\('(\.[^']+)'\)$/.exec(node.getText(source)) ?? [];
            if (from !== undefined) openDynamic(path.resolve(path.dirname(file), from));
            const argument = printedBy(node);
            if (argument !== null) {
              const place = `${path.basename(file)}:${argument.pos}: ${argument.getText(source)}`;
              found.set(place, { place, node: argument });
            }
          }
          // The name of a property leads nowhere, even where something at the top of the module is called the same.
          const name = isPropertyAccessExpression(node) || isPropertyAssignment(node) ? node.name : undefined;
          node.forEachChild((child) => {
            if (child !== name || !isIdentifier(child)) visit(child);
          });
        };
        const openDynamic = (target: string): void => {
          if (!target.startsWith(`${folder}/`)) return;
          for (const one of moduleOf(target).statements.keys()) open.push({ file: target, name: one });
        };
        visit(statement);
      }
      return [...found.values()].toSorted((one, other) => one.place.localeCompare(other.place));
    },
  };
}

function declaredNames(statement: Node, source: SourceFile): readonly string[] {
  if (isVariableStatement(statement)) {
    return statement.declarationList.declarations.map(({ name }) => name.getText(source));
  }
  const [, name] =
    /^(?:export )?(?:async )?(?:function\*?|class) (\w+)/.exec(statement.getText(source).trim()) ?? [];
  return name === undefined ? [] : [name];
}

function printedBy(node: Node): Node | null {
  if (!isCallExpression(node)) return null;
  const called = isPropertyAccessExpression(node.expression) ? node.expression.name : node.expression;
  const prints = isIdentifier(called) && (called.text === 'printJson' || called.text === 'versioned');
  return prints ? (node.arguments[0] ?? null) : null;
}
