import { explained } from '../explained.ts';
import { quoted } from '../quoted.ts';
import type { Server } from './server.ts';

interface Vacuumed {
  readonly schema: string;
  readonly tables: readonly string[];
  readonly explain: (error: unknown) => unknown;
}

/**
 * Rewrites tables without their removed rows, and takes their samples for the planner again. Each waits for its
 * readers, and later readers wait for it. A table that was dropped has given its space back.
 */
export async function vacuumTables(
  { connect }: Pick<Server, 'connect'>,
  { schema, tables, explain }: Vacuumed,
): Promise<void> {
  await explained(explain, async () => {
    const client = await connect();
    try {
      await client.query(`SET lock_timeout = '60s'`);
      const { rows } = await client.query<{ tablename: string }>(
        'SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = ANY($2)',
        [schema, tables],
      );
      for (const { tablename: table } of rows) {
        await client.query(`VACUUM (FULL, ANALYZE) ${quoted(schema)}.${quoted(table)}`);
      }
    } finally {
      await client.end();
    }
  });
}
