import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect } from 'vitest';
import { withDotEnv } from '../../src/cli/environment.ts';
import { it } from '../support/it.ts';
import { callCli, jsonLines, main, runCli, startScript } from '../support/run-cli.ts';

let folder: string;

it.beforeEach(({ folder: made }) => {
  folder = made;
});

describe('the command line', () => {
  it('names every wrong shape in a config with its line, then every other mistake, and ends with 2', async () => {
    const file = join(folder, 'bad.yaml');
    const mistaken = `api: { baseUrl: "ftp://example.com", clientId: a, clientSecret: b }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter:
    definition: email-marketing
    id: "../etc"
    sink: man
    schedule: { every: soon }
  wiki:
    definition: workspace-nots
    workspace: default
    sink: main
`;
    const shaped = mistaken.replace('ftp:', 'https:').replace('soon', '1h');
    for (const [text, lines] of [
      [mistaken, [1, 9]],
      [shaped, [7, 8, 11]],
    ] as const) {
      await writeFile(file, text);
      const { code, stderr, stdout } = await runCli(['sync', '--config', 'bad.yaml'], { cwd: folder });
      expect(code).toBe(2);
      expect(stdout).toBe('');
      for (const line of lines) expect(stderr).toContain(`bad.yaml:${line}: `);
    }
  });

  it('says what to do where there is no config', async () => {
    const result = await callCli(['status', '--json'], { cwd: folder });
    expect(result.code).toBe(2);
    const [document] = jsonLines(result);
    expect(document).toMatchObject({
      error: { code: 'CONFIG_INVALID', message: expect.stringContaining('connector-sync init') as string },
    });
    expect(result.stderr).toBe('');
  });

  it('ends with 2 for an option that it does not know, and suggests the command that was meant', async () => {
    const [option, command] = await Promise.all([
      callCli(['sync', '--fast', '--json'], { cwd: folder }),
      callCli(['stats'], { cwd: folder }),
    ]);
    expect(option.code).toBe(2);
    expect(jsonLines(option)).toMatchObject([{ error: { code: 'USAGE' } }]);
    expect(command.code).toBe(2);
    expect(command.stderr).toContain('Did you mean status?');
  });

  it('prints its version, and help with examples', async () => {
    const [version, help] = await Promise.all([
      runCli(['--version'], { cwd: folder }),
      callCli(['sync', '--help'], { cwd: folder }),
    ]);
    expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string });
    expect(help.code).toBe(0);
    expect(help.stdout).toContain('$ connector-sync sync newsletter wiki');
  });
});

describe('the environment', () => {
  it.each([
    ['A=s3cret#2026-a', 's3cret#2026-a'],
    ['export A=a#b # a comment', 'a#b'],
    ['A=#a', '#a'],
    ['A=x # b', 'x'],
    [`A=it's#"b"`, `it's#"b"`],
    [String.raw`A=a\n#b`, String.raw`a\n#b`],
    ['A="a #b" # c', 'a #b'],
    ["C='\nA=b#c\n'\nA=d", 'd'],
    ['A="a#b', '"a#b'],
    ['A=b#c\r\nD=e#f\r\n', 'b#c'],
  ])('reads .env as a shell does: %j', async (text, value) => {
    await writeFile(join(folder, '.env'), text);
    expect(withDotEnv({}, folder).env).toMatchObject({ A: value });
  });

  it.each([
    ['UTF-8', Buffer.from('\uFEFFA=ä#b')],
    ['UTF-16', Buffer.from('\uFEFFA=ä#b\r\n', 'utf16le')],
    ['UTF-16, the higher byte first', Buffer.from('\uFEFFA=ä#b\r\n', 'utf16le').swap16()],
  ])('reads .env in %s with a byte order mark', async (_encoding, bytes) => {
    await writeFile(join(folder, '.env'), bytes);
    expect(withDotEnv({}, folder).env).toEqual({ A: 'ä#b' });
  });

  it.each([
    ['UTF-16 without a mark', Buffer.from('A=b', 'utf16le')],
    ['Latin-1', Buffer.from('A=ä', 'latin1')],
  ])('ends with 2 if .env is in %s', async (_encoding, bytes) => {
    await writeFile(join(folder, '.env'), bytes);
    const { code, stderr } = await callCli(['status'], { cwd: folder });
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^Error: \S+\.env cannot be read \(expected text in UTF-8/),
    ]);
  });

  it('ends with 2 if .env cannot be read', async () => {
    await mkdir(join(folder, '.env'));
    const { code, stderr } = await runCli(['status'], { cwd: folder });
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^Error: \S+\.env cannot be read \(EISDIR/)]);
  });

  it('is warned about once where others can read .env, and not on standard output', async () => {
    const file = join(folder, '.env');
    await writeFile(file, 'A=b\n');
    await chmod(file, 0o640);
    const open = await callCli(['config', 'schema', '--json'], { cwd: folder });
    expect(open.stderr.match(/can be read by others/g)).toHaveLength(1);
    expect(open.stderr).toContain('chmod 600 .env');
    expect(open.stdout).not.toContain('Warning');
    await chmod(file, 0o600);
    const closed = await callCli(['config', 'schema', '--json'], { cwd: folder });
    expect(closed.stderr).toBe('');
  });

  it.each(['sync', 'worker'])('of %s may hold only a LOG_LEVEL that there is', async (command) => {
    await callCli(['init', '--base-url', 'https://api.example.com'], { cwd: folder });
    const result = await callCli([command], {
      cwd: folder,
      env: { CONNECTOR_API_CLIENT_ID: 'a', CONNECTOR_API_CLIENT_SECRET: 'bbbb', LOG_LEVEL: 'loud' },
    });
    expect(result.code).toBe(2);
    expect(result.stderr.match(/LOG_LEVEL: expected one of trace, debug, info/g)).toHaveLength(1);
  });
});

