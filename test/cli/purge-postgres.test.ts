import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { killAtMessage } from '../support/kill-at-message.ts';
import { startPostgresProxy } from '../support/postgres-proxy.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { jsonLines, startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

/** Tables, indexes and tables of long values of the schema whose files hold the text. */
const filesWithSql = `
  WITH own AS (SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'i')),
    every AS (
      SELECT oid FROM own
      UNION SELECT reltoastrelid FROM own WHERE reltoastrelid <> 0
      UNION SELECT i.indexrelid FROM pg_index AS i JOIN own ON own.reltoastrelid = i.indrelid)
  SELECT oid::regclass::text AS name FROM every
  WHERE position(convert_to($2, 'UTF8') IN pg_read_binary_file(pg_relation_filepath(oid))) > 0`;

/** In `npm test` a kill in front of one message of so many. */
const killsAtEach = isLong ? 1 : 30;

/** A sink that is reached through a proxy, with list members in it. */
async function synced(schema: string) {
  const server = await sharedPostgres();
  const proxy = await startPostgresProxy(server.port);
  onTestFinished(() => proxy.close());
  const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
  const world = await openCliWorld({
    size: isLong ? { members: 200 } : 'tiny',
    sinkSettings: `{ type: postgres, url: "${url}", schema: ${schema}, durability: normal }`,
  });
  onTestFinished(() => world[Symbol.asyncDispose]());
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  onTestFinished(() => client.end());
  await world.json('sync', 'newsletter', '--select', 'list_members');
  const filesHold = async (text: string): Promise<readonly unknown[]> => {
    await client.query('CHECKPOINT');
    return (await client.query<{ name: string }>(filesWithSql, [schema, text])).rows;
  };
  /** How many rows there are, as the ledger counts them and as they are read. */
  const rows = async (): Promise<readonly unknown[]> => {
    const counted = `SELECT rows FROM ${schema}._sync_tables WHERE entity = 'list_members'`;
    const read = `SELECT count(*) AS rows FROM ${schema}.newsletter__list_members`;
    return (await client.query<{ rows: string }>(`${counted} UNION ALL ${read}`)).rows.map((row) =>
      Number(row.rows),
    );
  };
  const members = jsonLines(await world.cli('export', 'newsletter/list_members')).map((row) => ({
    key: ['--key', `list_id=${String(row['list_id'])}`, '--key', `id=${String(row['id'])}`],
    email: String(row['email_address']),
  }));
  return { world, proxy, client, members, rows, filesHold };
}

describe('a purge in a PostgreSQL sink', () => {
  // Proves promise 21.2
  it('leaves no byte of a person in the files of its tables', async () => {
    const schema = 'purged_files';
    const { world, client, members, filesHold } = await synced(schema);
    const email = members[0]?.email ?? '';
    expect((await filesHold(email)).length).toBeGreaterThan(0);
    const where = JSON.stringify({ eq: { email_address: email } });
    const [done] = await world.json('purge', 'newsletter/list_members', '--where', where);
    expect(done).toMatchObject({ left: [] });
    expect(await filesHold(email)).toEqual([]);
    const end = (await world.json('sync', 'newsletter', '--select', 'list_members', '--full')).at(-1);
    expect(end).toMatchObject({ report: { outcome: 'ok' } });
    expect(await filesHold(email)).toEqual([]);

    // As after a purge that was killed, and a reset of its entity.
    await client.query(
      `INSERT INTO ${schema}._sync_purge_work (connector, step, entity, since) VALUES ('newsletter', 'space', 'reports', '')`,
    );
    expect(await world.json('prune', 'newsletter')).toMatchObject([{ left: [] }]);
    expect((await client.query(`SELECT * FROM ${schema}._sync_purge_work`)).rows).toEqual([]);
  });

  // Proves promise 21.4
  it(
    'is completed by the next one after a kill in front of any message to the server, and done once by two at once',
    { timeout: isLong ? 900_000 : 60_000 },
    async () => {
      const { world, proxy, members, rows, filesHold } = await synced('purged_kills');
      const purge = (key: readonly string[]): readonly string[] => [
        'purge',
        'newsletter/list_members',
        ...key,
      ];
      let kills = 0;
      for (const { key, email } of members) {
        const [before = 0] = await rows();
        const at = (kills + 1) * killsAtEach;
        const killed = startCli([...purge(key), '--config', world.config], {
          cwd: world.folder,
          env: world.env,
        });
        const { code, stderr } = await killAtMessage(proxy, killed, at);
        if (code !== null) {
          expect(code, stderr).toBe(0);
          break;
        }
        kills += 1;
        const [counted, read] = await rows();
        expect([before, Number(before) - 1], `kill at ${at}`).toContain(counted);
        expect(read, `kill at ${at}`).toBe(counted);
        expect(await world.json(...purge(key))).toMatchObject([{ left: [] }]);
        expect(await rows()).toEqual([Number(before) - 1, Number(before) - 1]);
        expect(await filesHold(email), `kill at ${at}`).toEqual([]);
      }
      expect(kills).toBeGreaterThan(isLong ? 20 : 0);
      expect(kills, 'enough members').toBeLessThan(members.length);
      const last = members.at(-1);
      const ends = await Promise.all([1, 2].map(() => world.cli(...purge(last?.key ?? []))));
      const codes = ends.map(({ code }) => code);
      expect(codes, 'one of two may be refused').toContain(0);
      expect([0, 5]).toEqual(expect.arrayContaining(codes));
      expect(await filesHold(last?.email ?? '')).toEqual([]);
    },
  );
});
