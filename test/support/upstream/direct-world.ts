import path from 'node:path';
import type { EntityTable } from '../../../src/core/records.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { expectedRows, type Row, sqliteRows } from '../expected-rows.ts';
import { openProgram } from '../program.ts';
import type { UpstreamWorld } from './upstream-world.ts';

export type DirectWorld = ReturnType<typeof openDirectWorld>;

interface DirectWorldOptions {
  /** By the title of the shape; the first by default. */
  readonly signIn?: string;
  /** More of the connector's settings, as YAML below it. */
  readonly settings?: string;
  /** More of the config. */
  readonly more?: string;
}

/**
 * A config that reads a made-up service directly into SQLite, with the credentials in the environment, and the program.
 * The world's connector type needs a name of its own (`as`). The connector is called `mine`.
 */
export function openDirectWorld(
  world: UpstreamWorld,
  { signIn, settings = '', more = '' }: DirectWorldOptions = {},
) {
  const [first = ''] = world.credentials.keys();
  const given = Object.entries(world.credentials.get(signIn ?? first) ?? {});
  const fields = given.map(([name]) => `${name}: "\${MY_${name.toUpperCase()}}"`);
  const program = openProgram(
    `definitions: [${JSON.stringify(world.definitionsFolder)}]
allowUpstreamHosts: ${JSON.stringify(world.allowHosts)}
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine:
    definition: ${world.definition.name}
    credentials: { ${fields.join(', ')} }
    sink: main
${settings}${more}`,
    { env: Object.fromEntries(given.map(([name, value]) => [`MY_${name.toUpperCase()}`, textOf(value)])) },
  );
  const database = path.join(program.folder, 'main.db');
  return { ...program, database, stored: (table: EntityTable) => sqliteRows(database, 'mine', table) };
}

/** What a sync of everything must store: table name -> key -> row. */
export function worldRows(world: UpstreamWorld): ReadonlyMap<string, ReadonlyMap<string, Row>> {
  const tables = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of world.definition.entities.values()) {
    const { rows, exploded } = expectedRows(entity, world.truth(entity.name));
    tables.set(entity.table.entity, rows);
    if (entity.explodedTable !== null) tables.set(entity.explodedTable.entity, exploded);
  }
  return tables;
}
