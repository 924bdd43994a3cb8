import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { quoted } from '../../../src/sql/quoted.ts';
import { Bench } from '../../contracts/sink/fixture.ts';
import { sharedPostgres } from '../postgres.ts';
import { unpackFolder, unpackJson, unpackText } from './packed-files.ts';
import { storedKind, type StoredSink } from './stored-kinds.ts';
import type { GoneOn, SavedWork } from './stored-sink.ts';

/** What the version that made the sink reported of it, and what came of its own next runs. */
export interface Expected {
  readonly saved: SavedWork;
  readonly before: unknown;
  readonly after: GoneOn;
}

/** A sink as its version has left it, in a bench of its own; and what that version makes of it. */
export async function openStored({
  type,
  name,
}: Pick<StoredSink, 'type' | 'name'>): Promise<{ readonly bench: Bench; readonly expected: Expected }> {
  const bench = new Bench(await storedKind(type));
  const options = bench.kind.options(bench.folder);
  mkdirSync(join(bench.folder, 'files'), { mode: 0o700 });
  if (options.type === 'postgres') await loadSchema(name, options.schema);
  else unpackFolder(`${name}.json.br`, join(bench.folder, 'sink'));
  return { bench, expected: unpackJson(`${name}-expected.json.br`) as Expected };
}

/** As if this server had always held it: nothing was restored. */
async function loadSchema(name: string, schema: string): Promise<void> {
  const { url } = await sharedPostgres();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('SET standard_conforming_strings = on; SET check_function_bodies = off');
    await client.query(unpackText(`${name}.sql.br`).replaceAll('stored_sink', schema));
    await client.query(
      `UPDATE ${quoted(schema)}._sync_meta SET system_identifier = (SELECT system_identifier::text FROM pg_control_system())`,
    );
  } finally {
    await client.end();
  }
}
