import {
  makeSink,
  schemaFormat,
  type PostgresPlace,
  toSinkError,
} from '../../../src/sinks/postgres/postgres-schema.ts';
import { openServer } from '../../../src/sql/postgres/server.ts';
import { madeUpMigrations } from '../../support/sinks/made-up-versions.ts';

/** Opens a schema as a release with two more versions would; each step waits until its lock (41, 42, ...) is free. */
const place = JSON.parse(process.argv[2] ?? '') as PostgresPlace;
const migrations = madeUpMigrations((step) => `SELECT pg_advisory_xact_lock_shared(${41 + step})`);
await using server = openServer({ ...place, explain: toSinkError, durability: 'full' });
await makeSink(server, place.schema, { ...schemaFormat, migrations });
