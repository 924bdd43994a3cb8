import { readFile, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, vi } from 'vitest';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { systemClock } from '../../src/core/clock.ts';
import { isConnectorId, isConnectorName } from '../../src/core/names.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import type { Service } from '../../src/service/start-service.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-world.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { throttled } from '../support/hostile/replies.ts';
import { it } from '../support/it.ts';
import { freePort, startRedis } from '../support/redis.ts';
import { callCli, jsonLines, runCli, startCli, type CliResult, type RunningCli } from '../support/run-cli.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { listingOf } from '../support/listing-of.ts';

describe('one process', () => {
  let folder: string;
  let service: Service | null = null;

  it.beforeEach(({ folder: made }) => {
    folder = made;
  });

  afterEach(async () => {
    await service?.close();
    service = null;
  });

  describe('sync', () => {
    it('reads every connector and prints a table for each; not a terminal: no escape codes', async () => {
      const { code, stdout, stderr } = await sync(await withService(), []);
      expect(code).toBe(0);
      expect(stdout).toMatch(/^newsletter: ok in .+$/m);
      expect(stdout).toMatch(/^wiki: ok in .+$/m);
      expect(stdout).toMatch(/^ {2}lists +\d+ +\d+ +0 +0 +\d+ +\d+ +\d+ +\w+/m);
      expect(stdout + stderr).not.toContain('\u001b');
    });

    it('prints an event per line and then the report with --json, and nothing else', async () => {
      const result = await sync(await withService(), ['wiki', '--json', '--select', 'users']);
      expect(result.code).toBe(0);
      const events = jsonLines(result);
      expect(events[1]).toMatchObject({ kind: 'run-started', connector: 'wiki' });
      expect(events[0]).toMatchObject({ kind: 'sink-made', place: expect.stringMatching(/\.db$/) as string });
      expect(events.map(({ kind }) => kind)).toContain('walk-sealed');
      expect(events.at(-1)).toMatchObject({
        kind: 'run-report',
        report: { connector: 'wiki', outcome: 'ok', entities: [{ entity: 'users' }] },
      });
    });

    // Proves promise 10
    it('ends with 4 for a wrong secret, which appears nowhere, and tries the other connectors', async () => {
      const url = await withService();
      const wrong = 'a-wrong-secret-that-must-not-be-seen';
      const result = await sync(url, ['--debug'], wrong, runCli);
      expect(result.code).toBe(4);
      expect(result.stderr).toMatch(/^newsletter: /m);
      expect(result.stderr).toMatch(/^wiki: /m);
      expect(result.stdout + result.stderr).not.toContain(wrong);
      for (const name of await readdir(folder)) {
        expect(await readFile(join(folder, name), 'latin1')).not.toContain(wrong);
      }
    });

    it('selects over connectors of different types, and skips one of which nothing is selected', async () => {
      const url = await withService();
      const plan = await sync(url, ['--dry-run', '--json', '--select', 'users', 'block*']);
      expect(plan.code).toBe(0);
      expect(plan.stderr).toBe('newsletter: skipped, no selected entity\n');
      expect(jsonLines(plan)).toMatchObject([{ connectors: [{ connector: 'wiki' }] }]);

      const both = await sync(url, ['--dry-run', '--json', '--select', 'users', 'lists']);
      expect(jsonLines(both)).toMatchObject([
        {
          connectors: [
            { connector: 'newsletter', entities: [{ entity: 'lists' }] },
            { connector: 'wiki', entities: [{ entity: 'users' }] },
          ],
        },
      ]);

      const run = await sync(url, ['--select', 'users']);
      expect(run.code).toBe(0);
      expect(run.stdout).toMatch(/^wiki: ok in /m);
      expect(run.stdout).not.toContain('newsletter');
    });

    it('plans with the pages of the last run, without a call', async () => {
      const url = await withService();
      await sync(url, ['--select', 'lists', 'list_members']);
      const plan = await sync(url, ['newsletter', '--dry-run', '--select', 'list_members', 'tags']);
      expect(plan.stdout).toMatch(/^ {2}list_members +[1-9]/m);
      expect(plan.stdout).toMatch(/^ {2}lists +[1-9]\d* {2}added as a parent$/m);
      expect(plan.stdout).toMatch(/^ {2}tags +0/m);
    });

    it('excludes over connectors of different types, and refuses what matches nowhere', async () => {
      const url = await withService();
      const some = await sync(url, ['--dry-run', '--json', '--exclude', 'users', 'list_members']);
      expect(some.code).toBe(0);
      expect(some.stdout).not.toMatch(/"(users|list_members)"/);
      expect(some.stdout).toMatch(/"lists".*"pages"/);

      const nowhere = await sync(url, ['--select', 'users', 'userz']);
      const nothing = await sync(url, ['--exclude', '*']);
      expect(nowhere.code).toBe(2);
      expect(nowhere.stderr).toContain('No entity matches "userz"; did you mean "users"?');
      expect(nothing.code).toBe(2);
      expect(nothing.stderr).toContain('Nothing to read');
    });

    it('names the type of a connector that is not of the definition in the config', async () => {
      const file = await writeCliConfig(folder, await withService());
      const text = await readFile(file, 'utf8');
      await writeFile(file, text.replace('id: c-news', 'id: c-wiki'));
      const result = await callCli(['sync', 'newsletter', '--config', file], {
        cwd: folder,
        env: { SECRET: cliSecret },
      });
      expect(result.code).toBe(2);
      expect(result.stderr).toContain('c-wiki is of the type workspace-notes');
      expect(result.stderr).toContain('the config says email-marketing');
    });

    it('makes as many calls as allowed for all connectors together, and the next sync resumes', async () => {
      const url = await withService();
      const first = await sync(url, ['--max-calls', '5', '--json']);
      expect(first.code).toBe(0);
      const reports = reportsIn(first);
      expect(reports.map(({ connector }) => connector)).toEqual(['newsletter']);
      expect(reports).toMatchObject([{ outcome: 'partial', calls: 5 }]);
      expect(jsonLines(first).at(-1)).toEqual({ kind: 'run-skipped', connector: 'wiki', because: 'budget' });

      // The one that was left out goes first now.
      const second = reportsIn(await sync(url, ['--max-calls', '1000', '--json']));
      expect(second).toMatchObject([
        { connector: 'wiki', outcome: 'ok', left: [] },
        { connector: 'newsletter', outcome: 'ok', continues: reports[0]?.['run'], left: [] },
      ]);
    });

    it('tells with a budget too what is wrong with a sink for each connector that it comes to', async () => {
      await writeFile(join(folder, 'main.db'), 'no database, but a file of another program');
      const { code, stderr } = await sync(await withService(), ['--max-calls', '12']);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/^newsletter: .*main\.db/m);
      expect(stderr).toMatch(/^wiki: .*main\.db/m);
    });

    it('ends with 6 while a guard withholds deletes, says what to do, and lets them pass with --allow-deletes', async () => {
      const url = await withService();
      const file = await writeCliConfig(folder, url, {
        more: 'guards: { maxDeleteShare: 0, minDeleteRows: 0 }\n',
      });
      const call = (...args: string[]): Promise<CliResult> =>
        callCli([...args, '--config', file], { cwd: folder, env: { SECRET: cliSecret } });
      expect((await call('sync', 'newsletter')).code).toBe(0);
      plantCampaign('zz-gone');
      const kept = await call('sync', 'newsletter', '--full');
      expect(kept.code).toBe(6);
      expect(kept.stdout).toContain(
        '! campaigns: 1 row looks deleted and is kept (of 6 rows a day ago, limit: more than 0 % and more than 0 rows in 24 hours)',
      );
      expect(kept.stdout).toContain('sync newsletter --allow-deletes');
      expect((await call('status', 'newsletter')).stdout).toContain(
        '! campaigns: 1 row looks deleted and is kept (of 6 rows a day ago',
      );
      const passed = await call('sync', 'newsletter', '--full', '--allow-deletes', '--json');
      expect(passed.code).toBe(0);
      expect(entityIn(passed, 'campaigns')).toMatchObject({ deleted: 1, withheld: 0 });
      expect((await call('status', 'newsletter')).stdout).not.toContain('looks deleted');
    });

    it('ends with 2 for a connector that is not in the config', async () => {
      const result = await sync('http://127.0.0.1:9', ['newsleter', '--json']);
      expect(result.code).toBe(2);
      expect(jsonLines(result)).toMatchObject([
        {
          error: { code: 'USAGE', message: expect.stringContaining('did you mean "newsletter"?') as string },
        },
      ]);
    });

    // Proves promise 11
    it('ends with 5 while another process holds the connector, and names it', async () => {
      const url = await withService();
      await using sink = await openSink(
        { type: 'sqlite', name: 'main', path: join(folder, 'main.db'), durability: 'normal' },
        { clock: systemClock },
      );
      await using lease = await sink.acquire(newsletterIdentity(url));
      const result = await sync(url, ['newsletter', '--json']);
      expect(lease.epoch).toBeGreaterThan(0);
      expect(result.code).toBe(5);
      expect(jsonLines(result)).toMatchObject([
        {
          kind: 'run-error',
          connector: 'newsletter',
          error: { code: 'CONNECTOR_BUSY', context: { pid: process.pid } },
        },
      ]);
    });

    it('checkpoints on Ctrl-C, ends with 130, and the next sync resumes there', async () => {
      const url = await withService({ latencyMs: 60 });
      const file = await writeCliConfig(folder, url);
      const args = ['sync', 'newsletter', '--config', file, '--json', '--select', 'list*'];
      const options = { cwd: folder, env: { SECRET: cliSecret } };
      const running = startCli(args, options);
      await running.until('"page-committed"');
      running.child.kill('SIGINT');
      const first = await running.result;
      expect(first.code).toBe(130);
      expect(first.stderr).toContain('Run the same command again to resume');
      const report = jsonLines(first).at(-1);
      expect(report).toMatchObject({ kind: 'run-report', report: { outcome: 'interrupted' } });

      const second = await callCli(args, options);
      expect(second.code).toBe(0);
      const [started] = jsonLines(second);
      expect(started).toMatchObject({ kind: 'run-started', continues: runOf(report) });
    });
  });

  async function withService(options: { readonly latencyMs?: number } = {}): Promise<string> {
    service = await startCliService(options);
    return service.url;
  }

  async function sync(
    url: string,
    args: readonly string[],
    secret = cliSecret,
    call = callCli,
  ): Promise<CliResult> {
    // Flags choose from all entities.
    const isWhole = args.includes('--select') || args.includes('--exclude');
    const file = await writeCliConfig(folder, url, { isWhole });
    return call(['sync', ...args, '--config', file], { cwd: folder, env: { SECRET: secret } });
  }

  function newsletterIdentity(
    baseUrl: string,
  ): Parameters<Awaited<ReturnType<typeof openSink>>['acquire']>[0] {
    const definition = loadDefinitions([builtInDefinitionsFolder]).get('email-marketing');
    const [connector, connectorId] = ['newsletter', 'c-news'];
    if (definition === undefined || !isConnectorName(connector) || !isConnectorId(connectorId)) {
      throw new Error('the fixture should name what exists');
    }
    return {
      connector,
      baseUrl,
      connectorId,
      definition: definition.name,
      definitionHash: definition.contentHash,
      holder: { pid: process.pid, host: 'here', command: 'a test', since: '2026-01-01T00:00:00.000Z' },
    };
  }

  function reportsIn(result: CliResult): readonly Record<string, unknown>[] {
    return jsonLines(result)
      .filter(({ kind }) => kind === 'run-report')
      .map(({ report }) => report as Record<string, unknown>);
  }

  function entityIn(result: CliResult, name: string): unknown {
    const entities = reportsIn(result).flatMap(
      ({ entities }) => entities as readonly Record<string, unknown>[],
    );
    return entities.find(({ entity }) => entity === name);
  }

  /** A stored row that the service does not have: as if it had been deleted there since. */
  function plantCampaign(id: string): void {
    const db = new Database(join(folder, 'main.db'));
    db.prepare(
      `INSERT INTO newsletter__campaigns (id, _first_seen_at, _changed_at, _run_id, _seq, _hash, _partition)
     SELECT ?, '2020', '2020', '', 1, 'x', id FROM _sync_partitions WHERE entity = 'campaigns'`,
    ).run(id);
    db.exec("UPDATE _sync_tables SET rows = rows + 1 WHERE entity = 'campaigns'");
    db.close();
  }

  function runOf(line: Record<string, unknown> | undefined): unknown {
    const report = line?.['report'];
    return typeof report === 'object' && report !== null && 'run' in report ? report.run : null;
  }
});

