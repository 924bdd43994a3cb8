import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, afterAll, beforeAll } from 'vitest';
import { parse } from 'yaml';
import { ownColumns as publishedColumns } from '../../src/publish/row-files.ts';
import { ownColumns, type Catalogue } from '../../src/publish/schema/catalogue.ts';
import { generate } from '../../src/publish/schema/generate.ts';
import { quoted } from '../../src/sql/database.ts';
import { blocksOf as blocksIn } from '../support/document-commands.ts';
import { dbtSources } from '../support/publish/dbt-shapes.ts';
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
} from '../support/publish/schema-world.ts';
import { isLong } from '../support/trials.ts';

describe('generated sql', () => {
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

  describe('generated text', () => {
    it('loads nothing where there is no target', () => {
      const alone = generate({ ...catalogueOf('lake'), place: null, publication: null }, 'postgres');
      expect(alone.map(({ path }) => path)).toEqual(['postgres/tables.sql']);
    });

    it('has the own columns that files have', () => {
      expect(ownColumns.map(({ name }) => name)).toEqual(publishedColumns);
    });

    it('for dbt is a file of sources that dbt takes, whatever descriptions and names hold', () => {
      const catalogue = only(catalogueOf('lake'), 'newsletter__lists');
      const column = (name: string, description: string | null = null) => {
        return { name, field: name, type: 'integer' as const, description };
      };
      const tables = catalogue.tables.map((table) => ({
        ...table,
        title: 'Shop {{ hostile }} {% title %}',
        description: 'What people\nordered: {{ hostile }}',
        deletes: 'Records are never deleted.',
        key: ['order', 'id'],
        columns: [
          column('order'),
          column('id'),
          column('total', 'In euros; {{ hostile }} {# words #}'),
          column("it's"),
        ],
        freshWithinMs: 7_200_000,
      }));
      const [table] = sourceOf({ ...catalogue, tables }).tables;
      expect(table?.config.freshness).toEqual({ warn_after: { count: 2, period: 'hour' } });
      expect(table?.description).toBe('What people ordered: { { hostile } }. Records are never deleted.');
      const total = table?.columns.find(({ name }) => name === 'total');
      expect(total?.description).toBe('In euros; { { hostile } } { # words # }');
      const quotedNames = table?.columns.flatMap(({ name, quote }) => (quote === true ? [name] : []));
      expect(quotedNames).toEqual(['order', 'id', "it's"]);
    });
  });

  describe('generated dbt sources', () => {
    // Proves promise 20.8
    it.each(fileTargets)('name relations that give all rows of %s in DuckDB', async (name) => {
      await using database = await openDuckdb();
      const relation = new Map(
        sourceOf(catalogueOf(name)).tables.map((table) => [
          table.identifier,
          table.config.meta?.external_location ?? '',
        ]),
      );
      const current = (table: string): string =>
        `(select * from ${relation.get(table) ?? ''} qualify row_number() over (partition by ${keyOf(name, table)} order by _seq desc) = 1) where not _deleted`;
      expect(await rowsOf(database, name, current)).toEqual(sinkRows);
    });

    // Proves promise 20.8
    it('name the tables of a separate target in PostgreSQL', async () => {
      await using database = await openPostgres();
      const { schema, tables } = sourceOf(catalogueOf('mart'));
      for (const { identifier } of tables) {
        await expect(database.run(`select 1 from ${schema}.${identifier} limit 1`)).resolves.toBeDefined();
      }
      expect(tables).toHaveLength(catalogueOf('mart').tables.length);
    });
  });

  describe('the guides', () => {
    const blocksOf = (guide: string, language: string): readonly string[] =>
      blocksIn(`docs/guides/${guide}.md`, language);

    it('ask DuckDB for the current rows of one entity', async () => {
      const sql = blocksOf('warehouses', 'sql').find((block) => block.includes('read_parquet')) ?? '';
      await using database = await openDuckdb();
      const rows = await database.run(sql.replace("'lake/", `'${join(world.cli.folder, 'lake')}/`));
      expect(rows).toHaveLength(sinkRows.get('newsletter__list_members')?.length ?? 0);
    });

    it('ask a target in PostgreSQL how complete it is', async () => {
      await using database = await openPostgres();
      const sql = blocksOf('warehouses', 'sql').find((block) => block.includes('_publications')) ?? '';
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
    it('what was generated before loads its rows alone into DuckDB', async () => {
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
      expect(await rowsOf(database, 'lake', (table) => `connector_sync.${table}`)).toEqual(
        await world.rows(),
      );
    });
  });

  function only(catalogue: Catalogue, table: string): Catalogue {
    return { ...catalogue, tables: catalogue.tables.filter(({ name }) => name === table) };
  }

  function textOf(catalogue: Catalogue, dialect: string): string {
    return generate(catalogue, dialect)
      .map(({ body }) => body)
      .join('\n');
  }

  function sourceOf(catalogue: Catalogue) {
    const [file] = generate(catalogue, 'dbt');
    const [source] = dbtSources.parse(parse(file?.body ?? '')).sources;
    if (source === undefined) throw new Error('no source');
    return source;
  }

  function keyOf(target: string, table: string): string {
    const found = catalogueOf(target).tables.find(({ name }) => name === table);
    return (found?.key ?? []).map(quoted).join(', ');
  }

  function catalogueOf(target: string): Catalogue {
    const catalogue = catalogues.get(target);
    if (catalogue === undefined) throw new Error(`no catalogue of ${target}`);
    return catalogue;
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
});