describe('init --direct', () => {
  it('writes a config for a definition file, with its folder', async () => {
    await mkdir(join(folder, 'mine'));
    await copyFile('docs/examples/help-desk.yaml', join(folder, 'mine', 'help-desk.yaml'));
    const made = await callCli(['init', '--direct', 'mine/help-desk.yaml'], { cwd: folder });
    expect(made.stdout).toContain('HELP_DESK_API_TOKEN=...');
    const env = { HELP_DESK_SUBDOMAIN: 'a', HELP_DESK_EMAIL: 'b', HELP_DESK_API_TOKEN: 'c' };
    const plan = await callCli(['sync', '--dry-run'], { cwd: folder, env });
    expect(plan).toMatchObject({ code: 0, stdout: expect.stringContaining('help-desk') as string });
  });

  it('writes a config that reads services themselves, once their keys are in the environment', async () => {
    const made = await callCli(['init', '--direct', 'mailchimp', 'workspace-notes'], { cwd: folder });
    expect(made.code).toBe(0);
    for (const text of ['MAILCHIMP_API_KEY=...', 'NOTION_TOKEN=...']) expect(made.stdout).toContain(text);
    expect(made.stdout).not.toContain('CONNECTOR_API');
    const env = { MAILCHIMP_API_KEY: 'planted-us1', NOTION_TOKEN: 'planted-token' };
    const shown = await callCli(['config', 'show'], { cwd: folder, env });
    expect(JSON.parse(shown.stdout)).toMatchObject({
      connectors: {
        newsletter: { definition: 'email-marketing', credentials: { api_key: '[secret]' } },
        wiki: { definition: 'workspace-notes', credentials: { token: '[secret]' } },
      },
    });
    const plan = await callCli(['sync', '--dry-run'], { cwd: folder });
    expect(plan.code).toBe(0);
    const without = await callCli(['sync'], { cwd: folder, env: { NOTION_TOKEN: 'planted-token' } });
    expect(without.code).toBe(2);
    expect(without.stderr).toContain('the environment variable MAILCHIMP_API_KEY is not set');
  });

  it('names the services that can be read so', async () => {
    const refused = await callCli(['init', '--direct', 'library'], { cwd: folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/email-marketing or Mailchimp, .*stripe.*, .*workspace-notes or Notion/);
    const both = ['init', '--direct', 'notion', '--base-url', 'https://api.example.com'];
    expect((await callCli(both, { cwd: folder })).code).toBe(2);
  });
});

describe('init', () => {
  it('writes a config that can be used, readable by its owner only, and never overwrites one', async () => {
    const args = ['init', '--base-url', 'https://api.example.com', '--workspace', 'marketing'];
    const first = await callCli(args, { cwd: folder });
    expect(first.code).toBe(0);
    expect(first.stdout).toContain('CONNECTOR_API_CLIENT_SECRET');
    const file = join(folder, 'config', 'connector-sync.yaml');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const written = await readFile(file, 'utf8');

    for (const again of [['init'], args]) {
      expect(await callCli(again, { cwd: folder })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('already exists; not overwritten') as string,
      });
      expect(await readFile(file, 'utf8')).toBe(written);
    }
    expect(written).not.toContain('rateLimit');

    // The credentials come from a .env here; what the environment says wins.
    await writeFile(
      join(folder, '.env'),
      'CONNECTOR_API_CLIENT_ID=from-file\nCONNECTOR_API_CLIENT_SECRET=secret-from-file\n',
    );
    const shown = await callCli(['config', 'show', '--json'], {
      cwd: folder,
      env: { CONNECTOR_API_CLIENT_ID: 'from-environment' },
    });
    expect(shown.code).toBe(0);
    expect(shown.stdout).not.toContain('secret-from-file');
    expect(jsonLines(shown)).toMatchObject([
      {
        api: { baseUrl: 'https://api.example.com', clientId: 'from-environment', clientSecret: '[secret]' },
        connectors: { newsletter: { workspace: 'marketing' } },
      },
    ]);
  });

  it('writes another file so that records land below the working folder, and names it in what comes next', async () => {
    await mkdir(join(folder, 'deep'));
    for (const [file, path] of [
      ['my.yaml', './data/warehouse.db'],
      [join('deep', 'er', 'my own.yaml'), '../../data/warehouse.db'],
    ] as const) {
      const result = await callCli(['init', '--config', file], { cwd: folder });
      expect(result.code).toBe(0);
      expect(await readFile(join(folder, file), 'utf8')).toContain(`path: ${path} }`);
      const named = file.includes(' ') ? `'${file}'` : file;
      for (const command of ['check', 'connectors list', 'sync']) {
        expect(result.stdout).toContain(`npx --no-install connector-sync ${command} --config ${named}\n`);
      }
    }
    const standard = await callCli(['init'], { cwd: folder });
    expect(standard.stdout).toContain('npx --no-install connector-sync check\n');
  });

  it('writes a config for a sink in PostgreSQL, whose address and password come from the environment', async () => {
    const base = ['--base-url', 'https://api.example.com'];
    const made = await callCli(['init', '--sink', 'postgres', ...base], { cwd: folder });
    expect(made.code).toBe(0);
    expect(made.stdout).toContain('DATABASE_URL=postgresql://');
    const env = {
      CONNECTOR_API_CLIENT_ID: 'a',
      CONNECTOR_API_CLIENT_SECRET: 'bbbb',
      DATABASE_URL: 'postgresql://me:of-the-database@db.example.com/warehouse',
    };
    const shown = await callCli(['config', 'show', '--json'], { cwd: folder, env });
    expect(shown.stdout).not.toContain('of-the-database');
    const url = 'postgresql://[secret]@db.example.com/warehouse';
    expect(jsonLines(shown)).toMatchObject([{ sinks: { main: { type: 'postgres', url } } }]);
    const refused = await callCli(['init', '--sink', 'mysql'], { cwd: folder });
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('expected sqlite, jsonl or postgres') as string,
    });
  });

  it.each([
    ['below a file', 'taken/my.yaml', 'is a file, expected a folder'],
    [
      'where nothing can be made',
      '/proc/nope/my.yaml',
      'cannot be written: its folder cannot be found or created',
    ],
  ])('says in words why it cannot write %s', async (_, file, why) => {
    await writeFile(join(folder, 'taken'), '');
    const [init, demo] = await Promise.all([
      callCli(['init', '--config', file], { cwd: folder }),
      callCli(['demo', '--directory', dirname(file)], { cwd: folder }),
    ]);
    for (const { code, stderr } of [init, demo]) {
      expect(code).toBe(2);
      expect(stderr).toMatch(/^Error: /m);
      expect(stderr).toContain(why);
    }
  });
});

