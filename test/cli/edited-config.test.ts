import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { replaceText } from '../../src/files/replace-text.ts';
import { it } from '../support/it.ts';
import { callCli, type CliResult } from '../support/run-cli.ts';

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
