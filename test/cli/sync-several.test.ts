import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { freePort } from '../support/redis.ts';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, vi } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { listingOf } from '../../src/sample/sample-account.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, startCli, type CliResult, type RunningCli } from '../support/run-cli.ts';
import { serveSamples } from '../support/serve-samples.ts';

describe('several processes', () => {
  interface Gate extends AsyncDisposable {
    readonly url: string;
    /** Calls of this connector wait from now on. */
    hold(connectorId: string): void;
    release(): void;
  }

  // Several processes beside each other, on machines that have more to do.
  vi.setConfig({ testTimeout: 90_000 });

  let folder: string;
  let service: Service;
  let gate: Gate;
  let config: string;

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    service = await startCliService();
    gate = await openGate(service.url);
    config = await writeCliConfig(folder, gate.url);
  });

  afterEach(async () => {
    await gate[Symbol.asyncDispose]();
    await service.close();
  });

  // Proves promise 11.2
  it('resumes the connector in which it was interrupted, and reads the finished one no second time', async () => {
    gate.hold('c-wiki');
    const running = start();
    await running.until('"kind":"run-started","connector":"wiki"');
    running.child.kill('SIGINT');
    const interrupted = await running.result;
    gate.release();
    expect(interrupted.code).toBe(130);
    expect(outlineOf(interrupted)).toEqual(['newsletter ok', 'wiki interrupted']);

    const again = await sync();
    expect(again.code).toBe(0);
    expect(outlineOf(again)).toEqual(['wiki ok', 'newsletter skipped: done-before-interruption']);
    expect(jsonLines(again)[0]).toMatchObject({ continues: runOf(interrupted) });
    expect(outlineOf(await sync())).toEqual(['newsletter ok', 'wiki ok']);
  });

  it('skips what it had finished only for the same flags, soon, and where it is not named alone', async () => {
    const both = ['newsletter ok', 'wiki ok'];
    const cutWiki = (more = ''): void => {
      const db = new Database(join(folder, 'main.db'));
      db.exec(`UPDATE _sync_runs SET state = 'interrupted'${more}
      WHERE number = (SELECT max(number) FROM _sync_runs WHERE connector = 'wiki')`);
      db.close();
    };
    expect(outlineOf(await sync())).toEqual(both);
    cutWiki();
    expect(outlineOf(await sync('--full'))).toEqual(both);
    cutWiki(", finished_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-31 minutes')");
    expect(outlineOf(await sync('--full'))).toEqual(both);
    cutWiki();
    expect(outlineOf(await sync('newsletter', '--full'))).toEqual(['newsletter ok']);
  });

  // Proves promise 11.2
  it('shares the work with another one at the same time: both end with 0, and each connector is read once', async () => {
    gate.hold('c-news');
    const one = start();
    await one.until('"kind":"run-started","connector":"newsletter"');
    const other = start();
    await other.until('"kind":"run-report","connector":"wiki"');
    gate.release();
    const [first, second] = await Promise.all([one.result, other.result]);
    expect([first.code, second.code]).toEqual([0, 0]);
    expect(outlineOf(first)).toEqual(['newsletter ok', 'wiki skipped: done-by-another-sync']);
    expect(outlineOf(second)).toEqual([
      'newsletter waiting',
      'wiki ok',
      'newsletter skipped: done-by-another-sync',
    ]);
  });

  it('takes over unfinished work of another command, and stops waiting on Ctrl-C', async () => {
    gate.hold('c-news');
    const one = start();
    await one.until('"kind":"run-started","connector":"newsletter"');
    const [other, third] = [start(), start('--full')];
    await Promise.all([other, third].map((waiting) => waiting.until('"kind":"run-waiting"')));
    third.child.kill('SIGINT');
    expect((await third.result).code).toBe(130);
    one.child.kill('SIGKILL');
    await one.result;
    gate.release();
    const taken = await other.result;
    expect(taken.code).toBe(0);
    expect(outlineOf(taken)).toContain('newsletter ok');
  });

  it('ends with the code of a connector that it has waited for', async () => {
    // Where no row is stored, any identity is taken.
    expect((await sync()).code).toBe(0);
    gate.hold('c-news');
    const one = start();
    await one.until('"kind":"run-started","connector":"newsletter"');
    const other = start();
    await other.until('"kind":"run-report","connector":"wiki"');
    const db = new Database(join(folder, 'main.db'));
    db.exec("UPDATE _sync_connectors SET connector_id = 'c-another' WHERE connector = 'newsletter'");
    db.close();
    one.child.kill('SIGKILL');
    await one.result;
    const waited = await other.result;
    expect(outlineOf(waited)).toEqual(['newsletter waiting', 'wiki ok']);
    expect(jsonLines(waited).at(-1)).toMatchObject({ kind: 'run-error', connector: 'newsletter' });
    expect(waited.code).toBe(2);
  });

  function start(...args: string[]): RunningCli {
    return startCli(['sync', '--json', '--config', config, ...args], {
      cwd: folder,
      env: { SECRET: cliSecret },
    });
  }

  function sync(...args: string[]): Promise<CliResult> {
    return callCli(['sync', '--json', '--config', config, ...args], {
      cwd: folder,
      env: { SECRET: cliSecret },
    });
  }

  function runOf(result: CliResult): unknown {
    const report = jsonLines(result).at(-1)?.['report'];
    return typeof report === 'object' && report !== null && 'run' in report ? report.run : null;
  }

  /** What became of each connector, in order. */
  function outlineOf(result: CliResult): readonly string[] {
    return jsonLines(result).flatMap((line) => {
      const { kind, connector, because, report } = line;
      if (kind === 'run-skipped') return [`${String(connector)} skipped: ${String(because)}`];
      if (kind === 'run-waiting') return [`${String(connector)} waiting`];
      return kind === 'run-report'
        ? [`${String(connector)} ${String((report as Record<string, unknown>)['outcome'])}`]
        : [];
    });
  }

  /** Passes everything on to the service, but the calls of a connector that is held. */
  async function openGate(serviceUrl: string): Promise<Gate> {
    let heldId: string | null = null;
    const waiting: (() => void)[] = [];
    const server = createServer((incoming, outgoing) => {
      const pass = (): void => {
        const target = new URL(incoming.url ?? '/', serviceUrl);
        const { method, headers } = incoming;
        const onward = request(target, { method, headers: { ...headers, host: target.host } }, (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
        });
        onward.on('error', () => outgoing.destroy());
        incoming.pipe(onward);
      };
      if (heldId !== null && incoming.url?.includes(`${heldId}/execute`) === true) waiting.push(pass);
      else pass();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const release = (): void => {
      heldId = null;
      for (const pass of waiting.splice(0)) pass();
    };
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      hold: (connectorId) => {
        heldId = connectorId;
      },
      release,
      [Symbol.asyncDispose]: async () => {
        server.closeAllConnections();
        server.close();
        await once(server, 'close');
      },
    };
  }
});

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
