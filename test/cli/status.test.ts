import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect } from 'vitest';
import { userInfo } from 'node:os';
import { existsSync } from 'node:fs';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { RunOutcome } from '../../src/sinks/run-report.ts';
import { Bench, entityReport, identity, members, report, type SinkKind } from '../contracts/sink/fixture.ts';
import { cliSecret, writeCliConfig, openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, startCli, type CliResult, type RunningCli } from '../support/run-cli.ts';
import { startRedis } from '../support/redis.ts';
import { declarationOf } from '../../src/cli/commands/schema-diff.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { listingOf } from '../support/listing-of.ts';

describe('many connectors', () => {
  const env = { SECRET: cliSecret };
  /** Every 50th of 120 has failed, every 100th of the others is degraded; of the first one is paused, one late. */
  const names = Array.from({ length: 120 }, (_, index) => `shop-${String(index).padStart(3, '0')}`);
  const ended = (index: number): RunOutcome =>
    index % 50 === 7 ? 'failed' : index % 100 === 9 ? 'degraded' : 'ok';
  /** Deletes of the fourth wait for a person. */
  const failing = names.filter((_, index) => ended(index) !== 'ok' || index === 3);

  let folder: string;
  let config: string;

  it.beforeAll(async ({ fileFolder: made }) => {
    folder = made;
    config = join(folder, 'sync.yaml');
    await writeFile(
      config,
      `api: { baseUrl: "http://127.0.0.1:9", clientId: local, clientSecret: "\${SECRET}" }
sinks:
  even: { type: sqlite, path: ./even.db, durability: normal }
  odd: { type: jsonl, directory: ./odd, durability: normal }
defaults: { definition: document-library, sink: even }
connectors:
  wiki: { definition: workspace-notes, id: c-wiki }
${names.map((name, index) => `  ${name}: { id: ${name}${index % 2 === 0 ? '' : ', sink: odd'}${index === 2 ? ', freshWithin: 1d' : ''} }`).join('\n')}
`,
    );
    const settings = loadSettings({ file: config, env });
    const bench = new Bench({} as SinkKind);
    for (const settingsOfSink of settings.sinks.values()) {
      const sink = await openSink(settingsOfSink, { clock: systemClock });
      for (const [index, text] of names.entries()) {
        const name = text as ConnectorName;
        if (settings.connectors.get(name)?.sink.name !== settingsOfSink.name) continue;
        const lease = await sink.acquire(identity({ connector: name }));
        const plan = bench.plan(`run-${name}`);
        await sink.startRun(lease, plan);
        const entities = [{ ...entityReport(members, {}), withheld: index === 3 ? 5 : 0 }];
        const change = { connector: name, outcome: ended(index), entities };
        await sink.finish(lease, plan.run, report({ lease, run: plan.run }, change));
        if (index === 1) await sink.pause([name], { since: '2026-01-01T00:00:00.000Z', reason: 'why' });
        await lease[Symbol.asyncDispose]();
      }
      await sink[Symbol.asyncDispose]();
    }
    await bench.close();
  });

  function cli(...args: readonly string[]): Promise<CliResult> {
    return callCli([...args, '--config', config], { cwd: folder, env });
  }

  async function listed(...args: readonly string[]): Promise<{
    readonly names: readonly unknown[];
    readonly total: unknown;
    readonly counts: unknown;
  }> {
    const [document] = jsonLines(await cli(...args, '--json'));
    const connectors = document?.['connectors'] as readonly { readonly connector: string }[];
    return {
      names: connectors.map(({ connector }) => connector),
      total: document?.['total'],
      counts: document?.['counts'],
    };
  }

  describe('status of many connectors', () => {
    // Proves promise 12.1
    it('shows the first hundred, and says how all of them stand', async () => {
      const { names: shown, total, counts } = await listed('status');
      expect(shown).toEqual(['wiki', ...names.slice(0, 99)]);
      expect(total).toBe(121);
      expect(counts).toEqual({
        failed: 3,
        late: 1,
        incomplete: 3,
        paused: 1,
        running: 0,
        new: 1,
        ok: 112,
      });
      const { stderr } = await cli('status');
      expect(stderr).toContain(
        `100 of 121 shown. Of all: 3 failed, 1 late, 3 incomplete, 1 paused, 1 new, 112 ok. "--limit 0" shows all.`,
      );
      expect((await listed('status', '--limit', '0')).names).toEqual(['wiki', ...names]);
    });

    it('shows only those that fail, those that are late, or both', async () => {
      expect((await listed('status', '--failing')).names).toEqual(failing);
      expect((await listed('status', '--late')).names).toEqual(['shop-002']);
      expect((await listed('status', '--failing', '--late')).names).toEqual(['shop-002', ...failing]);
      expect((await cli('status', '--late')).stderr).toContain('1 shown. Of all: 3 failed, ');
    });

    it('takes globs of names', async () => {
      const tens = names.filter((name) => name.startsWith('shop-01'));
      expect((await listed('status', 'wiki', 'shop-01*')).names).toEqual(['wiki', ...tens]);
      expect((await listed('status', '*-007', 'shop-007')).names).toEqual(['shop-007']);
      const { code, stderr } = await cli('status', 'nothing*');
      expect(code).toBe(2);
      expect(stderr).toContain('No connector matches "nothing*"; the config has wiki, shop-000, ');
      expect(stderr).toContain('shop-018 and 101 more.');
    });

    it('ends with 2 for a limit that is no number', async () => {
      const { code, stderr } = await cli('status', '--limit', 'all');
      expect([code, stderr]).toEqual([2, expect.stringContaining('--limit: expected a whole number from 0')]);
    });
  });

  it('status says nothing of pages where everything is shown', async () => {
    const { stdout, stderr } = await cli('status', 'shop-00*');
    expect(stdout.split('\n').filter((line) => line.startsWith('shop-'))).toHaveLength(10);
    expect(stderr).toBe('');
  });
});

