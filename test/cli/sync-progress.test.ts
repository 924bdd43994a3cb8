import { mkdirSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'vitest';
import { it } from '../support/it.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { listingOf } from '../../src/sample/sample-account.ts';
import { callCli, jsonLines, startCli } from '../support/run-cli.ts';

it(
  'says which attempt failed while the API is away, and when it answers again',
  { timeout: 60_000 },
  async ({ folder }) => {
    const port = await freePort();
    const config = await writeCliConfig(folder, `http://127.0.0.1:${port}`);
    const running = startCli(['sync', 'newsletter', '--select', 'lists', '--config', config], {
      cwd: folder,
      env: { SECRET: cliSecret },
    });
    await running.until('attempt 2 of 6');
    const service = await serveSamples({
      port,
      clientId: 'local',
      clientSecret: cliSecret,
      definitions: loadDefinitions([builtInDefinitionsFolder]),
      accounts: [
        {
          connectorId: 'c-news',
          workspace: 'default',
          definitionName: 'email-marketing',
          seed: 1,
          size: 'tiny',
        },
      ],
    });
    const { code, stdout, stderr } = await running.result;
    await service.close();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^newsletter: ok in /m);
    const [made, ...lines] = stderr
      .split('\n')
      .filter((line) => !/^newsletter {2}\d/.test(line) && line !== '');
    expect(made).toMatch(/^newsletter: made the sink main: /);
    expect(lines[0]).toMatch(
      /^newsletter: get an application token: connection refused \(ECONNREFUSED\), attempt 1 of 6, next (in \d+ s|one now)$/,
    );
    expect(lines[1]).toMatch(/^newsletter: .* attempt 2 of 6, next (in \d+ s|one now)$/);
    expect(lines.at(-1)).toMatch(/^newsletter: calls are answered again after /);
    expect(stderr).not.toContain('0 records');
  },
);

it('reports how many records parents state and the service counts, and reads the same as without', async ({
  folder,
}) => {
  const totals = async (name: string, say: (records: readonly JsonObject[]) => number | null) => {
    await using service = await serveSamples({
      port: 0,
      clientId: 'local',
      clientSecret: cliSecret,
      definitions: loadDefinitions([builtInDefinitionsFolder]),
      accounts: [
        {
          connectorId: 'c-news',
          workspace: 'default',
          definitionName: 'email-marketing',
          seed: 1,
          size: 'tiny',
          wrap: (account) => ({
            ...account,
            list: (entity, params) => {
              const records = account.list(entity, params).slice(0, Infinity);
              const total = say(records);
              return listingOf(records, total === null ? null : { total_items: total });
            },
          }),
        },
      ],
    });
    mkdirSync(join(folder, name));
    const config = await writeCliConfig(join(folder, name), service.url);
    const args = ['sync', 'newsletter', '--select', 'lists', 'list_members', '--config', config, '--json'];
    const env = { SECRET: cliSecret };
    const result = await callCli(args, { cwd: folder, env });
    expect(result.code).toBe(0);
    const lines = jsonLines(result);
    const of = (kind: string) => lines.filter((line) => line['kind'] === kind);
    const sum = (kind: string) =>
      of(kind)
        .filter(({ entity }) => entity === 'list_members')
        .reduce((all, { records }) => all + Number(records), 0);
    const read = of('page-committed')
      .filter(({ entity }) => entity === 'list_members')
      .reduce((all, { counts }) => {
        const { fetched = 0, duplicate = 0 } = counts as Record<string, number>;
        return all + fetched - duplicate;
      }, 0);
    return { found: of('listings-found'), counted: sum('listing-counted'), read };
  };
  const plain = await totals('plain', () => null);
  const counting = await totals('counting', (records) => records.length);
  expect(plain.counted).toBe(0);
  expect(counting.counted).toBe(plain.read);
  expect(counting.read).toBe(plain.read);
  expect(counting.found).toMatchObject([{ entity: 'list_members', parent: 'lists', listings: 2 }]);
  expect(counting.found[0]?.['records']).toBeGreaterThan(0);
});

it('begins after a resume with what the run before has read', async ({ folder }) => {
  await using service = await startCliService();
  const config = await writeCliConfig(folder, service.url);
  const sync = async (...more: string[]) => {
    const args = ['sync', 'newsletter', '--select', 'lists', 'list_members', '--config', config, '--json'];
    return jsonLines(await callCli([...args, ...more], { cwd: folder, env: { SECRET: cliSecret } }));
  };
  const cut = await sync('--max-calls', '4');
  const readOf = (entity: string) =>
    cut
      .filter((line) => line['kind'] === 'page-committed' && line['entity'] === entity)
      .map(({ counts }) => counts as Record<string, number>)
      .reduce((all, { fetched = 0, duplicate = 0 }) => all + fetched - duplicate, 0);
  const started = (await sync()).find(({ kind }) => kind === 'run-started');
  expect(started?.['earlier']).toEqual([
    { entity: 'list_members', records: readOf('list_members'), listings: expect.anything(), parent: 'lists' },
    { entity: 'lists', records: readOf('lists'), listings: { read: 1, due: 0 }, parent: null },
  ]);
  expect(readOf('lists')).toBeGreaterThan(0);
});

/** Of a server that has gone again: nothing answers there. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
