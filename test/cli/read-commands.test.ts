import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-world.ts';
import type { SampleServer } from '../support/serve-samples.ts';
import { freePort } from '../support/redis.ts';
import { shortenWaits } from '../support/shorten-waits.ts';
import { callCli, jsonLines, type CliOptions, type CliResult } from '../support/run-cli.ts';

let folder: string;
let service: SampleServer;
let config: string;

it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  service = await startCliService();
  config = await writeCliConfig(folder, service.url);
});

afterAll(() => service.close());

describe('before the first sync', () => {
  it('status says that there is nothing, runs that there were none', async () => {
    const [status, runs] = await Promise.all([cli(['status']), cli(['runs'])]);
    expect(status).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('newsletter: new; not synced yet') as string,
    });
    expect(runs).toMatchObject({ code: 0, stdout: expect.stringContaining('No runs yet') as string });
  });

  it('check answers line by line and ends with 0', async () => {
    const result = await cli(['check', '--json']);
    expect(result.code).toBe(0);
    const [document] = jsonLines(result);
    expect(document).toMatchObject({ ok: true });
    expect(document?.['checks']).toMatchObject(
      [
        'config',
        'definitions',
        'credentials',
        'connector newsletter',
        'connector wiki',
        'pages of newsletter',
        'pages of wiki',
        'sink main',
        'disk of main',
      ].map((what) => ({ what, state: 'ok' })),
    );
  });

  it('check reports every failure and ends with 4 for wrong credentials', async () => {
    const result = await cli(['check'], { SECRET: 'not-the-secret' });
    expect(result.code).toBe(4);
    expect(result.stdout).toMatch(/^✗ credentials: /m);
    expect(result.stdout).toMatch(/^- connector newsletter: /m);
    expect(result.stdout).toMatch(/^✓ sink main: /m);
    expect(result.stdout + result.stderr).not.toContain('not-the-secret');
  });
});

describe('live reads', () => {
  it('list prints a page, a record per line', async () => {
    const result = await cli(['list', 'newsletter/lists', '--param', 'count=2']);
    expect(result.code).toBe(0);
    const records = jsonLines(result);
    expect(records.length).toBeGreaterThan(0);
    expect(records.length).toBeLessThanOrEqual(2);
    expect(records[0]).toHaveProperty('id');
    expect(result.stderr).toContain(`${records.length} records`);
  });

  it('get prints one record, and says when there is none', async () => {
    const [first] = jsonLines(await cli(['list', 'wiki/users', '--param', 'page_size=1']));
    const id = String(first?.['id']);
    const [found, missing] = await Promise.all([
      cli(['get', 'wiki/users', '--param', `user_id=${id}`, '--json']),
      cli(['get', 'wiki/users', '--param', 'user_id=00000000-0000-4000-8000-000000000000', '--json']),
    ]);
    expect(jsonLines(found)).toMatchObject([{ record: { id } }]);
    expect(missing.code).toBe(1);
    expect(jsonLines(missing)).toMatchObject([{ error: { code: 'NOT_FOUND' } }]);
  });

  it.each<[string, readonly string[], string]>([
    ['an entity that does not exist', ['list', 'newsletter/lits'], 'did you mean "lists"'],
    ['a parameter that is not declared', ['list', 'newsletter/lists', '--param', 'page=1'], 'page'],
    ['a required parameter that is missing', ['list', 'newsletter/list_members'], 'list_id: is missing'],
    ['an action that the entity lacks', ['get', 'newsletter/tags', '--param', 'id=1'], 'not get'],
  ])('refuses %s before any call', async (_, args, named) => {
    const calls = service.requestCount();
    const result = await cli(args);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(named);
    expect(service.requestCount()).toBe(calls);
  });

  it('names the API that is not there, and reports each wait', async () => {
    shortenWaits(0.001);
    const file = join(folder, 'gone.yaml');
    const url = `http://127.0.0.1:${await freePort()}`;
    await writeFile(file, (await readFile(config, 'utf8')).replace(service.url, `${url}/prefix`));
    const result = await callCli(
      ['list', 'newsletter/lists', '--config', file],
      optionsWith({ SECRET: cliSecret }),
    );
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/connection refused \(ECONNREFUSED\), attempt \d of 6, next in \d+ s$/m);
    expect(result.stderr).toMatch(
      /Error: http:\S+: .*connection refused \(ECONNREFUSED\) \(6 attempts\)\. Is api\.baseUrl right, is the service running/,
    );
  });
});