describe('several sinks', () => {
  let folder: string;
  let config: string;

  /** The wiki's sink is a server that does not answer; status asks no API. */
  it.beforeEach(async ({ folder: made }) => {
    folder = made;
    config = await writeCliConfig(folder, 'http://127.0.0.1:1');
    const text = await readFile(config, 'utf8');
    const away =
      '  away: { type: postgres, url: "postgresql://sync@127.0.0.1:1/warehouse", schema: raw }\nconnectors:\n';
    await writeFile(
      config,
      text
        .replace('connectors:\n', away)
        .replace('workspace: default\n    sink: main', 'workspace: default\n    sink: away'),
    );
  });

  function status(...args: readonly string[]): Promise<CliResult> {
    return callCli(['status', ...args, '--config', config], { cwd: folder, env: { SECRET: cliSecret } });
  }

  it('shows the connectors of other sinks when one cannot be read, and ends with 1', async () => {
    const { code, stdout, stderr } = await status();
    expect(stdout).toContain('newsletter');
    expect(stdout).not.toContain('wiki');
    expect(stderr).toMatch(/^Not shown: 1 connector of the sink "away"\. .*127\.0\.0\.1:1/m);
    expect(code).toBe(1);

    const [document] = jsonLines(await status('--json'));
    expect(document).toMatchObject({
      connectors: [{ connector: 'newsletter' }],
      total: 1,
      unreadableSinks: [{ sink: 'away', connectors: ['wiki'], error: { code: 'SINK_FAILED' } }],
    });
  });

  it('fails as a whole when no sink of the requested connectors can be read', async () => {
    const { code, stdout, stderr } = await status('wiki');
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^Error: .*127\.0\.0\.1:1/);
    expect(code).toBe(1);
    expect((await status('newsletter')).code).toBe(0);
  });
});