it.each([
  ['a folder', '{ type: sqlite, path: . }', 'was expected to be a regular file'],
  ['a file', '{ type: jsonl, directory: ./own.yaml }', 'is a file, expected a folder'],
])('a sink whose path is %s is reported when the config is read', async (_, sink, why) => {
  const text = `api: { baseUrl: "http://127.0.0.1:9", clientId: a, clientSecret: bbbb }
sinks: { main: ${sink} }
connectors: { wiki: { definition: workspace-notes, id: w, sink: main } }
`;
  await writeFile(join(folder, 'own.yaml'), text);
  for (const command of ['status', 'runs']) {
    const result = await callCli([command, '--config', 'own.yaml'], { cwd: folder });
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(why);
  }
});

it.skipIf(!existsSync('/dev/full'))('ends with 1 when its result could not be written', async () => {
  const result = await startScript(['-e', fullOutput], folder).result;
  expect(result.code).toBe(1);
  expect(result.stderr).toContain('Standard output cannot be written');
});

/** The program with its standard output on a device that is always full. */
const fullOutput = `
  const { spawn } = require('node:child_process');
  const output = require('node:fs').openSync('/dev/full', 'w');
  spawn(process.execPath, [...process.execArgv.slice(0, 2), ${JSON.stringify(main)}, 'config', 'schema'], {
    stdio: ['ignore', output, 'inherit'],
  }).on('exit', (code) => process.exit(code));
`;
