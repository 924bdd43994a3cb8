import { workerData } from 'node:worker_threads';
import pg from 'pg';

/* A thread that answers statements for one that waits: see all-sample-sinks.ts. */

const { url, port, answered } = workerData;
const client = new pg.Client({ connectionString: url });
client.on('error', () => undefined);
await client.connect();

port.on('message', async ({ schema, sql }) => {
  const answer = await client
    .query(`SET search_path = "${schema}"; SET TimeZone = 'UTC'; SET jit = off`)
    .then(() => client.query(`SELECT coalesce(json_agg(r), '[]')::text AS json FROM (${sql}) AS r`))
    .then(
      ({ rows }) => ({ json: rows[0].json }),
      (error) => ({ error: error.message }),
    );
  port.postMessage(answer);
  Atomics.add(answered, 0, 1);
  Atomics.notify(answered, 0);
});