describe('cancel', () => {
  let world: CliWorld;
  beforeEach(async () => {
    // Slow enough for a run to last until it is cancelled.
    world = await openCliWorld({ latencyMs: 1_000 });
  });
  afterEach(() => world[Symbol.asyncDispose]());
  const start = (...args: readonly string[]): RunningCli =>
    startCli([...args, '--config', world.config], { cwd: world.folder, env: world.env });

  it("runs takes a run's id alone", async () => {
    const { code, stderr } = await world.cli('runs', '20261121T152528492Z-4b72c77d', 'wiki');
    expect(code).toBe(2);
    expect(stderr).toContain("Expected a run's id alone, got more.");
  });

  /** The id of the newest run. */
  async function newestRun(): Promise<{ readonly run: string; readonly state: string }> {
    const [document = {}] = jsonLines(await world.cli('runs', '--limit', '1', '--json'));
    const [run] = document['runs'] as readonly { readonly run: string; readonly state: string }[];
    if (run === undefined) throw new Error('expected a run in the ledger');
    return run;
  }

  it('cancel ends a sync of another process after a checkpoint, and the next one resumes', async () => {
    const syncing = start('sync', 'newsletter', '--json');
    await syncing.until('"kind":"page-committed"');
    const { run } = await newestRun();
    const { code, stdout } = await world.cli('cancel', run);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `newsletter: run ${run} stops at its next page, within seconds; what is stored stays.\n`,
    );
    const result = await syncing.result;
    expect(result.code).toBe(130);
    expect(result.stderr).toContain('newsletter: cancelled on request; what is stored stays');
    expect(jsonLines(result).at(-1)).toMatchObject({
      kind: 'run-report',
      report: { outcome: 'interrupted' },
    });

    const over = await world.cli('cancel', run);
    expect(over.code).toBe(2);
    expect(over.stderr).toContain(`Run ${run} of newsletter is not running: it ended interrupted at 20`);

    const next = await world.cli('sync', 'newsletter', '--json');
    expect(next.code).toBe(0);
    expect(jsonLines(next)[0]).toMatchObject({ kind: 'run-started', continues: run });
  }, 60_000);

  it('cancel ends a run of a worker, which is not retried', async () => {
    await using redis = await startRedis();
    const text = await readFile(world.config, 'utf8');
    const scheduled = text.replace('    id: c-news\n', '    id: c-news\n    schedule: { every: 1h }\n');
    await writeFile(world.config, `${scheduled}redis: { url: "${redis.url}" }\n`);
    const worker = start('worker');
    await worker.until('"event":"run-started"');
    const { run } = await newestRun();
    expect((await world.cli('cancel', run)).code).toBe(0);
    await worker.until('"msg":"run ended"');
    worker.child.kill('SIGTERM');
    const { code, stderr } = await worker.result;
    expect(code).toBe(0);
    expect(stderr).toContain(`"outcome":"interrupted","run":"${run}"`);
    expect(stderr.match(/"event":"run-started"/g)).toHaveLength(1);
    expect(await newestRun()).toMatchObject({ run, state: 'interrupted' });
  }, 60_000);

  it('cancel reports that the process of a run no longer exists', async () => {
    const syncing = start('sync', 'newsletter', '--json');
    await syncing.until('"kind":"run-started"');
    syncing.child.kill('SIGKILL');
    await syncing.result;
    const { run } = await newestRun();
    const { code, stdout } = await world.cli('cancel', run);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `newsletter: the process of run ${run} (${syncing.child.pid}) has ended; the next run resumes from what it stored.\n`,
    );
  });

  it('cancel ends with 2 for an unknown run', async () => {
    const { code, stderr } = await world.cli('cancel', 'nope');
    expect(code).toBe(2);
    expect(stderr).toContain('Expected the id of a run, got "nope"');
    const other = await world.cli('cancel', '20260101T000000000Z-00000000');
    expect(other.code).toBe(2);
    expect(other.stderr).toContain('No sink of the config has a run 20260101T000000000Z-00000000.');
  });
});

it('lists what people did, by whom and with which run, newest first', async () => {
  await using redis = await startRedis();
  await using world = await openCliWorld({ sink: 'sqlite', redisUrl: redis.url });
  const { stdout } = await world.cli('actions');
  expect(stdout).toContain('Nothing was done by hand yet.');
  await world.json('sync', 'newsletter', '--select', 'lists');
  const [forced] = (await world.json('sync', 'newsletter', '--select', 'lists', '--full')).slice(-1);
  await world.json('reset', 'newsletter/lists', '--yes');
  await world.json('schedule', 'pause', 'newsletter', '--reason', 'moving house');
  await world.json('schedule', 'resume', 'newsletter');
  const [listed] = await world.json('actions', 'newsletter');
  const report = forced?.['report'] as { readonly run: string } | undefined;
  expect(listed).toMatchObject({
    actions: [
      { action: 'resume' },
      { action: 'pause', connector: 'newsletter', detail: { reason: 'moving house' }, run: null },
      { action: 'reset', entity: 'lists', detail: { withData: false } },
      { action: 'read-in-full', run: report?.run },
    ],
  });
  const actions = listed?.['actions'] as readonly { readonly who: string }[];
  expect(actions.every(({ who }) => who.startsWith(`${userInfo().username}@`))).toBe(true);
  const shown = await world.cli('actions', '--limit', '2');
  expect(shown.stdout).toMatch(/pause +newsletter +reason: moving house/);
  expect(shown.stdout).not.toContain('reset');
});

