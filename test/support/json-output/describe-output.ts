import { readFileSync } from 'node:fs';
import path from 'node:path';
import { API } from 'typescript/unstable/sync';
import { outputVersion } from '../../../src/cli/output/json-text.ts';
import { openPrintedDocuments, type Export } from './printed-documents.ts';
import { openTypeSchemas, type JsonSchema } from './type-schema.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const cli = path.join(root, 'src/cli');

/**
 * JSON Schema of what each command prints with `--json`, from the code itself: the types of what is given to
 * `printJson` where a command leads, with their comments. Throws for a type that says too little.
 */
export function describeOutput(): JsonSchema {
  const api = new API({ cwd: root });
  try {
    const snapshot = api.updateSnapshot({ openProjects: [path.join(root, 'tsconfig.json')] });
    const [project] = snapshot.getProjects();
    if (project === undefined) throw new Error('expected a project');
    const { program, checker } = project;
    const schemas = openTypeSchemas(checker);
    const printed = openPrintedDocuments(program, cli);
    const failure = printed.of([{ file: path.join(cli, 'output/exit-codes.ts'), name: 'reportError' }]);
    const byPlace = new Map<string, JsonSchema>();
    const documentOf = ({ place, node }: (typeof failure)[number]): JsonSchema => {
      const type = checker.getTypeAtLocation(node);
      if (type === undefined) throw new Error(`${place} has no type`);
      if (checker.getPropertyOfType(type, 'version') !== undefined) throw new Error(`${place} has a version`);
      const known = byPlace.get(place) ?? schemas.document(type, place);
      byPlace.set(place, known);
      return known;
    };
    const commands = commandExports().map(([name, entry]) => {
      const documents = [...printed.of([entry]), ...failure].map(documentOf);
      const each = [...new Map(documents.map((one) => [JSON.stringify(one), one])).values()];
      return [name, each] as const;
    });
    const vague = schemas.vague();
    if (vague.length > 0) throw new Error(`expected types that say what is printed:\n${vague.join('\n')}`);
    const shared = sharedBy(commands.map(([, documents]) => documents));
    return {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      description:
        'What connector-sync prints with --json. $defs has a schema for the documents of each command, by its name. Made by "npm run reference" from the code.',
      type: 'object',
      properties: { version: { const: outputVersion } },
      required: ['version'],
      anyOf: commands.map(([name]) => ({ $ref: `#/$defs/${name}` })),
      $defs: {
        ...Object.fromEntries(
          commands.map(([name, documents]) => [
            name,
            {
              properties: { version: { const: outputVersion } },
              required: ['version'],
              anyOf: documents.map((one) => shared.get(JSON.stringify(one))?.reference ?? one),
            },
          ]),
        ),
        ...Object.fromEntries([...shared.values()].map(({ name, schema }) => [name, schema])),
        ...schemas.definitions(),
      },
    };
  } finally {
    api.close();
  }
}

/** Documents of several commands, each with a name: its kind, or its first members. */
function sharedBy(commands: readonly (readonly JsonSchema[])[]) {
  const counts = new Map<string, { readonly schema: JsonSchema; readonly commands: number }>();
  for (const schema of commands.flat()) {
    const text = JSON.stringify(schema);
    counts.set(text, { schema, commands: (counts.get(text)?.commands ?? 0) + 1 });
  }
  const shared = new Map<string, { name: string; schema: JsonSchema; reference: JsonSchema }>();
  const taken = new Set<string>();
  for (const [text, { schema, commands: users }] of counts) {
    if (users < 2 || '$ref' in schema) continue;
    const [kind] = /(?<="kind":\{"const":")[\w-]+/.exec(text) ?? [];
    const members = Object.keys((schema['properties'] as object | undefined) ?? {});
    const base = text.includes('"const":"run-started"')
      ? 'run-event'
      : members.length > 1 && members.includes('error')
        ? 'failure'
        : (kind ?? members.slice(0, 2).join('-'));
    const free = [base, ...Array.from({ length: 99 }, (_, at) => `${base}-${at + 2}`)];
    const name = free.find((one) => !taken.has(one)) ?? base;
    taken.add(name);
    shared.set(text, { name: `document:${name}`, schema, reference: { $ref: `#/$defs/document:${name}` } });
  }
  return shared;
}

/** Each command's name, and where `commands.ts` finds it. */
function commandExports(): readonly (readonly [name: string, entry: Export])[] {
  const text = readFileSync(path.join(cli, 'commands.ts'), 'utf8');
  const loaders = text.matchAll(/^ {2}(\w+): async \(\) => \(await import\('(\.[^']+)'\)\)\.(\w+),/gm);
  return [...loaders].map(([, command = '', module = '', name = '']) => {
    return [command, { file: path.join(cli, module), name }] as const;
  });
}
