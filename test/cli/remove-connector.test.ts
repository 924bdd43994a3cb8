import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { startCli } from '../support/run-cli.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { hasMoreKills, triedSinks } from '../support/trials.ts';

const newsletter = 'newsletter' as ConnectorName;
let world: CliWorld;

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

function publishInto(lake: string): void {
  const text = `${readFileSync(world.config, 'utf8')}publish: { lake: { type: files, directory: ./lake, format: jsonl, when: by-hand } }\n`;
  writeFileSync(world.config, text.replace('./lake', lake));
}

describe.each(triedSinks)('connectors remove --data in a %s sink', (sink) => {
  it('says what is stored, drops it and the entry, and publishes generations without rows', async () => {
    world = await openCliWorld({ sink });
    publishInto('./published');
    await world.cli('sync');
    await world.cli('publish', 'lake');
    const config = readFileSync(world.config, 'utf8');
    const wiki = await world.json('status', 'wiki', '--json');
    const shown = await world.cli('connectors', 'remove', 'newsletter', '--data');
    expect(shown.stdout).toMatch(/newsletter in sink main would be dropped for good:\n.*rows +deleted/);
    expect(shown.stdout).toMatch(/list_members +\d+ +0 +\d+/);
    expect(shown.stdout).toMatch(/Target lake holds \d+ entities of it: the next publication/);
    expect(shown.stdout).toContain('Nothing was changed. To do it: ');
    expect(readFileSync(world.config, 'utf8')).toBe(config);
    const [done] = await world.json('connectors', 'remove', 'newsletter', '--data', '--yes');
    expect(done).toMatchObject({ isDone: true, sinks: ['main'], next: ['publish lake'] });
    expect(done?.['rows']).toBeGreaterThan(10);
    expect(readFileSync(world.config, 'utf8')).not.toContain('newsletter:');
    expect(await world.json('status', 'wiki', '--json')).toEqual(wiki);
    expect((await world.cli('actions')).stdout).toMatch(/newsletter .*remove|remove .*newsletter/);
    const folder = sink === 'jsonl' ? join(world.folder, 'main', 'newsletter') : null;
    if (folder !== null) expect(existsSync(folder)).toBe(false);
    expect(await world.cli('publish', 'lake')).toMatchObject({ code: 0 });
    const entities = lakeManifests(join(world.folder, 'published')).at(-1)?.entities ?? [];
    const ofNews = entities.filter(({ connector }) => connector === newsletter);
    expect(ofNews.length).toBeGreaterThan(3);
    for (const one of ofNews) expect(one).toMatchObject({ generation: 2, through: 0, files: [] });
    expect(await world.cli('connectors', 'remove', 'newsletter', '--data')).toMatchObject({ code: 2 });
  });

  it('refuses a connector that is held, and drops one that has left the config', async () => {
    world = await openCliWorld({ sink });
    await world.cli('sync', 'newsletter');
    const config = readFileSync(world.config, 'utf8');
    const options = readSettings({ file: world.config, env: world.env }).sinks.get('main');
    if (options === undefined) throw new TypeError('the config has no such sink');
    const holder = { pid: 1, host: 'here', command: 'sync', since: '2026-01-01T00:00:00.000Z' };
    {
      await using opened = await openSink(options, { clock: systemClock });
      await using _held = await opened.repair.remove('wiki' as ConnectorName, holder);
      const refused = await world.cli('connectors', 'remove', 'wiki', '--data', '--yes');
      expect(refused.code).toBe(5);
      expect(readFileSync(world.config, 'utf8')).toBe(config);
    }
    expect(await world.cli('connectors', 'remove', 'newsletter')).toMatchObject({ code: 0 });
    const [shown] = await world.json('connectors', 'remove', 'newsletter', '--data');
    expect(shown).toMatchObject({ isDone: false, file: null, stored: [{ sink: 'main' }] });
    const dropped = await world.cli('connectors', 'remove', 'newsletter', '--data', '--yes');
    expect(dropped.stdout).toMatch(
      /^newsletter was not in the config\. \d+ rows dropped from sink main\.\n$/,
    );
    expect(await world.cli('connectors', 'remove', 'newsletter', '--data')).toMatchObject({ code: 2 });
  });
});

it('is completed by the same command where it was killed at any time', async () => {
  world = await openCliWorld({ size: { members: 300 } });
  const config = readFileSync(world.config, 'utf8');
  const remove = [
    'connectors',
    'remove',
    'newsletter',
    '--data',
    '--yes',
    '--json',
    '--config',
    world.config,
  ];
  for (const delayMs of hasMoreKills ? [300, 350, 400, 450, 500, 550, 600, 700, 800] : [450, 600]) {
    writeFileSync(world.config, config);
    expect(await world.cli('sync', 'newsletter')).toMatchObject({ code: 0 });
    const running = startCli(remove, { cwd: world.folder, env: world.env });
    const timer = setTimeout(() => running.child.kill('SIGKILL'), delayMs);
    await running.result;
    clearTimeout(timer);
    const again = await world.cli(...remove.slice(0, -2));
    // Nothing was there to do where the first one has ended.
    expect([0, 2]).toContain(again.code);
    expect(readFileSync(world.config, 'utf8')).not.toContain('newsletter:');
    writeFileSync(world.config, config);
    const [report] = (await world.json('sync', 'newsletter', '--max-calls', '1')).slice(-1);
    expect(report?.['report']).toMatchObject({ continues: null });
    await world.cli('connectors', 'remove', 'newsletter', '--data', '--yes');
  }
});
