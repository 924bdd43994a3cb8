import path from 'node:path';
import type { Node } from 'typescript/unstable/ast';
import { isCallExpression, isIdentifier, isPropertyAccessExpression } from 'typescript/unstable/ast/is';
import { API, type Program } from 'typescript/unstable/sync';
import { outputVersion } from '../../../src/cli/output/json-text.ts';
import { openTypeSchemas, type JsonSchema } from './type-schema.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const cli = path.join(root, 'src/cli');

/**
 * JSON Schema of what commands print with `--json`, from the code itself: the types of what is given to `printJson`,
 * with their comments, by the file that prints it. Throws for a type that says too little.
 */
export function describeOutput(): JsonSchema {
  const api = new API({ cwd: root });
  try {
    const snapshot = api.updateSnapshot({ openProjects: [path.join(root, 'tsconfig.json')] });
    const [project] = snapshot.getProjects();
    if (project === undefined) throw new Error('expected a project');
    const { program, checker } = project;
    const schemas = openTypeSchemas(checker);
    const byFile = new Map<string, JsonSchema[]>();
    for (const { file, place, node } of printedDocuments(program)) {
      const type = checker.getTypeAtLocation(node);
      if (type === undefined) throw new Error(`${place} has no type`);
      if (checker.getPropertyOfType(type, 'version') !== undefined) throw new Error(`${place} has a version`);
      byFile.set(file, [...(byFile.get(file) ?? []), schemas.document(type, place)]);
    }
    const vague = schemas.vague();
    if (vague.length > 0) throw new Error(`expected types that say what is printed:\n${vague.join('\n')}`);
    return {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      description:
        'What connector-sync prints with --json. $defs has a schema for the documents of each file of src/cli, such as status. Made by "npm run reference" from the code.',
      type: 'object',
      properties: { version: { const: outputVersion } },
      required: ['version'],
      anyOf: [...byFile.keys()].map((file) => ({ $ref: `#/$defs/${file}` })),
      $defs: {
        ...Object.fromEntries([...byFile].map(([file, anyOf]) => [file, { anyOf }])),
        ...schemas.definitions(),
      },
    };
  } finally {
    api.close();
  }
}

/** What is given to `printJson` and `versioned` below `src/cli`. */
function printedDocuments(program: Program) {
  return (
    program
      .getSourceFileNames()
      // The terminal hands on what commands give it.
      .filter((name) => name.startsWith(`${cli}/`) && !name.endsWith('/terminal.ts'))
      .toSorted()
      .flatMap((name) => {
        const source = program.getSourceFile(name);
        if (source === undefined) throw new Error(`expected ${name} in the project`);
        const file = path.basename(name, '.ts');
        const found: { readonly file: string; readonly place: string; readonly node: Node }[] = [];
        const visit = (node: Node): void => {
          const printed =
            isCallExpression(node) && isPrinting(node.expression) ? node.arguments[0] : undefined;
          if (printed !== undefined) {
            found.push({ file, place: `${file}: ${printed.getText(source)}`, node: printed });
          }
          node.forEachChild(visit);
        };
        visit(source);
        return found;
      })
  );
}

function isPrinting(called: Node): boolean {
  const name = isPropertyAccessExpression(called) ? called.name : called;
  return isIdentifier(name) && (name.text === 'printJson' || name.text === 'versioned');
}