it('sync ends with 3 and says until when it was put off, also before a run has begun', async ({ folder }) => {
  await using server = await startHostileServer({ respondToken: () => throttled({ seconds: 60 }) });
  const config = await writeCliConfig(folder, server.baseUrl);
  const before = Date.now();
  const { code, stderr } = await callCli(['sync', 'newsletter', '--config', config], {
    cwd: folder,
    env: { SECRET: cliSecret },
  });
  expect(code).toBe(3);
  const [, until = ''] = /the API asked to wait until (\S+Z), run it again then/.exec(stderr) ?? [];
  expect(Date.parse(until)).toBeGreaterThanOrEqual(before + 60_000);
});

describe('rates', () => {
  const password = 'redis-password-of-this-test';

  let folder: string;
  let service: Service;

  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    service = await startCliService();
  });

  afterEach(() => service.close());

  async function sync(redis: string): Promise<CliResult> {
    const config = await writeCliConfig(folder, service.url, { usesRedis: true });
    return await callCli(['sync', 'wiki', '--select', 'users', '--config', config, '--json'], {
      cwd: folder,
      env: { SECRET: cliSecret, REDIS: redis },
    });
  }

  it('sync shares its rate through the Redis of the config', async () => {
    await using redis = await startRedis({ password });
    const client = new Redis(redis.url);
    try {
      const { code, stderr } = await sync(redis.url);
      expect([code, stderr]).toEqual([0, expect.stringMatching(/^wiki: made the sink main: \S+\n$/)]);
      expect(await client.info('commandstats')).toContain('cmdstat_eval');
    } finally {
      client.disconnect();
    }
  });

  it('sync continues with its own rate if that Redis does not answer, and reports it once', async () => {
    const { code, stderr } = await sync(`redis://:${password}@127.0.0.1:${await freePort()}`);
    expect(code).toBe(0);
    expect(stderr.match(/Rate limits are not shared with other processes/g)).toHaveLength(1);
    expect(stderr).not.toContain(password);
  });
});

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

