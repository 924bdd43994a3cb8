import { execFileSync } from 'node:child_process';
import { rmSync, appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, afterAll, beforeAll } from 'vitest';
import { parse } from 'yaml';
import { type Catalogue, catalogueOf, generate, readPublished } from '../../src/publish/published-schema.ts';
import { quoted } from '../../src/sql/database.ts';
import { blocksOf as blocksIn } from '../support/document-commands.ts';
import { isLong } from '../support/trials.ts';
import * as z from 'zod';
import pg from 'pg';
import { DuckDBInstance, type DuckDBConnection } from '@duckdb/node-api';
import { systemClock } from '../../src/core/clock.ts';
import type { EntityTable } from '../../src/core/records.ts';
import { openTarget } from '../../src/publish/open-target.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import type { PublishSettings } from '../../src/settings/settings.ts';
import { openExistingRecords } from '../../src/sinks/registry.ts';
import { openCliWorld } from '../support/cli-world.ts';
import { findPostgres } from '../support/ensure-servers.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { publishNow } from '../support/publish/publish-now.ts';

const noSignal = new AbortController().signal;

/** Current rows of a table, each as one text: columns by name, JSON parsed, instants as ISO texts. */
type RowTexts = readonly string[];

type SchemaWorld = Awaited<ReturnType<typeof openSchemaWorld>>;

/** In `npm test` some of one connector's: with a key and a join of one column and of several, and with events. */
const entities = ['lists', 'list_members', 'interest_categories', 'interests', 'campaigns', 'email_activity'];
const schemaConnectors = isLong ? ['newsletter', 'wiki'] : ['newsletter'];

const targets = (postgresUrl: string): string =>
  Object.entries({
    lake: 'type: files, directory: ./lake',
    lines: 'type: files, directory: ./lines, format: jsonl',
    sheets: 'type: files, directory: ./sheets, format: csv',
    mart: `type: postgres, url: "${postgresUrl}", schema: mart_of_models`,
    desk: 'type: duckdb, path: ./desk.duckdb',
  })
    .map(
      ([name, place]) =>
        `  ${name}: { ${place}, times: text, when: by-hand, connectors: [${schemaConnectors.join(', ')}] }\n`,
    )
    .join('');

/** Two sample accounts in a SQLite sink, published into several targets after each of their revisions. */
async function openSchemaWorld() {
  const include = isLong ? '' : `    include: [${entities.join(', ')}]\n`;
  const cli = await openCliWorld({ settings: `    freshWithin: 2h\n${include}` });
  const { url } = await sharedPostgres();
  appendFileSync(cli.config, `publish:\n${targets(url)}`);
  const settings = readSettings({ file: cli.config, env: cli.env });
  const target = (name: string): PublishSettings => {
    const found = settings.publish.get(name);
    if (found === undefined) throw new Error(`no target ${name}`);
    return found;
  };
  return {
    cli,
    target,
    publish: async (name: string, isSnapshotAsked: boolean = false) => {
      await using opened = await openTarget(target(name), { clock: systemClock, signal: noSignal });
      const end = await publishNow(opened, target(name), { isSnapshotAsked });
      if (end.kind !== 'published') throw new Error(`${name}: ${end.kind}`);
    },
    catalogue: async (name: string) => {
      await using opened = await openTarget(target(name), { clock: systemClock, signal: noSignal });
      return catalogueOf(target(name).connectors, target(name), await readPublished(opened));
    },
    /** By table name: what the sink has. */
    rows: async () => {
      const found = new Map<string, RowTexts>();
      for (const connector of settings.connectors.values()) {
        await using reader = await openExistingRecords(connector.sink);
        for (const { table, explodedTable } of connector.definition.entities.values()) {
          for (const { entity } of explodedTable === null ? [table] : [table, explodedTable]) {
            const stored = (await reader?.table(connector.name, entity)) ?? null;
            if (reader === null || stored === null) continue;
            const texts: string[] = [];
            for await (const records of reader.changes(connector.name, stored, 0)) {
              for (const { isDeleted, values, extra, seq } of records) {
                if (isDeleted) continue;
                const row = Object.fromEntries(
                  stored.columns.map(({ name }, index) => [name, values[index] ?? null]),
                );
                texts.push(rowText({ ...row, _extra: extra, _seq: seq }, stored));
              }
            }
            found.set(`${connector.name}__${entity}`, texts.toSorted());
          }
        }
      }
      return found;
    },
    [Symbol.asyncDispose]: async () => await cli[Symbol.asyncDispose](),
  };
}

/** Runs the statements of a text one after the other in a DuckDB of its own. */
async function openDuckdb(): Promise<Database> {
  const connection: DuckDBConnection = await (
    await DuckDBInstance.create(':memory:', { threads: '2' })
  ).connect();
  const run: Database['run'] = async (sql) => {
    const statements = await connection.extractStatements(sql);
    let rows: Awaited<ReturnType<Database['run']>> = [];
    for (let index = 0; index < statements.count; index += 1) {
      const prepared = await statements.prepare(index);
      // `as`: only instants are objects, and have a text.
      rows = (await prepared.runAndReadAll()).getRowObjects() as typeof rows;
    }
    return rows;
  };
  return { run, [Symbol.asyncDispose]: () => Promise.resolve(connection.closeSync()) };
}

type Scalar = string | number | bigint | boolean | null;

interface Database extends AsyncDisposable {
  /** Rows of the last statement: scalars, and texts for JSON. */
  run(sql: string): Promise<readonly Readonly<Record<string, Scalar>>[]>;
}

