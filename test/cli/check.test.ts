import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig, type CliConfigOptions } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';
import { serveSamples } from '../support/serve-samples.ts';

describe('many connectors', () => {
  const ids = Array.from({ length: 40 }, (_, index) => `c-${index}`);
  const unknown = Array.from({ length: 25 }, (_, index) => `x-${index}`);

  let folder: string;
  let service: Service;

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    const account = { definitionName: 'document-library', seed: 1, size: 'tiny' } as const;
    service = await serveSamples({
      port: 0,
      clientId: 'local',
      clientSecret: cliSecret,
      definitions: loadDefinitions([builtInDefinitionsFolder]),
      accounts: [
        ...ids.map((connectorId, index) => ({
          ...account,
          connectorId,
          workspace: index % 2 === 0 ? 'even' : 'odd',
        })),
        { ...account, connectorId: 'c-alone', workspace: 'alone' },
      ],
    });
  });

  afterEach(() => service.close());

  async function check(connectors: string, ...args: readonly string[]): Promise<CliResult> {
    const config = join(folder, 'sync.yaml');
    await writeFile(
      config,
      `api: { baseUrl: "${service.url}", clientId: local, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db, durability: normal } }
defaults: { definition: document-library, sink: main }
connectors:
${connectors}`,
    );
    const env = { SECRET: cliSecret };
    return callCli(['check', '--config', config, ...args], { cwd: folder, env });
  }

  const entries = (all: readonly string[]): string => all.map((id) => `  ${id}: { id: ${id} }\n`).join('');

  // Proves promise 12.1
  it('says of those that are right how many they are', async () => {
    const { code, stdout } = await check(entries(ids));
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ connectors: 40 of 40 are right$/m);
    expect(stdout).toMatch(/^✓ pages: 40 of 40 are right$/m);
    expect(stdout).not.toContain('connector c-');
  });

  it('names twenty problems of a kind, and counts the rest', async () => {
    const { code, stdout } = await check(
      `${entries([...ids, ...unknown])}  notes: { id: c-alone, definition: workspace-notes }\n`,
    );
    expect(code).toBe(2);
    const told = stdout.split('\n').filter((line) => line.startsWith('✗ connector'));
    expect(told.filter((line) => line.includes('no connector has the id x-'))).toHaveLength(20);
    expect(told).toContain('✗ connectors: 5 more problems of this kind (CONNECTOR_UNKNOWN)');
    expect(told.filter((line) => line.includes('connector notes: '))).toHaveLength(1);
    expect(stdout).toMatch(/^✓ connectors: 40 of 66 are right$/m);
    const [document] = jsonLines(await check(entries([...ids, ...unknown]), '--json'));
    expect(document).toMatchObject({ ok: false });
    expect(document?.['checks']).toContainEqual(
      expect.objectContaining({ what: 'connectors', state: 'failed', code: 'CONNECTOR_UNKNOWN' }),
    );
  });

  it('names each where there are few', async () => {
    const { stdout } = await check(entries(['c-0', 'c-1', 'x-0']));
    expect(stdout).toMatch(/^✓ connector c-0: c-0 answers \(document-library, 3 entities\)$/m);
    expect(stdout).toMatch(/^✗ connector x-0: no connector has the id x-0/m);
  });
});

describe('Redis', () => {
  const password = 'redis-password-of-this-test';
  const scheduled = { schedules: { wiki: '{ every: 1h }' }, usesRedis: true };

  let folder: string;
  let service: Service;

  beforeAll(async () => {
    service = await startCliService();
  });

  afterAll(() => service.close());

  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  async function check(options: CliConfigOptions, redis: string, ...args: string[]): Promise<CliResult> {
    const config = await writeCliConfig(folder, service.url, options);
    const result = await callCli(['check', '--config', config, ...args], {
      cwd: folder,
      env: { SECRET: cliSecret, REDIS: redis },
    });
    expect(result.stdout + result.stderr).not.toContain(password);
    return result;
  }

  async function nowhere(): Promise<string> {
    return `redis://:${password}@127.0.0.1:${await freePort()}`;
  }

  it('check inspects the Redis of the config; a warning changes no exit code', async () => {
    await using redis = await startRedis({ password });
    const { code, stdout } = await check(scheduled, redis.url);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^✓ redis: /m);
    expect(stdout).toMatch(/^✓ redis memory: /m);
    expect(stdout).toMatch(/^! redis persistence: appendonly is off/m);
    expect(stdout).toMatch(/^✓ redis clock: /m);
    expect(jsonLines(await check(scheduled, redis.url, '--json'))).toMatchObject([{ ok: true }]);
  });

  it('check fails if a schedule needs Redis and none answers', async () => {
    const { code, stdout } = await check(scheduled, await nowhere());
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ redis: Redis at 127.0.0.1:\d+ does not answer: /m);
  });

  it('check passes without Redis if no schedule needs it', async () => {
    const { code, stdout } = await check({ usesRedis: true }, await nowhere());
    expect(code).toBe(0);
    expect(stdout).toMatch(/^- redis: no schedule needs it, and rates are not shared without it: Redis at /m);
    expect(jsonLines(await check({ usesRedis: true }, await nowhere(), '--json'))).toMatchObject([
      { ok: true },
    ]);
  });
});

describe('secrets', () => {
  let folder: string;
  let service: Service;
  let config: string;

  it.beforeAll(async ({ fileFolder: made }) => {
    folder = made;
    service = await startCliService();
    config = await writeCliConfig(folder, service.url);
  });

  afterAll(() => service.close());

  function check(secret: string, file = config): Promise<CliResult> {
    return callCli(['check', '--config', file], { cwd: folder, env: { SECRET: secret } });
  }

  // Proves promise 10.1
  it.each(['wrong', 'secret', 'check', 'mine'])(
    'check shows the answer to the secret %j whole, and warns of it',
    async (secret) => {
      const { code, stdout } = await check(secret);
      expect(code).toBe(4);
      expect(stdout).toMatch(
        /"The client id or the client secret is wrong; unauthorized"; check api\.clientId and api\.clientSecret$/m,
      );
      expect(stdout).toMatch(/^! client secret: it is short or an ordinary word/m);
    },
  );

  it('check names a wrong path of the base URL, and not the credentials', async () => {
    const file = join(folder, 'wrong-path.yaml');
    await writeFile(
      file,
      `api: { baseUrl: "${service.url}/wrong", clientId: local, clientSecret: "\${SECRET}" }
sinks: { main: { type: sqlite, path: ./main.db } }
connectors: { newsletter: { definition: email-marketing, id: c-news, sink: main } }
`,
    );
    const { code, stdout } = await check(cliSecret, file);
    expect(code).toBe(2);
    expect(stdout).toContain('there is no token endpoint here: check the path in api.baseUrl');
    expect(stdout).not.toMatch(/api\.clientSecret|Bearer \[/);
  });

  // Proves promise 10.1
  it.each(['mine', 'fifteen-letters'])(
    'serve refuses %j as a secret, and says what it takes',
    async (secret) => {
      const env = { CONNECTOR_SYNC_CLIENT_ID: 'local', CONNECTOR_SYNC_CLIENT_SECRET: secret };
      const { code, stderr } = await callCli(['serve', '--port', '0', '--size', 'tiny'], {
        cwd: folder,
        env,
      });
      expect([code, stderr]).toEqual([2, expect.stringContaining('expected at least 16 random characters')]);
    },
  );
});