it('says which attempt failed while the API is away', { timeout: 120_000 }, async ({ folder }) => {
  const port = await freePort();
  const config = await writeCliConfig(folder, `http://127.0.0.1:${port}`);
  const start = () =>
    startCli(['sync', 'newsletter', '--select', 'lists', '--config', config], {
      cwd: folder,
      env: { SECRET: cliSecret },
    });
  const showsIt = (one: ReturnType<typeof start>) =>
    one.until('of 6, next').then(
      () => true,
      () => false,
    );
  let running = start();
  // Waits are random: all six attempts may fail before the first line, which comes after ten seconds.
  for (let more = 4; more > 0 && !(await showsIt(running)); more -= 1) running = start();
  const service = await startCliService({ port });
  const { code, stdout, stderr } = await running.result;
  await service.close();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^newsletter: ok in /m);
  const away = stderr.split('\n').find((line) => line.includes('attempt')) ?? '';
  expect(away).toMatch(
    /^newsletter {2}1\d\.\d s: get an application token: connection refused \(ECONNREFUSED\), attempt \d of 6, next (in \d+ s|one now)$/,
  );
  expect(away).not.toContain('0 records');
});

it('reports how many records the service counts, and reads the same as without', async ({ folder }) => {
  const totals = async (name: string, say: (records: readonly JsonObject[]) => number | null) => {
    await using service = await startCliService({
      wrap: (account) => ({
        ...account,
        list: (entity, params) => {
          const records = account.list(entity, params).slice(0, Infinity);
          const total = say(records);
          return listingOf(records, total === null ? null : { total_items: total });
        },
      }),
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
        .filter(({ entity }) => entity === 'lists')
        .reduce((all, { records }) => all + Number(records), 0);
    const read = of('page-committed')
      .filter(({ entity }) => entity === 'lists')
      .reduce((all, { counts }) => {
        const { fetched = 0, duplicate = 0 } = counts as Record<string, number>;
        return all + fetched - duplicate;
      }, 0);
    return { counted: sum('listing-counted'), read };
  };
  const plain = await totals('plain', () => null);
  const counting = await totals('counting', (records) => records.length);
  expect(plain.counted).toBe(0);
  expect(counting.counted).toBe(plain.read);
  expect(counting.read).toBe(plain.read);
});