async function openPostgres(): Promise<Database> {
  const { url } = await sharedPostgres();
  const client = new pg.Client({
    connectionString: url,
    types: { getTypeParser: () => (text: string) => text },
  });
  await client.connect();
  return {
    run: async (sql) => (await client.query<Record<string, string | null>>(sql)).rows,
    [Symbol.asyncDispose]: async () => await client.end(),
  };
}

/** As a person runs a file: psql, which ends at the first mistake. */
async function psql(sql: string): Promise<void> {
  const { url } = await sharedPostgres();
  const args = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', url];
  // Debian puts it elsewhere than the server.
  const beside = join(findPostgres() ?? '', 'psql');
  execFileSync(existsSync(beside) ? beside : 'psql', args, { input: sql, stdio: ['pipe', 'ignore', 'pipe'] });
}

/** A row as any database gives it. Of the program's own columns `_extra` and `_seq` count. */
function rowText(row: Readonly<Record<string, Scalar>>, { columns }: Pick<EntityTable, 'columns'>): string {
  const cells = columns.map(({ name, type }) => [name, cell(row[name], type)]);
  return JSON.stringify([...cells, cell(row['_extra'], 'object'), String(row['_seq'])]);
}

function cell(value: Scalar | undefined, type: string): unknown {
  if (value === null || value === undefined) return null;
  const text = String(value);
  if (type === 'object' || type === 'array' || type === 'any') return JSON.parse(text) as unknown;
  if (type === 'boolean') return ['t', 'true', '1'].includes(text);
  return type === 'number' ? Number(text) : text;
}

/*
 * What dbt takes of the keys that are generated, made after the published JSON Schemas for files of sources:
 * those of dbt Core and of Fusion in dbt-labs/dbt-jsonschema at a9176ae (2026-06-15), where both agree. Nothing else
 * passes.
 */

const { strictObject } = z;
const name = z.string().regex(/^[a-z][a-z0-9_]*$/);
const description = z.string().min(1);
const column = strictObject({
  name: z.string().min(1),
  quote: z.boolean().optional(),
  description: description.optional(),
  data_tests: z.array(z.literal('not_null')).min(1).optional(),
});

const period = strictObject({ count: z.int().min(1), period: z.enum(['minute', 'hour', 'day']) });

const dbtSources = strictObject({
  version: z.literal(2),
  sources: z.array(
    strictObject({
      name,
      description,
      database: z.string().optional(),
      schema: z.string(),
      loader: z.string(),
      config: strictObject({ loaded_at_field: z.string() }),
      tables: z.array(
        strictObject({
          name,
          identifier: z.string(),
          description,
          config: strictObject({
            freshness: strictObject({ warn_after: period }).nullable(),
            // No braces: dbt and dbt-duckdb would fill them in.
            meta: strictObject({ external_location: z.string().regex(/^[^{}]+$/) }).optional(),
          }),
          columns: z.array(column),
        }),
      ),
    }),
  ),
});

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
      for (const text of [early, late, late]) await psql(text);
      expect(await rowsOf(database, 'sheets', (table) => `connector_sync.${table}`)).toEqual(sinkRows);
    });
  });

  describe('generated text', () => {
    it('loads nothing where there is no target', () => {
      const alone = generate({ ...catalogueOf('lake'), place: null, publication: null }, 'postgres');
      expect(alone.map(({ path }) => path)).toEqual(['postgres/tables.sql']);
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
      expect(table?.config.freshness).toEqual({ warn_after: { count: 120, period: 'minute' } });
      expect(table?.description).toBe('What people ordered: { { hostile } }');
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
      const sql = blocksOf('warehouses', 'sql').find((block) => block.includes('_latest')) ?? '';
      const rows = await database.run(sql.replaceAll('raw.', 'mart_of_models.'));
      expect(rows.length).toBeGreaterThan(5);
      expect(rows.every(({ publication, as_of: asOf }) => publication === '2' && asOf !== null)).toBe(true);
      await expect(
        database.run('select * from mart_of_models.newsletter__list_members where not _deleted'),
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
    it('what is generated begins with it in DuckDB', async () => {
      await world.publish('lake', true);
      const after = await world.catalogue('lake');
      const files = after.tables.flatMap(({ files }) => files ?? []);
      expect(files.length).toBeGreaterThan(4);
      expect(files.filter(({ path }) => !path.includes('/snapshot/'))).toEqual([]);
      // Readers that begin there need no earlier file.
      rmSync(join(world.cli.folder, 'lake/newsletter/list_members/g1/changes'), { recursive: true });
      await using database = await openDuckdb();
      await database.run(textOf(only(after, 'newsletter__list_members'), 'duckdb'));
      const rows = await database.run('select * from connector_sync.newsletter__list_members');
      expect(rows).toHaveLength(sinkRows.get('newsletter__list_members')?.length ?? 0);
    });
  });

  describe.runIf(isLong)('after a new generation', () => {
    // Proves promise 20.8
    it('what is generated loads its rows alone into DuckDB', async () => {
      await world.cli.json('reset', 'newsletter/list_members', '--data', '--yes');
      world.cli.moveTo(5);
      await world.cli.json('sync', ...schemaConnectors, '--full');
      await world.publish('lake');
      catalogues.set('lake', await world.catalogue('lake'));
      const members = catalogueOf('lake').tables.find(({ name }) => name === 'newsletter__list_members');
      expect(members?.generation).toBeGreaterThan(1);
      await using database = await openDuckdb();
      await database.run(textOf(catalogueOf('lake'), 'duckdb'));
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

  /** The sources of all connectors, as one. */
  function sourceOf(catalogue: Catalogue) {
    const sources = generate(catalogue, 'dbt').flatMap(({ body }) => dbtSources.parse(parse(body)).sources);
    const [source] = sources;
    if (source === undefined) throw new Error('no source');
    return { ...source, tables: sources.flatMap(({ tables }) => tables) };
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
