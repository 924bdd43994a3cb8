import { readFileSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import pg from 'pg';
import { expect } from 'vitest';
import { openCliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { sharedPostgres } from '../support/postgres.ts';
import { callCli } from '../support/run-cli.ts';
import { repeats } from '../support/trials.ts';

const asked = repeats('TRIALS', { share: 3, full: 25 });
const entity = 'newsletter/lists';
const schema = 'one_state';

/** All that answers show of a state, changed by one transaction. */
const nextState = (time: string, place: string): readonly string[] => [
  `UPDATE ${place}newsletter__lists SET name = '${time}', _changed_at = '${time}'`,
  `UPDATE ${place}_sync_tables SET as_of = '${time}' WHERE connector = 'newsletter'`,
];

interface Writer extends AsyncDisposable {
  /** How many states it has committed. */
  readonly written: () => number;
}

/** Commits states, one after the other, until it is disposed. */
function writing(commit: (statements: readonly string[]) => Promise<void>, place: string): Writer {
  let count = 0;
  const over = new AbortController();
  const ended = (async (): Promise<void> => {
    while (!over.signal.aborted) {
      await commit(nextState(new Date(Date.UTC(2030, 0, 1) + 1000 * count).toISOString(), place));
      count += 1;
      await new Promise(setImmediate);
    }
  })();
  return {
    written: () => count,
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await ended;
    },
  };
}

// Proves promise 22.2
it.each(['sqlite', 'postgres'] as const)(
  'answers every call from one committed state of a %s sink that is written meanwhile',
  async (sink) => {
    const url = sink === 'postgres' ? (await sharedPostgres()).url : '';
    const sinkSettings = `{ type: postgres, url: "${url}", schema: ${schema} }`;
    await using world = await openCliWorld(sink === 'postgres' ? { sinkSettings } : {});
    expect((await world.cli('sync', 'newsletter')).code).toBe(0);
    const text = readFileSync(world.config, 'utf8');
    writeFileSync(
      world.config,
      `${text}mcp: { connectors: [newsletter], sql: true, sqlUser: one_state_agents }\n`,
    );
    await using admin = sink === 'postgres' ? await connect(url) : null;
    if (admin !== null) {
      const given = { cwd: world.folder, env: world.env };
      await admin.ask((await callCli(['mcp', 'grant', '--config', world.config], given)).stdout);
    }
    const file = admin === null ? new Database(`${world.folder}/main.db`) : null;
    const commit = async (statements: readonly string[]): Promise<void> => {
      if (file === null) await admin?.ask(['BEGIN', ...statements, 'COMMIT'].join('; '));
      else file.transaction(() => statements.forEach((one) => file.exec(one)))();
    };
    await using mcp = await openMcpClient(world);
    await using writer = writing(commit, admin === null ? '' : `${schema}.`);
    const { records } = await mcp.call('search', { entity, limit: 1 });
    const key = { id: records[0]?.['id'] };
    for (let trial = 0; trial < asked; trial += 1) {
      const before = writer.written();
      const found = await mcp.call('search', { entity, fields: ['name'] });
      expect(new Set(found.records.map(({ name }) => name))).toEqual(new Set([found['as_of']]));
      const changed = await mcp.call('changes', { entity, since: 0, fields: ['name'] });
      const names = changed.records.map(({ record }) => (record as { readonly name: string }).name);
      expect(new Set(names)).toEqual(new Set([changed['as_of']]));
      const got = await mcp.call('get', { entity, key });
      expect(got.record['name']).toBe(got['as_of']);
      expect(got['changed_at']).toBe(got['as_of']);
      const explained = await mcp.call('explain', { entity, key });
      expect(JSON.stringify(explained['history'])).toContain(explained['as_of']);
      const sql = 'SELECT DISTINCT name FROM newsletter__lists_current';
      const queried = await mcp.call('sql', { sql });
      expect(queried['rows']).toEqual([[queried['as_of']]]);
      // An entity that is as of another time than the connector says so.
      const listed = JSON.stringify(await mcp.call('list_entities', { name: 'newsletter' }));
      expect(listed.match(/2030-[^"]*Z/g)).toHaveLength(1);
      const { connectors } = await mcp.call('freshness', { connector: 'newsletter' });
      expect(new Set(JSON.stringify(connectors).match(/2030-[^",]*Z/g)).size).toBe(1);
      expect(writer.written()).toBeGreaterThan(before);
    }
    file?.close();
  },
  120_000,
);

async function connect(url: string) {
  const client = new pg.Client(url);
  await client.connect();
  return {
    ask: async (sql: string): Promise<void> => void (await client.query(sql)),
    [Symbol.asyncDispose]: async () => await client.end(),
  };
}