describe('schema', () => {
  const odd = 'red \u001b[31m\u202e';
  let world: CliWorld;
  let edit: ((record: JsonObject) => JsonObject) | null = null;

  beforeAll(async () => {
    world = await openCliWorld({ wrap: drifting, settings: '    include: [automations]\n' });
  });
  afterAll(() => world[Symbol.asyncDispose]());

  function drifting(account: SampleAccount): SampleAccount {
    return {
      list: (entity, params) => {
        const listing = account.list(entity, params);
        if (entity !== 'automations' || edit === null) return listing;
        return listingOf(listing.slice(0, Number.POSITIVE_INFINITY).map(edit), listing.metadata);
      },
      get: (entity, params) => account.get(entity, params),
    };
  }

  const cli = (args: readonly string[]): Promise<CliResult> => world.cli(...args);

  describe('schema diff', () => {
    it('says that nothing was synced yet, and makes no sink', async () => {
      const result = await cli(['schema', 'diff']);
      expect(result.code).toBe(0);
      expect(result.stdout).toBe(
        'newsletter: not synced yet (sink main)\nwiki: not synced yet (sink main)\n',
      );
      expect(existsSync(join(world.folder, 'main.db'))).toBe(false);
    });

    it('says that there is none', async () => {
      await cli(['sync', 'newsletter', '--select', 'automations']);
      const result = await cli(['schema', 'diff', 'newsletter']);
      expect(result).toMatchObject({
        code: 0,
        stdout: 'newsletter: no drift (email-marketing, sink main)\n',
      });
      expect(jsonLines(await cli(['schema', 'diff', 'newsletter', '--json']))).toEqual([
        {
          connectors: [{ connector: 'newsletter', definition: 'email-marketing', isSynced: true, drift: [] }],
        },
      ]);
    });

    it('lists every field with its types, where it is, since when, and a line to declare it', async () => {
      edit = (record) => ({ ...record, nickname: 'x', emails_sent: 'many', [odd]: 1 });
      await cli(['sync', 'newsletter', '--select', 'automations']);
      const result = await cli(['schema', 'diff', 'newsletter']);
      expect(result.code).toBe(0);
      const [heading, ...table] = result.stdout.trimEnd().split('\n');
      expect(heading).toBe(
        'newsletter: 3 fields not declared by email-marketing (sink main); paste the last column below "fields:" to declare them',
      );
      expect(
        table.map((line) =>
          line
            .trim()
            .replaceAll(/\s{2,}/g, ' | ')
            .replace(/\d{4}-\S*Z/, 'then'),
        ),
      ).toEqual([
        'entity | field | came as | is | kept in | first seen | to declare it',
        'automations | emails_sent | string | does not fit integer | _extra | then',
        'automations | nickname | string | undeclared | _extra | then | nickname: string',
        'automations | red \ufffd[31m\ufffd | integer | undeclared | _extra | then',
      ]);
      const [document] = jsonLines(await cli(['schema', 'diff', '--json']));
      expect(document).toMatchObject({
        connectors: [
          {
            connector: 'newsletter',
            drift: [
              { entity: 'automations', field: 'emails_sent', kind: 'misfit', line: null },
              { field: 'nickname', types: ['string'], place: 'extra', line: 'nickname: string' },
              { field: odd, types: ['integer'], line: null },
            ],
          },
          { connector: 'wiki', isSynced: true, drift: [] },
        ],
      });
    });

    it('knows only connectors of the config', async () => {
      const result = await cli(['schema', 'diff', 'nobody']);
      expect(result.code).toBe(2);
      expect(result.stderr).toContain('Unknown connector "nobody"; the config has newsletter, wiki.');
    });
  });

  describe('the line that declares a field', () => {
    const undeclared = { kind: 'undeclared' } as const;

    it.each([
      [['string'], 'nick: string'],
      [['null', 'boolean'], 'nick: boolean'],
      [['integer', 'number'], 'nick: number'],
      [['integer', 'string'], 'nick: any'],
      [['null'], 'nick: any'],
    ] as const)('says of %j: %s', (types, line) => {
      expect(declarationOf({ ...undeclared, field: 'nick', types })).toBe(line);
    });

    it.each(['null', 'yes', 'off'])(
      'quotes the name %s, which YAML would read as something else',
      (field) => {
        expect(declarationOf({ ...undeclared, field, types: ['object'] })).toBe(`'${field}': object`);
      },
    );

    it.each(['Nick', '_own', 'a b', '*', 'constructor', ''])(
      'is missing for %j, which nothing could declare',
      (field) => {
        expect(declarationOf({ ...undeclared, field, types: ['string'] })).toBeNull();
      },
    );
  });
});
