import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openJournal } from '../../src/app/journal-writer.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { ApiError } from '../../src/service/api-error.ts';
import { openExistingHistory } from '../../src/sinks/registry.ts';
import { mostJournalBytes, mostJournaled, parseJournal } from '../../src/sinks/run-journal.ts';
import { openCliWorld, type CliWorld, type CliWorldOptions } from '../support/cli-world.ts';
import { describedService } from '../support/described/described-service.ts';
import { startCli } from '../support/run-cli.ts';
import type { SampleSinkType } from '../support/sample-sinks.ts';

async function worldOf(options: CliWorldOptions): Promise<CliWorld> {
  const world = await openCliWorld(options);
  onTestFinished(() => world[Symbol.asyncDispose]());
  return world;
}

/** The newest runs of a config's first sink, newest first, with their journals. */
async function journalsOf({
  config,
  env = {},
}: {
  readonly config: string;
  readonly env?: Record<string, string>;
}) {
  const [sink] = readSettings({ file: config, env }).sinks.values();
  if (sink === undefined) throw new Error('no sink');
  await using history = await openExistingHistory(sink);
  const runs = (await history?.runs({ limit: 100 })) ?? [];
  return await Promise.all(
    runs.map(async (run) => ({ ...run, journal: (await history?.journal(run.run)) ?? null })),
  );
}

describe.each<SampleSinkType>(['sqlite', 'jsonl', 'postgres'])('in a sink of type %s', (sink) => {
  it('is kept of a run: its requests, what it was asked to wait for, and what failed', async () => {
    let calls = 0;
    const world = await worldOf({
      sink,
      wrap: (account) => ({
        ...account,
        list: (entity, params) => {
          calls += 1;
          if (calls === 2) throw new ApiError(429, 'Too fast', { headers: { 'retry-after': '1' } });
          if (entity === 'campaigns') throw new ApiError(403, 'No right to campaigns');
          return account.list(entity, params);
        },
      }),
    });
    expect((await world.cli('sync', 'newsletter')).code).toBe(3);
    const [run] = await journalsOf(world);
    const { journal, report } = run ?? {};
    const { requests = [], lines = [], statuses = {}, waits = [], pausedMs } = journal ?? {};
    expect(requests.length).toBe(report?.calls);
    expect(Object.values(statuses).reduce((sum, one) => sum + one, 0)).toBe(report?.calls);
    expect(statuses).toMatchObject({ 429: 1, 403: expect.any(Number) as number });
    expect(requests).toContainEqual(
      expect.objectContaining({
        method: 'POST',
        address: '/api/v1/integrations/connectors/c-news/execute list lists',
        status: 200,
      }),
    );
    const read = report?.entities.reduce((sum, { counts }) => sum + counts.fetched, 0);
    expect(requests.reduce((sum, { records }) => sum + (records ?? 0), 0)).toBe(read);
    expect(pausedMs).toBe(1000);
    expect(Math.max(...waits.map(({ limitMs }) => limitMs))).toBeGreaterThan(900);
    expect(waits.find(({ entity }) => entity === 'lists')).toMatchObject({
      requests: expect.any(Number) as number,
      sinkMs: expect.any(Number) as number,
    });
    const told = lines.map(({ level, text }) => `${level} ${text}`);
    expect(told[0]).toMatch(/^info run started, \d+ listings? to read$/);
    expect(told).toContain('warn the service asked to wait 1.0 s');
    expect(told.join('\n')).toMatch(
      /^warn campaigns: a listing failed \(FORBIDDEN\): .*No right to campaigns/m,
    );
  });

  it('of a run that was killed is as it was up to two seconds before', async () => {
    const world = await worldOf({ sink, latencyMs: 600, size: 'small' });
    const running = startCli(['sync', 'newsletter', '--config', world.config, '--json'], {
      cwd: world.folder,
      env: world.env,
    });
    await running.until('"run-started"');
    await expect
      .poll(async () => (await journalsOf(world))[0]?.journal?.requests.length ?? 0, { timeout: 15_000 })
      .toBeGreaterThan(0);
    running.child.kill('SIGKILL');
    await running.result;
    const [killed] = await journalsOf(world);
    expect(killed).toMatchObject({ state: 'running', report: null });
    expect(killed?.journal?.lines[0]?.text).toContain('run started');
  }, 40_000);
});

it('is kept of the newest twenty runs of a connector, and goes with its records', async () => {
  const world = await worldOf({});
  expect((await world.cli('sync', 'wiki')).code).toBe(0);
  for (let run = 0; run < 21; run += 1) expect((await world.cli('sync', 'newsletter')).code).toBe(0);
  const kept = async (name: string) =>
    (await journalsOf(world)).flatMap(({ connector, journal }) =>
      connector === name ? [journal !== null] : [],
    );
  expect(await kept('newsletter')).toEqual([...Array<boolean>(20).fill(true), false]);
  expect(await kept('wiki')).toEqual([true]);
  const db = new Database(join(world.folder, 'main.db'), { readonly: true });
  const id = db.prepare('SELECT id FROM newsletter__lists').pluck().get();
  db.close();
  const purged = await world.cli('purge', 'newsletter/lists', '--key', `id=${String(id)}`);
  expect([purged.code, purged.stdout]).toEqual([0, expect.stringContaining('lists')]);
  expect(new Set(await kept('newsletter'))).toEqual(new Set([false]));
  expect(await kept('wiki')).toEqual([true]);
});

