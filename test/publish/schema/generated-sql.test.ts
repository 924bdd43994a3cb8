import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Catalogue } from '../../../src/publish/schema/catalogue.ts';
import { generate } from '../../../src/publish/schema/generate.ts';
import { isPlainName, quoteName, quoteText } from '../../../src/publish/schema/quote-name.ts';
import { blocksOf as blocksIn } from '../../support/document-commands.ts';
import { readDbtProject, type DbtProject, type Relations } from '../../support/publish/dbt-project.ts';
import {
  openDuckdb,
  openPostgres,
  openSchemaWorld,
  psql,
  rowText,
  schemaConnectors,
  type Database,
  type RowTexts,
  type SchemaWorld,
} from '../../support/publish/schema-world.ts';
import { isLong } from '../../support/trials.ts';

const targets = ['lake', 'sheets', 'mart', ...(isLong ? ['lines', 'desk'] : [])];
const fileTargets = isLong ? ['lake', 'lines', 'sheets'] : ['lake'];
const catalogues = new Map<string, Catalogue>();
let world: SchemaWorld;
let sinkRows: ReadonlyMap<string, RowTexts>;
/** Of the first publication, in CSV files. */
let first: Catalogue;

beforeAll(async () => {
  world = await openSchemaWorld();
  for (const revision of [0, 3]) {
    world.cli.moveTo(revision);
    await world.cli.json('sync', ...schemaConnectors, '--full');
    for (const name of targets) await world.publish(name);
    if (revision === 0) first = await world.catalogue('sheets');
  }
  for (const name of targets) catalogues.set(name, await world.catalogue(name));
  sinkRows = await world.rows();
});

afterAll(async () => await world[Symbol.asyncDispose]());

describe('generated statements', () => {
  // Proves promise 20.8
  it.each(fileTargets)(
    'make and load tables of %s in DuckDB that equal the sink, however often they run',
    async (name) => {
      await using database = await openDuckdb();
      const text = textOf(catalogueOf(name), 'duckdb');
      await database.run(text);
      if (isLong) await database.run(text);
      expect(await rowsOf(database, name, (table) => `connector_sync.${table}`)).toEqual(sinkRows);
    },
  );

  it('of earlier columns load later files into DuckDB, and of later columns earlier ones', async () => {
    const catalogue = only(catalogueOf('lake'), 'newsletter__lists');
    const [lists] = catalogue.tables;
    if (lists === undefined) throw new Error('no lists');
    const columns = [
      ...lists.columns.slice(0, -1),
      { name: 'added', field: 'added', type: 'object' as const, description: null },
    ];
    const changed = { ...catalogue, tables: [{ ...lists, columns }] };
    await using database = await openDuckdb();
    await database.run(textOf(changed, 'duckdb'));
    const rows = await database.run('select * from connector_sync.newsletter__lists');
    expect(rows).toHaveLength(sinkRows.get('newsletter__lists')?.length ?? 0);
    expect(rows[0]).toMatchObject({ added: null, id: expect.any(String) as string });
    expect(rows[0]).not.toHaveProperty(lists.columns.at(-1)?.name ?? '');
  });

  // Proves promise 20.8
  it('make and load tables in PostgreSQL that equal the sink, however often they run', async () => {
    await using database = await openPostgres();
    const [early, late] = [textOf(first, 'postgres'), textOf(catalogueOf('sheets'), 'postgres')];
    // The last one is older than what already exists.
    for (const text of [early, late, late, early]) await psql(text);
    expect(await rowsOf(database, 'sheets', (table) => `connector_sync.${table}`)).toEqual(sinkRows);
    const deleted = await database.run(
      'select 1 from connector_sync.newsletter__list_members_g1 where _deleted',
    );
    expect(deleted.length).toBeGreaterThan(0);
  });
});

