import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import path, { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { checkJsonOutput } from '../support/json-output/check-json-output.ts';
import { startRedis, type PrivateRedis } from '../support/redis.ts';
import { callCli, jsonLines, startCli, type CliResult } from '../support/run-cli.ts';
import type { Node } from 'typescript/unstable/ast';
import { isCallExpression, isIdentifier, isPropertyAccessExpression } from 'typescript/unstable/ast/is';
import {
  API,
  type Program,
  type Checker,
  type Symbol as TypeSymbol,
  type Type,
  TypeFlags,
  SymbolFlags,
} from 'typescript/unstable/sync';
import { outputVersion } from '../../src/cli/output/json-text.ts';

const root = path.resolve(import.meta.dirname, '../..');
const cli = path.join(root, 'src/cli');

/**
 * JSON Schema of what commands print with `--json`, from the code itself: the types of what is given to `printJson`,
 * with their comments, by the file that prints it. Throws for a type that says too little.
 */
function describeOutput(): JsonSchema {
  const api = new API({ cwd: root });
  try {
    // The one without the tests, which take the compiler longer than the sources.
    const snapshot = api.updateSnapshot({ openProjects: [path.join(root, 'tsconfig.bench.json')] });
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

type JsonSchema = { readonly [keyword: string]: unknown };

/** Types whose values are written as they are: what they hold is the services' affair. */
const anyJson = new Set(['JsonValue', 'unknown']);

/** JSON Schemas of types, as `jsonText` writes their values. Throws for a type that says too little to be of use. */
function openTypeSchemas(checker: Checker) {
  const names = new Map<number, string>();
  const definitions = new Map<string, JsonSchema>();
  const vague = new Set<string>();
  const within: string[] = [];
  let place = '';

  const of = (type: Type, depth = 0): JsonSchema => {
    if (depth > 40) throw new Error(`${place}: a type without end`);
    const alias = type.getAliasSymbol()?.name ?? '';
    if (anyJson.has(alias)) return {};
    if (alias === 'JsonObject') return { type: 'object' };
    if (type.isLiteralType()) return { const: literal(type.value) };
    if (type.flags & TypeFlags.BooleanLike && !type.isUnionType()) return { type: 'boolean' };
    if (type.flags & TypeFlags.StringLike || type.isTemplateLiteralType()) return { type: 'string' };
    if (type.flags & TypeFlags.BigIntLike) return { type: 'integer' };
    if (type.flags & TypeFlags.NumberLike) return { type: 'number' };
    if (type.flags & TypeFlags.Null) return { type: 'null' };
    if (type.flags & TypeFlags.Unknown) return {};
    if (type.flags & (TypeFlags.Any | TypeFlags.NonPrimitive)) {
      vague.add(`${place}: ${checker.typeToString(type)} at ${within.join('.') || 'the top'}`);
      return {};
    }
    if (type.isTypeParameter()) {
      const bound = checker.getBaseConstraintOfType(type);
      if (bound === undefined) throw new Error(`${place}: ${checker.typeToString(type)} is open`);
      return of(bound, depth + 1);
    }
    if (type.isUnionType()) {
      const schema = union(type.getTypes(), depth);
      return 'enum' in schema ? named(type, () => schema) : schema;
    }
    if (type.isIntersectionType()) {
      // A text or number with a name of its own.
      const plain = type
        .getTypes()
        .find((part) => part.flags & (TypeFlags.StringLike | TypeFlags.NumberLike));
      if (plain !== undefined) return of(plain, depth + 1);
    }
    return object(type, depth);
  };

  const union = (types: readonly Type[], depth: number): JsonSchema => {
    const present = types.filter(({ flags }) => !(flags & (TypeFlags.Undefined | TypeFlags.Void)));
    const booleans = present.filter((one) => one.isBooleanLiteralType());
    const others = booleans.length === 2 ? present.filter((one) => !one.isBooleanLiteralType()) : present;
    const literals = others.flatMap((one) => (one.isLiteralType() ? [literal(one.value)] : []));
    const rest = others.filter((one) => !one.isLiteralType()).map((one) => of(one, depth + 1));
    const schemas: JsonSchema[] = [
      ...(literals.length === 0
        ? []
        : [
            literals.length === 1
              ? { const: literals[0] }
              : { enum: literals.toSorted((one, other) => (String(one) < String(other) ? -1 : 1)) },
          ]),
      ...(booleans.length === 2 ? [{ type: 'boolean' }] : []),
      // The compiler's order is that in which it met them.
      ...[...new Map(rest.map((one) => [JSON.stringify(one), one]))]
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([, one]) => one),
    ];
    if (schemas.some((one) => Object.keys(one).length === 0)) return {};
    const [only] = schemas;
    return schemas.length === 1 && only !== undefined ? only : { anyOf: schemas };
  };

  const object = (type: Type, depth: number): JsonSchema => {
    const name = type.getSymbol()?.name ?? '';
    if (type.isTupleType() || checker.isTupleType(type)) {
      const parts = checker.getTypeArguments(type as never).map((one) => of(one, depth + 1));
      return { type: 'array', prefixItems: parts, minItems: parts.length, maxItems: parts.length };
    }
    if (checker.isArrayType(type)) {
      const [item] = checker.getTypeArguments(type as never);
      return { type: 'array', items: item === undefined ? {} : of(item, depth + 1) };
    }
    if (['Set', 'ReadonlySet'].includes(name)) {
      const [item] = checker.getTypeArguments(type as never);
      return { type: 'array', items: item === undefined ? {} : of(item, depth + 1) };
    }
    if (['Map', 'ReadonlyMap'].includes(name)) {
      const [, value] = checker.getTypeArguments(type as never);
      return { type: 'object', additionalProperties: value === undefined ? {} : of(value, depth + 1) };
    }
    return named(type, () => members(type, depth));
  };

  /** A reference to the schema where the type has a name, else the schema itself. */
  const named = (type: Type, schemaOf: () => JsonSchema): JsonSchema => {
    const known = names.get(type.id);
    if (known !== undefined) return { $ref: `#/$defs/${known}` };
    const name = nameOf(type);
    if (name === null) return schemaOf();
    names.set(type.id, name);
    definitions.set(name, {});
    definitions.set(name, schemaOf());
    return { $ref: `#/$defs/${name}` };
  };

  /** Of a type that was given a name, that name, and a number where another one has it too. */
  const nameOf = (type: Type): string | null => {
    const alias = type.getAliasSymbol();
    const symbol = alias ?? type.getSymbol();
    const name = symbol?.name ?? '';
    if (!/^[A-Z]\w*$/.test(name) || type.getAliasTypeArguments().length > 0) return null;
    for (let count = 1; ; count += 1) {
      const free = count === 1 ? name : `${name}${count}`;
      if (!definitions.has(free)) return free;
    }
  };

  const members = (type: Type, depth: number): JsonSchema => {
    const properties: Record<string, JsonSchema> = {};
    const required: string[] = [];
    for (const property of checker.getPropertiesOfType(type)) {
      const own = checker.getTypeOfSymbol(property);
      if (own === undefined) throw new Error(`${place}: ${property.name} has no type`);
      if (checker.getSignaturesOfType(own, 0).length > 0) continue;
      if (property.name.startsWith('__@')) continue;
      const text = commentOf(property);
      within.push(property.name);
      properties[property.name] = { ...of(own, depth + 1), ...(text === '' ? {} : { description: text }) };
      within.pop();
      if (!isOptional(property, own)) required.push(property.name);
    }
    const [index] = checker.getIndexInfosOfType(type);
    return {
      type: 'object',
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(index === undefined ? {} : { additionalProperties: of(index.valueType, depth + 1) }),
    };
  };

  const commentOf = (symbol: TypeSymbol): string =>
    symbol.getDocumentationComment(checker).replaceAll(/\s+/g, ' ').trim();

  return {
    /** Of one document that is printed. `at`: where, for messages. */
    document(type: Type, at: string): JsonSchema {
      place = at;
      return of(type);
    },
    /** Places whose type says nothing of what is printed. */
    vague: (): readonly string[] => [...vague],
    definitions: (): Readonly<Record<string, JsonSchema>> =>
      Object.fromEntries([...definitions].toSorted(([one], [other]) => one.localeCompare(other))),
  };
}

function literal(value: string | number | boolean | bigint): string | number | boolean {
  return typeof value === 'bigint' ? Number(value) : value;
}

function isOptional(symbol: TypeSymbol, type: Type): boolean {
  const parts = type.isUnionType() ? type.getTypes() : [type];
  return (
    (symbol.flags & SymbolFlags.Optional) !== 0 ||
    parts.some(({ flags }) => (flags & TypeFlags.Undefined) !== 0)
  );
}

const schema = '../../docs/reference/json-output.schema.json';

// Proves promise 19.2
it('has a schema for what each command prints with --json, as the code says: npm run reference writes it again', async () => {
  await expect(`${JSON.stringify(describeOutput(), null, 1)}\n`).toMatchFileSnapshot(schema);
}, 120_000);

// Proves promise 19.2
it('refuses a document without version, of another shape, and with a member that the schema does not name', () => {
  const good = { version: 1, ok: true, checks: [] };
  const check = (document: object) => () => checkJsonOutput(['check', '--json'], JSON.stringify(document));
  expect(check(good)).not.toThrow();
  expect(check({ ok: true, checks: [] })).toThrow('printed no version');
  expect(check({ ...good, ok: 1 })).toThrow('does not fit what check --json printed');
  expect(check({ ...good, more: 1 })).toThrow('does not fit what check --json printed');
});

describe('every command with --json', () => {
  let redis: PrivateRedis;
  let world: CliWorld;
  let run: string;
  let list: string;
  beforeAll(async () => {
    redis = await startRedis();
    world = await openCliWorld({ settings: '    include: [lists, list_members]\n', redisUrl: redis.url });
    const config = readFileSync(world.config, 'utf8');
    const more = 'publish: { lake: { type: files, directory: ./lake, when: by-hand } }\n';
    writeFileSync(
      world.config,
      `${config.replace('sinks: {', 'sinks: { other: { type: sqlite, path: ./other.db },')}${more}`,
    );
    appendFileSync(
      world.config,
      'notify: { ops: { type: webhook, url: "https://192.0.2.1/" } }\nhttp: { token: a-token-for-the-tests }\n',
    );
    const lines = await world.json('sync', 'newsletter');
    run = (lines.at(-1) as { report: { run: string } }).report.run;
    list = String(jsonLines(await world.cli('export', 'newsletter/lists'))[0]?.['id']);
  });
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
    await redis[Symbol.asyncDispose]();
  });

  /** In this order, with the code that each ends with. `callCli` holds what it prints against its schema. */
  const runs: readonly (readonly [words: string, code?: number])[] = [
    ['init --base-url https://api.example.com'],
    ['check'],
    ['definitions'],
    ['definitions list'],
    ['definitions show email-marketing lists'],
    ['definitions --dictionary email-marketing'],
    ['connectors list'],
    ['workspaces list'],
    ['login newsletter', 2],
    ['logout newsletter', 2],
    ['sync --dry-run'],
    ['sync newsletter --full'],
    ['sync nothing', 2],
    ['status'],
    ['runs'],
    ['runs <run>'],
    ['actions'],
    ['explain newsletter/lists --key id=<list>'],
    ['explain newsletter/lists --key id=none', 3],
    ['audit newsletter/lists'],
    ['export newsletter/lists'],
    ['export newsletter/lists --output lists.jsonl'],
    ['publish'],
    ['publish'],
    ['publish status lake'],
    ['publish check lake'],
    ['publish prune --dry-run'],
    ['publish schema lake --dialect duckdb'],
    ['backfill newsletter --select list_members --since 2022-01-01 --until 2025-01-01 --window 12mo'],
    ['refetch newsletter/lists --key id=<list>'],
    ['adopt newsletter'],
    ['reset newsletter/lists'],
    ['undo newsletter --run <run>'],
    ['purge newsletter/lists --key id=<list> --dry-run'],
    ['prune newsletter --dry-run'],
    ['cancel <run>', 2],
    ['list newsletter/lists'],
    ['get newsletter/lists --param list_id=<list>'],
    ['download newsletter/lists', 2],
    ['search newsletter/lists'],
    ['search newsletter/lists --filter {"no":1}', 2],
    ['applications list --data served'],
    ['reload', 2],
    ['schedule list'],
    ['schedule pause newsletter --reason test'],
    ['schedule resume newsletter'],
    ['notify status'],
    ['schema diff'],
    ['config show'],
    ['config schema'],
    ['copy --from main --to other newsletter'],
    ['copy --from main --reopen newsletter'],
    ['demo --revision nothing', 2],
    ['worker --http nothing', 2],
  ];

  async function called(words: string): Promise<CliResult> {
    const args = words.split(' ').map((word) => word.replace('<run>', run).replace('<list>', list));
    const config = args[0] === 'init' ? join(world.folder, 'new.yaml') : world.config;
    return await callCli([...args, '--json', '--config', config], { cwd: world.folder, env: world.env });
  }

  // Proves promise 19.2
  it('prints documents of its schema', async () => {
    const ended: object[] = [];
    for (const [words] of runs) {
      const { code, stdout, stderr } = await called(words);
      ended.push({ words, code, isPrinted: stdout !== '', ...(code === 0 ? {} : { stdout, stderr }) });
    }
    const expected = runs.map(([words, code = 0]) => ({ words, code, isPrinted: true }));
    expect(ended).toMatchObject(expected);
  });

  // Proves promise 19.2
  it.each([['ui --http 127.0.0.1:0'], ['mcp --http 127.0.0.1:0'], ['serve --port 0 --size tiny --no-index']])(
    '%s prints a document of its schema when it serves',
    async (words) => {
      const args = [...words.split(' '), '--json', '--config', world.config];
      const cli = startCli(args, { cwd: world.folder, env: world.env });
      await cli.until('"url"');
      cli.child.kill('SIGINT');
      const { stdout } = await cli.result;
      expect(stdout).toMatch(/^\{"version":1,/);
      checkJsonOutput(args, stdout);
    },
  );

  // Proves promise 19.2
  it('is one of those that are run here', () => {
    const run = new Set([...runs.map(([words]) => words.split(' ')[0]), 'ui', 'mcp', 'serve']);
    expect(run).toEqual(new Set(commands.map(({ name }) => name)));
  });
});
