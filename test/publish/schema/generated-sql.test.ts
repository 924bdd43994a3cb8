import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Catalogue } from '../../../src/publish/schema/catalogue.ts';
import { generate } from '../../../src/publish/schema/generate.ts';
import {
  openDuckdb,
  openPostgres,
  openSchemaWorld,
  psql,
  rowText,
  type Database,
  type RowTexts,
  type SchemaWorld,
} from '../../support/publish/schema-world.ts';

let world: SchemaWorld;
const catalogues = new Map<string, Catalogue>();

beforeAll(async () => {
  world = await openSchemaWorld();
  for (const revision of [0, 3]) {
    world.cli.moveTo(revision);
    await world.cli.json('sync', '--full');
    for (const name of ['lake', 'sheets']) await world.publish(name);
  }
  for (const name of ['lake', 'sheets']) catalogues.set(name, await world.catalogue(name));
});

afterAll(async () => await world[Symbol.asyncDispose]());

describe('generated statements', () => {
  it('make and load tables in DuckDB that equal the sink, however often they run', async () => {
    for (const name of ['lake', 'sheets']) {
      await using database = await openDuckdb();
      const text = textOf(name, 'duckdb');
      await database.run(text);
      await database.run(text);
      expect(await rowsOf(database, name, 'connector_sync.')).toEqual(await world.rows());
    }
  });

  it('make and load tables in PostgreSQL that equal the sink, however often they run', async () => {
    await using database = await openPostgres();
    const text = textOf('sheets', 'postgres');
    await psql(text);
    await psql(text);
    expect(await rowsOf(database, 'sheets', 'connector_sync.')).toEqual(await world.rows());
  });
});

function textOf(target: string, dialect: string): string {
  return generate(catalogueOf(target), dialect)
    .map(({ body }) => body)
    .join('\n');
}

function catalogueOf(target: string): Catalogue {
  const catalogue = catalogues.get(target);
  if (catalogue === undefined) throw new Error(`no catalogue of ${target}`);
  return catalogue;
}

async function rowsOf(
  database: Database,
  target: string,
  at: string,
): Promise<ReadonlyMap<string, RowTexts>> {
  const found = new Map<string, RowTexts>();
  for (const { name, columns } of catalogueOf(target).tables) {
    const rows = await database.run(`select * from ${at}${name}`);
    found.set(name, rows.map((row) => rowText(row, { columns })).toSorted());
  }
  return found;
}
