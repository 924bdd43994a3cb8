import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { EntityTable } from '../../../src/core/records.ts';
import { textOf } from '../../../src/sample/sample-values.ts';
import { expectedRows, type Row } from '../expected-rows.ts';
import { callCli, jsonLines, type CliResult } from '../run-cli.ts';
import { sqliteRows } from '../stored-rows.ts';
import type { FakeServer } from './fake-server.ts';
import type { UpstreamWorld } from './upstream-world.ts';

/** A config that reads a made-up service directly into SQLite, and the program. */
export interface DirectWorld extends AsyncDisposable {
  readonly folder: string;
  readonly config: string;
  readonly database: string;
  /** The credentials, as variables. */
  readonly env: Record<string, string>;
  cli(...args: readonly string[]): Promise<CliResult>;
  /** The lines of standard output as JSON, of a command that must end with 0. */
  json(...args: readonly string[]): Promise<readonly Record<string, unknown>[]>;
  stored(table: EntityTable): ReadonlyMap<string, Row>;
}

export interface DirectWorldOptions {
  /** By the title of the shape; the first by default. */
  readonly signIn?: string;
  /** More of the connector's settings, as YAML below it. */
  readonly settings?: string;
  /** More of the config. */
  readonly more?: string;
}

/** The world's connector type needs a name of its own (`as`). The connector is called `mine`. */
export function openDirectWorld(
  world: UpstreamWorld<FakeServer>,
  { signIn, settings = '', more = '' }: DirectWorldOptions = {},
): DirectWorld {
  const folder = mkdtempSync(path.join(tmpdir(), 'direct-'));
  const config = path.join(folder, 'sync.yaml');
  const database = path.join(folder, 'main.db');
  const [first = ''] = world.credentials.keys();
  const given = Object.entries(world.credentials.get(signIn ?? first) ?? {});
  const fields = given.map(([name]) => `${name}: "\${MY_${name.toUpperCase()}}"`);
  writeFileSync(
    config,
    `definitions: [${JSON.stringify(world.definitionsFolder)}]
allowUpstreamHosts: ${JSON.stringify(world.allowHosts)}
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  mine:
    definition: ${world.definition.name}
    credentials: { ${fields.join(', ')} }
    sink: main
${settings}${more}`,
  );
  const env: Record<string, string> = Object.fromEntries(
    given.map(([name, value]) => [`MY_${name.toUpperCase()}`, textOf(value)]),
  );
  const cli = (...args: readonly string[]): Promise<CliResult> =>
    callCli([...args, '--config', config], { cwd: folder, env });
  return {
    folder,
    config,
    database,
    env,
    cli,
    json: async (...args) => {
      const result = await cli(...args, '--json');
      if (result.code !== 0) throw new Error(`ended with ${result.code}: ${result.stdout}${result.stderr}`);
      return jsonLines(result);
    },
    stored: (table) => sqliteRows(database, 'mine', table),
    [Symbol.asyncDispose]: () => {
      rmSync(folder, { recursive: true, force: true });
      return Promise.resolve();
    },
  };
}

/** What a sync of everything must store: table name -> key -> row. */
export function worldRows(world: UpstreamWorld<FakeServer>): ReadonlyMap<string, ReadonlyMap<string, Row>> {
  const tables = new Map<string, ReadonlyMap<string, Row>>();
  for (const entity of world.definition.entities.values()) {
    const { rows, exploded } = expectedRows(entity, world.truth(entity.name));
    tables.set(entity.table.entity, rows);
    if (entity.explodedTable !== null) tables.set(entity.explodedTable.entity, exploded);
  }
  return tables;
}