describe('after a sync', () => {
  it('status counts what is stored, runs lists the runs and shows the report of one', async () => {
    const synced = await cli(['sync', 'wiki', '--json']);
    const report = jsonLines(synced).at(-1)?.['report'] as {
      run: string;
      entities: { entity: string; counts: { inserted: number } }[];
    };
    const inserted = report.entities.find(({ entity }) => entity === 'users')?.counts.inserted ?? 0;

    const [status, runs, one, none] = await Promise.all([
      cli(['status', 'wiki', '--json']),
      cli(['runs', '--json']),
      cli(['runs', report.run]),
      cli(['runs', 'no-such-run']),
    ]);
    const [document] = jsonLines(status);
    expect(document).toMatchObject({
      connectors: [{ connector: 'wiki', sink: 'main', status: { lastRun: { state: 'ok' } }, failures: [] }],
    });
    expect(JSON.stringify(document)).toContain(`"entity":"users","rows":${inserted},`);
    expect(jsonLines(runs)).toMatchObject([{ runs: [{ run: report.run, connector: 'wiki', state: 'ok' }] }]);
    expect(one.stdout).toMatch(new RegExp(`^wiki: ok in .*run ${report.run}$`, 'm'));
    expect(none.code).toBe(2);
  });

  it('status shows the newest quarantined records, inert, and where all of them are', async () => {
    const database = join(folder, 'main.db');
    quarantine(database, 'wiki', 5);
    const [status, asJson] = await Promise.all([cli(['status', 'wiki']), cli(['status', 'wiki', '--json'])]);
    expect(status.stdout).toContain(
      `5 records in quarantine, kept whole in the table _sync_quarantine of ${database}; the newest:\n` +
        '    pages key-type: number 5 \ufffd[31m\n    pages key-type: number 4 \ufffd[31m\n    pages key-type: number 3 \ufffd[31m\n',
    );
    expect(jsonLines(asJson)[0]).toMatchObject({
      connectors: [
        { quarantine: [{ entity: 'pages', reason: 'key-type', detail: 'number 5 \u001b[31m' }, {}, {}] },
      ],
    });
    expect(asJson.stdout).not.toContain('personal');
  });

  it('check fails with 2 where the sink holds the connector under another identity', async () => {
    const file = join(folder, 'other.yaml');
    await writeFile(file, (await readFile(config, 'utf8')).replace('workspace: default', 'id: c-news'));
    const result = await callCli(['check', '--config', file], optionsWith({ SECRET: cliSecret }));
    expect(result.code).toBe(2);
    expect(result.stdout).toMatch(/^✗ connector wiki: connector c-news is of the type email-marketing/m);
    const offline = await callCli(['check', '--config', file], optionsWith({ SECRET: 'wrong' }));
    expect(offline.code).not.toBe(0);
    expect(offline.stdout).toMatch(/^- connector newsletter: no token/m);
  });
});

function cli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = { SECRET: cliSecret },
): Promise<CliResult> {
  return callCli([...args, '--config', config], optionsWith(env));
}

function optionsWith(env: Readonly<Record<string, string>>): CliOptions {
  return { cwd: join(folder), env };
}

/** As a run leaves them: the last one is the newest. */
function quarantine(file: string, connector: string, records: number): void {
  const db = new Database(file);
  const keep = db.prepare(
    `INSERT INTO _sync_quarantine
       (connector, entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run)
     VALUES (?, 'pages', ?, 'key-type', ?, '{"personal":true}', ?, ?, 'r')`,
  );
  for (let number = 1; number <= records; number += 1) {
    const at = `2026-03-01T10:00:0${number}.000Z`;
    keep.run(connector, String(number), `number ${number} \u001b[31m`, at, at);
  }
  db.close();
}