describe('generated dbt models', () => {
  // Proves promise 20.8
  it.each(fileTargets)(
    'give the rows of the sink in DuckDB, from the files of %s, and their tests pass',
    async (name) => {
      await using database = await openDuckdb();
      const project = projectOf(name, {
        source: ({ config }) => config.meta?.external_location ?? 'no location',
        ref: (model) => model,
      });
      await makeModels(database, project, 'view');
      expect(await rowsOf(database, name, (table) => `stg_${table}`)).toEqual(sinkRows);
      expect(await failing(database, project)).toEqual([]);
    },
  );

  // Proves promise 20.8
  it('give the rows of the sink in PostgreSQL, from a separate target, and their tests pass', async () => {
    await using database = await openPostgres();
    const project = projectOf('mart', inPostgres);
    await database.run('drop schema if exists models cascade; create schema models');
    await makeModels(database, project, 'view');
    expect(await rowsOf(database, 'mart', (table) => `models.stg_${table}`)).toEqual(sinkRows);
    expect(await failing(database, project)).toEqual([]);
  });

  it.runIf(isLong)(
    'give the rows of the sink over a DuckDB file that is kept, and their tests pass',
    async () => {
      await using database = await openDuckdb();
      await database.run(`attach '${join(world.cli.folder, 'desk.duckdb')}' as desk (read_only)`);
      const project = projectOf('desk', {
        source: ({ identifier }, schema) => `${schema}.${identifier}`,
        ref: (model) => model,
      });
      await makeModels(database, project, 'view');
      expect(await rowsOf(database, 'desk', (table) => `stg_${table}`)).toEqual(sinkRows);
      expect(await failing(database, project)).toEqual([]);
    },
  );

  // Proves promise 20.8
  it('come with tests that fail where a row is doubled, orphaned or without its key', async () => {
    await using database = await openDuckdb();
    const project = projectOf('lake', {
      source: ({ config }) => config.meta?.external_location ?? 'no location',
      ref: (model) => model,
    });
    await makeModels(database, project, 'table');
    for (const model of project.models.keys()) await database.run(`insert into ${model} from ${model}`);
    expect(await failing(database, project)).toEqual(
      project.tests.map(({ name }) => name).filter((name) => name.startsWith('unique')),
    );
    for (const parent of ['lists', 'interest_categories', 'email_activity']) {
      await database.run(`delete from stg_newsletter__${parent}`);
    }
    const orphaned = (await failing(database, project)).filter((name) => !name.startsWith('unique'));
    expect(orphaned).toEqual(
      expect.arrayContaining([
        'orphans_newsletter__interests',
        'orphans_newsletter__email_activity_events',
        'relationships stg_newsletter__list_members.list_id',
      ]),
    );
    await database.run('update stg_newsletter__list_members set id = null');
    expect(await failing(database, project)).toContain('not_null stg_newsletter__list_members.id');
  });
});

describe('the guides', () => {
  const blocksOf = (guide: string, language: string): readonly string[] =>
    blocksIn(`docs/guides/${guide}.md`, language);

  it('ask DuckDB for the current rows of one entity', async () => {
    const [sql = ''] = blocksOf('duckdb', 'sql');
    await using database = await openDuckdb();
    const rows = await database.run(sql.replace("'lake/", `'${join(world.cli.folder, 'lake')}/`));
    expect(rows).toHaveLength(sinkRows.get('newsletter__list_members')?.length ?? 0);
  });

  it('ask a target in PostgreSQL how complete it is', async () => {
    await using database = await openPostgres();
    const [sql = ''] = blocksOf('postgres-target', 'sql');
    const rows = await database.run(sql.replaceAll('raw.', 'mart_of_models.'));
    expect(rows.length).toBeGreaterThan(5);
    expect(rows.every(({ number, as_of: asOf }) => number === '2' && asOf !== null)).toBe(true);
    await expect(
      database.run('select * from mart_of_models.newsletter__list_members_current'),
    ).resolves.toHaveLength(sinkRows.get('newsletter__list_members')?.length ?? 0);
  });

  it('wait for a publication in Python', () => {
    const code =
      blocksOf('airflow-and-dagster', 'python').find((block) => block.includes('def newer_than')) ?? '';
    const lake = join(world.cli.folder, 'lake');
    const asked = `${code}\nprint(newer_than(1, ${JSON.stringify(lake)}), newer_than(2, ${JSON.stringify(lake)}))`;
    expect(execFileSync('python3', ['-c', asked], { encoding: 'utf8' })).toBe('2 None\n');
  });
});

describe('names', () => {
  it('are quoted where a dialect would take them for words: those that DuckDB and PostgreSQL name are all known', async () => {
    await using duckdb = await openDuckdb();
    await using postgres = await openPostgres();
    const found = [
      ...(await duckdb.run(
        "select keyword_name as word from duckdb_keywords() where keyword_category = 'reserved'",
      )),
      ...(await postgres.run("select word from pg_get_keywords() where catcode in ('R', 'T')")),
    ].map(({ word }) => String(word));
    expect(found.length).toBeGreaterThan(100);
    expect(found.filter(isPlainName)).toEqual([]);
  });

  it('of any kind come back from DuckDB and PostgreSQL as they went in', async () => {
    const names = [
      'order',
      'language',
      'Mixed Case',
      'a"b',
      "it's",
      'a`b',
      '1st',
      'naïve',
      '{{ x }}',
      'back\\slash',
    ];
    await using duckdb = await openDuckdb();
    await using postgres = await openPostgres();
    for (const [database, dialect] of [
      [duckdb, 'duckdb'],
      [postgres, 'postgres'],
    ] as const) {
      const columns = names.map((name) => `${quoteText(name, dialect)} as ${quoteName(name, dialect)}`);
      const [row] = await database.run(`select ${columns.join(', ')}`);
      expect(row).toEqual(Object.fromEntries(names.map((name) => [name, name])));
    }
  });
});