it('is kept of a run that could not begin', async () => {
  const service = await describedService({
    definition: keyed,
    credentials: { api_key: 'k', account: 'a' },
    respond: () => ({ status: 401, body: { error: 'unknown key' } }),
  });
  expect((await service.cli('sync')).code).toBe(4);
  const [failed] = await journalsOf({ config: join(service.folder, 'sync.yaml'), env: { SECRET: 'hush' } });
  expect(failed).toMatchObject({ state: 'failed', report: { error: { code: 'AUTH_FAILED' } } });
  expect(failed?.journal?.requests).toMatchObject([{ method: 'GET', address: '/me', status: 401 }]);
});

const keyed = `
credentials: [{ title: Key, fields: { api_key: {}, account: {} } }]
entities:
  folders: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
  notes:
    fields: { id: string, folder: string }
    key: [id]
    parents: [{ entity: folders, params: { folder: id }, inject: { folder: folder } }]
    actions: { list: { params: { folder: { type: string, required: true }, cursor: string } } }
    pagination: { kind: pageToken, tokenParam: cursor, tokenKeys: [next] }
upstream:
  baseUrl: $ORIGIN
  headers: { X-Account: { field: account } }
  auth: { Key: { kind: query, name: apikey, value: { field: api_key } } }
  check: { path: /me, identity: id }
  limits: { concurrency: 1, requestsPerSecond: 1000, timeoutMs: 5000, maxBodyBytes: 1048576 }
  message: [error]
  entities:
    folders: { list: { path: /folders, records: '' } }
    notes: { list: { path: '/folders/{folder}/notes', records: items, paging: { kind: nextUrl, path: next, keep: any } } }
`;

it('holds no credential, no parameter and no value, wherever a request carried them', async () => {
  const canary = (where: string): string => `canary-${where}-${randomBytes(4).toString('hex')}7`;
  const secrets = { api_key: canary('key'), account: canary('account') };
  const [folder, token, person] = [canary('folder'), canary('token'), canary('person')];
  const service = await describedService({
    definition: keyed,
    credentials: secrets,
    respond: ({ path, query, headers }) => {
      if (path === '/me') return { body: { id: 'a' } };
      if (path === '/folders') return { body: [{ id: folder }] };
      const isFirst = !query.has('after');
      return isFirst
        ? {
            body: {
              items: [{ id: person }],
              next: `http://${String(headers.host)}/folders/${folder}/notes?after=${token}&${token}`,
            },
          }
        : { status: 400, body: { error: `no page of ${person}@example.com with ${secrets.api_key}` } };
    },
  });
  await service.cli('sync');
  const [run] = await journalsOf({ config: join(service.folder, 'sync.yaml'), env: { SECRET: 'hush' } });
  const text = JSON.stringify(run?.journal);
  expect(run?.journal?.requests.map(({ address }) => address)).toContain('/folders/{folder}/notes');
  expect(text).not.toContain('canary');
});

describe('in memory', () => {
  const entity = 'notes' as EntityName;

  function open() {
    return openJournal('mine' as ConnectorName, { clock: systemClock, command: 'sync' });
  }

  it('counts the rows that a run in progress has deleted', () => {
    const journal = open();
    for (const rows of [3, 4]) journal.onEvent({ kind: 'rows-deleted', entity, rows });
    expect(parseJournal(journal.text() ?? '')?.progress.deleted).toBe(7);
  });

  it('keeps the newest 500 requests and lines, counts all, and stays below 1 MiB whatever they hold', () => {
    const journal = open();
    const facts = { entity, address: '€'.repeat(10_000), waitedMs: 1 };
    for (let call = 1; call <= 2_000; call += 1) {
      journal.onExchange(
        { method: 'GET', url: '', body: null, status: 200, ms: call, wireBytes: 10, keys: null },
        facts,
      );
      journal.onEvent({ kind: 'walk-restarted', entity, params: {}, why: '\u0000€'.repeat(5_000) });
    }
    const text = journal.text() ?? '';
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(mostJournalBytes);
    const kept = parseJournal(text);
    expect(kept).toMatchObject({
      statuses: { 200: 2_000 },
      slowestMs: 2_000,
      waits: [{ entity, requests: 2_000, apiMs: 2_001_000, limitMs: 2_000 }],
    });
    expect(kept?.requests.at(-1)?.ms).toBe(2_000);
    expect(kept?.lines.length).toBeGreaterThan(100);

    const short = open();
    for (let call = 1; call <= 2_000; call += 1) {
      short.onExchange(
        { method: 'GET', url: '', body: null, status: 200, ms: call, wireBytes: 10, keys: null },
        { ...facts, address: '/notes' },
      );
    }
    const shown = parseJournal(short.text() ?? '')?.requests ?? [];
    expect([shown.length, shown[0]?.ms, shown.at(-1)?.ms]).toEqual([mostJournaled, 1_501, 2_000]);
    expect(short.text(), 'nothing was added').toBeNull();
  });
});
