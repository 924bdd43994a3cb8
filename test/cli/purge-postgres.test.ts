import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { jsonLines } from '../support/run-cli.ts';

const schema = 'purged_files';

/** Tables, indexes and tables of long values of the schema whose files hold the text. */
const filesWithSql = `
  WITH own AS (SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'i')),
    every AS (
      SELECT oid FROM own
      UNION SELECT reltoastrelid FROM own WHERE reltoastrelid <> 0
      UNION SELECT i.indexrelid FROM pg_index AS i JOIN own ON own.reltoastrelid = i.indrelid)
  SELECT oid::regclass::text AS name FROM every
  WHERE position(convert_to($2, 'UTF8') IN pg_read_binary_file(pg_relation_filepath(oid))) > 0`;

// Proves promise 21.2
it('leaves no byte of a person in the files of the tables of a PostgreSQL sink', async () => {
  const server = await sharedPostgres();
  const world = await openCliWorld({
    sinkSettings: `{ type: postgres, url: "${server.url}", schema: ${schema}, durability: normal }`,
  });
  onTestFinished(() => world[Symbol.asyncDispose]());
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  onTestFinished(() => client.end());
  const filesWith = async (text: string): Promise<readonly unknown[]> => {
    await client.query('CHECKPOINT');
    return (await client.query<{ name: string }>(filesWithSql, [schema, text])).rows;
  };
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const [first] = jsonLines(await world.cli('export', 'newsletter/list_members'));
  const email = String(first?.['email_address']);
  expect((await filesWith(email)).length).toBeGreaterThan(0);
  const where = JSON.stringify({ eq: { email_address: email } });
  const [done] = await world.json('purge', 'newsletter/list_members', '--where', where);
  expect(done).toMatchObject({ report: { left: [] } });
  expect(await filesWith(email)).toEqual([]);
  const end = (await world.json('sync', 'newsletter', '--select', 'list_members', '--full')).at(-1);
  expect(end).toMatchObject({ report: { outcome: 'ok' } });
  expect(await filesWith(email)).toEqual([]);

  // As after a purge that was killed, and a reset of its entity.
  await client.query(
    `INSERT INTO ${schema}._sync_purge_work (connector, step, entity, since) VALUES ('newsletter', 'space', 'reports', '')`,
  );
  expect(await world.json('prune', 'newsletter')).toMatchObject([{ left: [] }]);
  expect((await client.query(`SELECT * FROM ${schema}._sync_purge_work`)).rows).toEqual([]);
});
