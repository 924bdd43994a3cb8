import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { loadSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import type { RunOutcome } from '../../src/sinks/run-report.ts';
import { Bench, entityReport, identity, members, report, type SinkKind } from '../contracts/sink/fixture.ts';
import { cliSecret, writeCliConfig } from '../support/cli-config.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

describe('many connectors', () => {
  const env = { SECRET: cliSecret };
  /** Every 50th of 250 has failed, every 100th of the others is degraded; of the first one is paused, one late. */
  const names = Array.from({ length: 250 }, (_, index) => `shop-${String(index).padStart(3, '0')}`);
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

  describe.each([[['status']], [['schedule', 'list']]])('%j of many connectors', (command) => {
    // Proves promise 12.1
    it('shows the first hundred, and says how all of them stand', async () => {
      const { names: shown, total, counts } = await listed(...command);
      expect(shown).toEqual(['wiki', ...names.slice(0, 99)]);
      expect(total).toBe(251);
      expect(counts).toEqual({
        failed: 5,
        late: 1,
        incomplete: 4,
        paused: 1,
        running: 0,
        new: 1,
        ok: 239,
      });
      const { stderr } = await cli(...command);
      expect(stderr).toContain(
        `100 of 251 shown. Of all: 5 failed, 1 late, 4 incomplete, 1 paused, 1 new, 239 ok. "--limit 0" shows all.`,
      );
      expect((await listed(...command, '--limit', '0')).names).toEqual(['wiki', ...names]);
    });

    it('shows only those that fail, those that are late, or both', async () => {
      expect((await listed(...command, '--failing')).names).toEqual(failing);
      expect((await listed(...command, '--late')).names).toEqual(['shop-002']);
      expect((await listed(...command, '--failing', '--late')).names).toEqual(['shop-002', ...failing]);
      expect((await cli(...command, '--late')).stderr).toContain('1 shown. Of all: 5 failed, ');
    });

    it('takes globs of names', async () => {
      const tens = names.filter((name) => name.startsWith('shop-01'));
      expect((await listed(...command, 'wiki', 'shop-01*')).names).toEqual(['wiki', ...tens]);
      expect((await listed(...command, '*-007', 'shop-007')).names).toEqual(['shop-007']);
      const { code, stderr } = await cli(...command, 'nothing*');
      expect(code).toBe(2);
      expect(stderr).toContain('No connector matches "nothing*"; the config has wiki, shop-000, ');
      expect(stderr).toContain('shop-018 and 231 more.');
    });

    it('ends with 2 for a limit that is no number', async () => {
      const { code, stderr } = await cli(...command, '--limit', 'all');
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

  it('shows the schedules of other sinks too when one cannot be read', async () => {
    const cli = (...args: readonly string[]) =>
      callCli(['schedule', 'list', ...args, '--config', config], { cwd: folder, env: { SECRET: cliSecret } });
    const { code, stdout, stderr } = await cli();
    expect(stdout).toMatch(/^newsletter +new +none +never$/m);
    expect(stdout).not.toContain('wiki');
    expect(stderr).toContain('Not shown: 1 connector of the sink "away". ');
    expect(code).toBe(1);
    expect(jsonLines(await cli('--json'))).toMatchObject([
      {
        connectors: [{ connector: 'newsletter' }],
        unreadableSinks: [{ sink: 'away', connectors: ['wiki'] }],
      },
    ]);
  });

  it('fails as a whole when no sink of the requested connectors can be read', async () => {
    const { code, stdout, stderr } = await status('wiki');
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^Error: .*127\.0\.0\.1:1/);
    expect(code).toBe(1);
    expect((await status('newsletter')).code).toBe(0);
  });
});
