import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { ConnectorName } from '../../src/core/names.ts';
import { replaceText } from '../../src/files/replace-text.ts';
import { readSettings } from '../../src/settings/load-settings.ts';
import { openSink } from '../../src/sinks/registry.ts';
import { openCliWorld, type CliWorld } from '../support/cli-world.ts';
import { it } from '../support/it.ts';
import { lakeManifests } from '../support/publish/read-lake.ts';
import { callCli, startCli, type CliResult } from '../support/run-cli.ts';
import { hasMoreKills, triedSinks } from '../support/trials.ts';

describe('the entries of a config', () => {
  const config = `# Ours.
sinks: { main: { type: sqlite, path: ./main.db } }
redis: { url: redis://127.0.0.1:1 }
connectors:
  newsletter:   # the letter
    definition: email-marketing
    credentials: { api_key: "\${API_KEY}" }
    sink: main
`;
  const env = { API_KEY: 'abcdef-us1', NOTION_TOKEN: 'ntn_secret' };
  const wiki = ['wiki', '--definition', 'workspace-notes'];
  const token = ['--credentials-env', 'token=NOTION_TOKEN'];

  let folder: string;
  let file: string;

  it.beforeEach(({ folder: made }) => {
    folder = made;
    file = join(folder, 'c.yaml');
    writeFileSync(file, config);
  });

  function connectors(...args: readonly string[]): Promise<CliResult> {
    return callCli(['connectors', ...args, '--config', 'c.yaml'], { cwd: folder, env });
  }

  describe('connectors add and remove', () => {
    it('write one entry into the config, and take it out again, with everything else as it was', async () => {
      chmodSync(file, 0o640);
      const added = await connectors('add', ...wiki, ...token, '--every', '1h');
      expect(added).toMatchObject({ code: 0, stderr: '' });
      expect(added.stdout).toMatch(/^Added wiki to c\.yaml\.\nNext: .*connector-sync sync wiki\n$/);
      expect(readFileSync(file, 'utf8')).toBe(
        `${config}  wiki:\n    definition: workspace-notes\n    credentials:\n      token: \${NOTION_TOKEN}\n    sink: main\n    schedule:\n      every: 1h\n`,
      );
      expect(statSync(file).mode & 0o777).toBe(0o640);
      expect((await connectors('remove', 'wiki')).stdout).toContain('What sink main has of it stays.');
      expect(readFileSync(file, 'utf8')).toBe(config);
      expect(readdirSync(folder)).toEqual(['c.yaml']);
    });

    it('edit what a link leads to', async () => {
      const place = join(folder, 'place.yaml');
      writeFileSync(place, config);
      symlinkSync('place.yaml', join(folder, 'link.yaml'));
      await callCli(['connectors', 'remove', 'newsletter', '--config', 'link.yaml'], { cwd: folder, env });
      expect(lstatSync(join(folder, 'link.yaml')).isSymbolicLink()).toBe(true);
      expect(readFileSync(place, 'utf8')).toContain('connectors: {}\n');
    });

    it('change nothing where the config would have mistakes, and name them', async () => {
      const added = await connectors('add', ...wiki, ...token, '--every', '1h', '--sink', 'mian');
      expect(added.code).toBe(2);
      expect(added.stderr).toContain('Nothing was changed');
      expect(added.stderr).toContain('c.yaml:13: connectors.wiki.sink: no such sink: "mian"');
      writeFileSync(
        file,
        `${config}publish: { lake: { type: files, directory: ./lake, connectors: [newsletter] } }\n`,
      );
      const removed = await connectors('remove', 'newsletter');
      expect(removed.stderr).toContain('publish.lake.connectors.0');
      expect(readFileSync(file, 'utf8')).toContain('newsletter:   # the letter');
    });

    it.each([
      ['given for a variable', ['--credentials-env', 'token=sk_live_4711']],
      ['given without a field', ['--credentials-env', 'sk_live_4711']],
      ['given for a file', ['--credentials-file', 'token=sk_live_4711']],
    ])('never write or repeat a secret: %s', async (_, flags) => {
      const refused = await connectors('add', ...wiki, ...flags);
      expect(refused.code).toBe(2);
      expect(readFileSync(file, 'utf8')).toBe(config);
      if (flags[0] === '--credentials-env') expect(JSON.stringify(refused)).not.toContain('sk_live_4711');
    });

    it('take a secret from a file that only its owner can read, and defaults from the config', async () => {
      writeFileSync(
        file,
        config.replace('connectors:', 'defaults: { sink: main, schedule: { every: 1h } }\nconnectors:'),
      );
      writeFileSync(join(folder, 'token'), 'ntn_secret\n', { mode: 0o600 });
      const added = await connectors('add', ...wiki, '--credentials-file', 'token=token');
      expect(added.stderr).toBe('');
      expect(readFileSync(file, 'utf8')).toMatch(
        /wiki:\n {4}definition: workspace-notes\n {4}credentials:\n {6}token: \$\{file:\.\/token\}\n$/,
      );
    });

    it('ask which of several files is meant, and make a new one', async () => {
      mkdirSync(join(folder, 'connectors'));
      const [head, entry] = config.split('connectors:\n');
      writeFileSync(file, `${head}connectors: [./connectors/*.yaml]\n`);
      for (const name of ['a', 'b']) {
        writeFileSync(
          join(folder, 'connectors', `${name}.yaml`),
          `connectors:\n${entry?.replace('newsletter', name)}`,
        );
      }
      expect((await connectors('add', ...wiki, ...token)).stderr).toContain('(a.yaml, b.yaml)');
      expect((await connectors('add', ...wiki, ...token, '--file', 'wiki.yaml')).stderr).toContain(
        'stands for',
      );
      expect(existsSync(join(folder, 'wiki.yaml'))).toBe(false);
      expect(await connectors('add', ...wiki, ...token, '--file', 'connectors/wiki.yaml')).toMatchObject({
        code: 0,
      });
      expect(readFileSync(join(folder, 'connectors/wiki.yaml'), 'utf8')).toMatch(/^connectors:\n {2}wiki:\n/);
      expect(await connectors('remove', 'a')).toMatchObject({ code: 0 });
      expect(readFileSync(join(folder, 'connectors/a.yaml'), 'utf8')).toBe('connectors: {}\n');
    });
  });

  describe('a file that is edited', () => {
    it('is not written where it has changed meanwhile, or another process edits it', () => {
      const replaced = { file, after: 'new', like: file, nowMs: Date.now() };
      expect(() => replaceText({ ...replaced, before: 'old' })).toThrow('was changed by another process');
      expect(() => replaceText({ ...replaced, before: null })).toThrow('was changed by another process');
      const lock = join(folder, '.c.yaml.edit');
      writeFileSync(lock, '');
      expect(() => replaceText({ ...replaced, before: config })).toThrow('Another process is editing');
      expect(readFileSync(file, 'utf8')).toBe(config);
      // One that was killed holds it no longer than a minute.
      utimesSync(lock, new Date(0), new Date(0));
      replaceText({ ...replaced, before: config });
      expect(readFileSync(file, 'utf8')).toBe('new');
      expect(readdirSync(folder)).toEqual(['c.yaml']);
    });
  });
});

describe('data', () => {
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
});