describe('after a snapshot', () => {
  // Proves promise 20.8
  it('what was generated before begins with it in DuckDB', async () => {
    const before = textOf(only(catalogueOf('lake'), 'newsletter__list_members'), 'duckdb');
    await world.publish('lake', true);
    const after = await world.catalogue('lake');
    const files = after.tables.flatMap(({ files }) => files ?? []);
    expect(files.length).toBeGreaterThan(4);
    expect(files.filter(({ path }) => !path.includes('/snapshot/'))).toEqual([]);
    // Readers that begin there need no earlier file.
    rmSync(join(world.cli.folder, 'lake/newsletter/list_members/g1/changes'), { recursive: true });
    await using database = await openDuckdb();
    await database.run(before);
    const rows = await database.run('select * from connector_sync.newsletter__list_members');
    expect(rows).toHaveLength(sinkRows.get('newsletter__list_members')?.length ?? 0);
  });
});

describe.runIf(isLong)('after a new generation', () => {
  // Proves promise 20.8
  it('what was generated before loads its rows alone into DuckDB, and models that are generated again read them', async () => {
    const before = textOf(catalogueOf('lake'), 'duckdb');
    await world.cli.json('reset', 'newsletter/list_members', '--data', '--yes');
    world.cli.moveTo(5);
    await world.cli.json('sync', ...schemaConnectors, '--full');
    await world.publish('lake');
    catalogues.set('lake', await world.catalogue('lake'));
    const members = catalogueOf('lake').tables.find(({ name }) => name === 'newsletter__list_members');
    expect(members?.generation).toBeGreaterThan(1);
    await using database = await openDuckdb();
    await database.run(before);
    expect(await rowsOf(database, 'lake', (table) => `connector_sync.${table}`)).toEqual(await world.rows());
    const project = projectOf('lake', {
      source: ({ config }) => config.meta?.external_location ?? 'no location',
      ref: (model) => model,
    });
    await makeModels(database, project, 'view');
    expect(await rowsOf(database, 'lake', (table) => `stg_${table}`)).toEqual(await world.rows());
  });
});

const inPostgres: Relations = {
  source: ({ identifier }, schema) => `${schema}.${identifier}`,
  ref: (model) => `models.${model}`,
  target: 'postgres',
};

function only(catalogue: Catalogue, table: string): Catalogue {
  return { ...catalogue, tables: catalogue.tables.filter(({ name }) => name === table) };
}

function textOf(catalogue: Catalogue, dialect: string): string {
  return generate(catalogue, dialect)
    .map(({ body }) => body)
    .join('\n');
}

function projectOf(target: string, relations: Relations): DbtProject {
  return readDbtProject(generate(catalogueOf(target), 'dbt'), relations);
}

function catalogueOf(target: string): Catalogue {
  const catalogue = catalogues.get(target);
  if (catalogue === undefined) throw new Error(`no catalogue of ${target}`);
  return catalogue;
}

async function makeModels(database: Database, { models }: DbtProject, kind: 'view' | 'table'): Promise<void> {
  for (const [name, sql] of models) {
    const at = sql.includes('mart_of_models') ? 'models.' : '';
    await database.run(`create ${kind} ${at}${name} as ${sql}`);
  }
}

/** The names of the tests that find something. */
async function failing(database: Database, { tests }: DbtProject): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { name, sql } of tests) {
    if ((await database.run(sql)).length > 0) found.push(name);
  }
  return found;
}

async function rowsOf(
  database: Database,
  target: string,
  relation: (table: string) => string,
): Promise<ReadonlyMap<string, RowTexts>> {
  const found = new Map<string, RowTexts>();
  for (const { name, columns } of catalogueOf(target).tables) {
    const rows = await database.run(`select * from ${relation(name)}`);
    found.set(name, rows.map((row) => rowText(row, { columns })).toSorted());
  }
  return found;
}
