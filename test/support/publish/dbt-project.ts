import { Template } from '@huggingface/jinja';
import { parse } from 'yaml';
import type { z } from 'zod';
import { generatedText, type GeneratedFile } from '../../../src/publish/schema/generated-file.ts';
import { dbtModels, dbtSources } from './dbt-shapes.ts';

/** A generated project as dbt would understand it; every test of it as a statement that gives the rows that fail. */
export interface DbtProject {
  readonly sources: z.infer<typeof dbtSources>['sources'];
  /** By name. */
  readonly models: ReadonlyMap<string, string>;
  readonly tests: readonly { readonly name: string; readonly sql: string }[];
}

/** How a database calls what the expressions of the project name. */
export interface Relations {
  /** `schema`: with the database, where the project names one. */
  readonly source: (table: DbtProject['sources'][number]['tables'][number], schema: string) => string;
  readonly ref: (model: string) => string;
  /** The kind of database, as dbt names its adapters. */
  readonly target?: 'duckdb' | 'postgres';
}

/** Throws for an expression that no dbt would know, or that names what is not there. */
export function readDbtProject(files: readonly GeneratedFile[], relations: Relations): DbtProject {
  const texts = files.map((file) => ({ path: file.path, text: generatedText(file) }));
  const yamls = (end: string): readonly unknown[] =>
    texts.filter(({ path }) => path.endsWith(end)).map(({ text }) => parse(text) as unknown);
  const sources = yamls('/_sources.yml').flatMap((one) => dbtSources.parse(one).sources);
  const described = yamls('/_models.yml').map((one) => dbtModels.parse(one));
  const sql = (root: string): readonly (readonly [string, string])[] =>
    texts
      .filter(({ path }) => path.startsWith(`${root}/`) && path.endsWith('.sql'))
      .map(({ path, text }) => [path.replace(/^.*\/|\.sql$/g, ''), text]);
  const names = new Set(sql('models').map(([name]) => name));
  const macros = sql('macros')
    .map(([, text]) => text.replace(/^--.*\n/, ''))
    .join('\n');
  const render = (text: string): string => renderJinja(text, macros, sources, names, relations);
  const singular = sql('tests').map(([name, text]) => ({ name, sql: render(text) }));
  const stated = described.flatMap(({ data_tests: tests = [] }) => tests.map(({ name }) => name));
  expectSame(
    stated,
    singular.map(({ name }) => name),
  );
  expectSame(
    described.flatMap(({ models }) => models.map(({ name }) => name)),
    [...names],
  );
  const generic = described.flatMap(({ models }) =>
    models.flatMap(({ name, columns }) =>
      columns.flatMap(({ data_tests: tests = [], ...column }) =>
        tests.map((test) => genericTest(render(`{{ ref('${name}') }}`), column.name, test, render)),
      ),
    ),
  );
  return {
    sources,
    models: new Map(sql('models').map(([name, text]) => [name, render(text)])),
    tests: [...singular, ...generic],
  };
}

function renderJinja(
  text: string,
  macros: string,
  sources: DbtProject['sources'],
  models: ReadonlySet<string>,
  { target = 'duckdb', source, ref }: Relations,
): string {
  const given = {
    target: { type: target },
    adapter: { quote: (name: string) => `"${name}"` },
    ref: (model: string) => {
      if (!models.has(model)) throw new Error(`dbt would not know the model ${model}`);
      return ref(model);
    },
    source: (from: string, table: string) => {
      const known = sources.find((one) => one.name === from);
      const found = known?.tables.find((one) => one.name === table);
      if (known === undefined || found === undefined) throw new Error(`dbt would not know ${from}.${table}`);
      return source(found, [known.database, known.schema].filter((part) => part !== undefined).join('.'));
    },
  };
  return new Template(`${macros}${text}`).render(given).trimStart();
}

type ColumnTest = NonNullable<
  z.infer<typeof dbtModels>['models'][number]['columns'][number]['data_tests']
>[number];

/** As dbt makes its own tests. */
function genericTest(
  model: string,
  column: string,
  test: ColumnTest,
  render: (text: string) => string,
): { readonly name: string; readonly sql: string } {
  if (test === 'not_null') {
    return { name: `not_null ${model}.${column}`, sql: `select * from ${model} where "${column}" is null` };
  }
  if (test === 'unique') {
    const sql = `select "${column}" from ${model} where "${column}" is not null group by "${column}" having count(*) > 1`;
    return { name: `unique ${model}.${column}`, sql };
  }
  const { to, field } = test.relationships.arguments;
  return {
    name: `relationships ${model}.${column}`,
    sql: `select child."${column}" from ${model} as child left join ${render(`{{ ${to} }}`)} as parent on child."${column}" = parent."${field}"
      where child."${column}" is not null and parent."${field}" is null`,
  };
}

function expectSame(left: readonly string[], right: readonly string[]): void {
  const [first, second] = [left.toSorted().join(), right.toSorted().join()];
  if (first !== second) throw new Error(`described are ${first}, and there are ${second}`);
}
