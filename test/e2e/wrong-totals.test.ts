import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { HostileCall } from '../support/hostile/exchange.ts';
import { success } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { it } from '../support/it.ts';
import { openMcpClient } from '../support/mcp-client.ts';
import { serveUi } from '../support/page/served-ui.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { builtInDefinition } from '../support/sample-service.ts';

const mailing = builtInDefinition('email-marketing');

/** A service that has so many lists and counts `total` of them; it answers with at most a thousand. */
function counting(total: number, rows: number) {
  const lists = Array.from({ length: rows }, (_, index): JsonObject => ({ id: `l${index}`, name: 'One' }));
  return startHostileServer({
    connectors: [{ id: 'c1', name: 'One', definitionId: mailing.id }],
    respond: ({ entity, params }: HostileCall) => {
      if (entity !== 'lists') return success([]);
      const { offset, count } = params as { readonly offset: number; readonly count: number };
      const page = lists.slice(offset, offset + Math.min(count, 1_000));
      return success(page, { links: [], total_items: total });
    },
  });
}

describe('a service that counts more records than it shows', () => {
  // Proves promise 3.1
  it('is reported in every run, in status and to programs until the settings say to ignore its totals', async ({
    folder,
  }) => {
    await using server = await counting(8, 3);
    const write = async (entities: string): Promise<void> =>
      await writeFile(
        join(folder, 'sync.yaml'),
        `api: { baseUrl: "${server.baseUrl}", clientId: local, clientSecret: secret-of-a-test }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
connectors:
  news: { definition: email-marketing, id: c1, sink: main, include: [lists, tags], entities: { ${entities} } }
`,
      );
    const cli = async (...args: readonly string[]): Promise<CliResult> =>
      await callCli([...args, '--config', join(folder, 'sync.yaml')], { cwd: folder });
    await write('');
    const note = '! lists: the API counts 8 records and showed 3';
    const advice = '3 runs in a row: if its count is wrong, set "totals: ignore" for lists in the config';
    for (const run of [1, 2, 3]) {
      const { code, stdout } = await cli('sync');
      expect(code).toBe(0);
      expect(stdout).toMatch(/^ {2}lists .+ part missing +1 part missing/m);
      expect(stdout, 'what is found through it').toMatch(/^ {2}tags .+ part missing$/m);
      expect(stdout).toContain(note);
      expect(stdout.includes(advice)).toBe(run === 3);
    }
    const status = await cli('status');
    expect(status.stdout).toMatch(/^ {2}lists +3 .+ part missing +never *$/m);
    expect(status.stdout).toContain(note);
    expect(status.stdout).toContain(advice);
    expect(jsonLines(await cli('sync', '--json')).at(-1)).toMatchObject({
      report: {
        partMissing: [{ entity: 'lists', listings: 1, doubt: { total: 8, shown: 3 }, runs: 4 }],
        entities: [
          { entity: 'lists', completeness: 'part-missing', isProven: false },
          { entity: 'tags', completeness: 'part-missing', isProven: false },
        ],
      },
    });
    const words = async (): Promise<unknown> => {
      const [document = {}] = jsonLines(await cli('status', '--json'));
      const [one] = document['connectors'] as { status: { entities: { completeness: string }[] } }[];
      return one?.status.entities.map(({ completeness }) => completeness);
    };
    expect(await words()).toEqual(['part-missing', 'part-missing']);
    const config = join(folder, 'sync.yaml');
    await using ui = await serveUi({ config });
    const { body } = await ui.get('/connectors/news');
    expect(body.match(/<span class="late"\s*>part missing<\/span\s*>/g)).toHaveLength(2);
    await using agents = await openMcpClient({ config, env: {} });
    expect(await agents.call('list_entities', { name: 'news' })).toMatchObject({
      entities: [
        { entity: 'news/lists', completeness: 'part-missing', complete: false },
        { entity: 'news/tags', completeness: 'part-missing' },
      ],
    });

    await write('lists: { totals: ignore }');
    const ignored = await cli('sync');
    expect(ignored.stdout).toMatch(/^ {2}lists .+ yes/m);
    expect(ignored.stdout).not.toContain('part missing');
    const after = await cli('status');
    expect(after.stdout).not.toMatch(/the API counts|never/);
    expect(await words()).toEqual(['complete', 'complete']);
  });
});
