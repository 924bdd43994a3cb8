import { readFileSync, writeFileSync } from 'node:fs';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { killAtMessage } from '../support/kill-at-message.ts';
import { startPostgresProxy } from '../support/postgres-proxy.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { startCli } from '../support/run-cli.ts';
import { isLong } from '../support/trials.ts';

/** In `npm test` a kill in front of one message of so many. */
const killsAtEach = isLong ? 1 : 20;
const whole = 'pruned_whole';

/** Whether the ledger counts what there is, and what there is that is too old. */
const stateSql = `SELECT
  (SELECT count(*) FROM main.newsletter__campaigns WHERE _deleted_at IS NULL)::int AS live,
  (SELECT count(*) FROM main.newsletter__campaigns WHERE _deleted_at IS NOT NULL)::int AS deleted,
  (SELECT t.rows - t.deleted FROM main._sync_tables AS t WHERE entity = 'campaigns')::int AS counted_rows,
  (SELECT t.deleted FROM main._sync_tables AS t WHERE entity = 'campaigns')::int AS counted_deleted,
  (SELECT count(*) FROM main.newsletter__campaigns__versions)::int AS versions,
  (SELECT count(*) FROM main._sync_quarantine)::int AS quarantined,
  coalesce((SELECT max(complete_after) FROM main._sync_retained), 0)::int AS complete_after`;

interface State {
  readonly live: number;
  readonly deleted: number;
  readonly counted_rows: number;
  readonly counted_deleted: number;
  readonly versions: number;
  readonly quarantined: number;
  readonly complete_after: number;
}

async function asked<Row>(url: string, sql: readonly string[]): Promise<readonly Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const results: unknown[][] = [];
    for (const one of sql) results.push((await client.query(one)).rows);
    return (results.at(-1) ?? []) as Row[];
  } finally {
    await client.end();
  }
}

/** A sink with deleted rows, versions and a refused record from years ago, and copies of it. */
async function openAged() {
  const server = await sharedPostgres();
  const proxy = await startPostgresProxy(server.port);
  onTestFinished(() => proxy.close());
  const at = (database: string): string => server.url.replace('/postgres?', `/${database}?`);
  await asked(server.url, [`CREATE DATABASE ${whole}`]);
  const world = await openCliWorld({
    sinkSettings: `{ type: postgres, url: "${at(whole)}", schema: main, durability: normal }`,
    settings:
      '    include: [campaigns]\n    history: { keep: 400d }\n    retention: { deletedRows: 90d, quarantine: 30d }\n',
  });
  onTestFinished(() => world[Symbol.asyncDispose]());
  await world.json('sync', 'newsletter');
  for (const revision of [1, 2, 3]) {
    world.moveTo(revision);
    await world.json('sync', 'newsletter', '--full', '--allow-deletes');
  }
  const old = '2020-01-01T00:00:00.000Z';
  await asked(at(whole), [
    `UPDATE main.newsletter__campaigns SET _deleted_at = '${old}' WHERE _deleted_at IS NOT NULL`,
    `UPDATE main.newsletter__campaigns__versions SET _valid_from = '${old}', _valid_to = '${old}'`,
    `INSERT INTO main._sync_quarantine (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     VALUES ('newsletter', 'campaigns', 'x', 'key-missing', 'no id', '{}', '${old}', '${old}', 'r')`,
  ]);
  const config = readFileSync(world.config, 'utf8');
  let made = 0;
  return {
    proxy,
    state: async (database = whole) => (await asked<State>(at(database), [stateSql]))[0],
    copy: async () => {
      const database = `pruned_${(made += 1)}`;
      await asked(server.url, [`CREATE DATABASE ${database} TEMPLATE ${whole}`]);
      const through = at(database).replace(`:${server.port}`, `:${proxy.port}`);
      writeFileSync(world.config, config.replace(at(whole), through));
      const args = ['prune', 'newsletter', '--allow-deletes', '--config', world.config];
      return {
        database,
        start: () => startCli(args, { cwd: world.folder, env: world.env }),
        drop: async () => void (await asked(server.url, [`DROP DATABASE ${database} WITH (FORCE)`])),
      };
    },
  };
}

// Proves promise 21.5
it(
  'prune of a PostgreSQL sink is completed by the next one after a SIGKILL in front of any message to the server',
  { timeout: isLong ? 900_000 : 120_000 },
  async () => {
    const { proxy, state, copy } = await openAged();
    const before = await state();
    expect(before?.deleted).toBeGreaterThan(0);
    expect(before?.versions).toBeGreaterThan(0);
    let kills = 0;
    let changed = 0;
    let after: State | undefined;
    for (let isKilled = true; isKilled; kills += isKilled ? 1 : 0) {
      const one = await copy();
      const at = (kills + 1) * killsAtEach;
      const { code, stderr } = await killAtMessage(proxy, one.start(), at);
      isKilled = code === null;
      if (!isKilled) expect(code, stderr).toBe(0);
      const left = await state(one.database);
      const { live, deleted, counted_rows, counted_deleted } = left ?? {};
      expect([counted_rows, counted_deleted], `kill at ${at}`).toEqual([live, deleted]);
      expect([before?.deleted, 0], `kill at ${at}`).toContain(deleted);
      expect(live, `kill at ${at}`).toBe(before?.live);
      if (deleted === 0) expect(left?.complete_after, `kill at ${at}`).toBeGreaterThan(0);
      if (isKilled && JSON.stringify(left) !== JSON.stringify(before)) changed += 1;
      expect(await one.start().result, `kill at ${at}`).toMatchObject({ code: 0 });
      after ??= await state(one.database);
      expect(after).toMatchObject({ live: before?.live, deleted: 0, versions: 0, quarantined: 0 });
      expect(await state(one.database), `kill at ${at}`).toEqual(after);
      await one.drop();
    }
    if (isLong) console.log(`prune: ${kills} kills, ${changed} of them with something removed`);
    expect(kills).toBeGreaterThan(isLong ? 20 : 0);
    if (isLong) expect(changed).toBeGreaterThan(0);
  },
);
