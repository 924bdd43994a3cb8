import { execFile } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import { callCli } from '../support/run-cli.ts';

describe('completion', () => {
  const launcher = fileURLToPath(new URL('../../src/launch.cjs', import.meta.url));

  const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
  lake: { type: jsonl, directory: ./lake }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
  new-shop: { definition: email-marketing, id: c-shop, sink: main }
  wiki: { definition: workspace-notes, id: c-wiki, sink: main }
publish:
  store: { type: files, directory: ./store, format: csv, connectors: [wiki] }
`;

  let folder: string;
  it.beforeAll(({ fileFolder: made }) => {
    folder = made;
    writeFileSync(join(folder, 'sync.yaml'), config);
    writeFileSync(join(folder, 'broken.yaml'), 'connectors: 7\n');
  });

  async function offered(...words: readonly string[]): Promise<readonly string[]> {
    const env = { CONNECTOR_SYNC_CONFIG: join(folder, 'sync.yaml') };
    const { stdout, stderr, code } = await callCli(['complete', 'bash', '--', ...words], {
      cwd: folder,
      env,
    });
    expect([code, stderr]).toEqual([0, '']);
    return stdout.split('\n').filter((one) => one !== '');
  }

  it.each([
    [['sch'], ['schedule', 'schema']],
    [
      ['schedule', ''],
      ['list', 'run', 'pause', 'resume'],
    ],
    [
      ['sync', 'new'],
      ['newsletter', 'new-shop'],
    ],
    [['sync', 'newsletter', 'w'], ['wiki']],
    [['sync', '--allow'], ['--allow-deletes']],
    [['sync', 'wiki', '--select', 'pa'], ['pages']],
    [['explain', 'wi'], ['wiki/']],
    [['explain', 'wiki/pa'], ['wiki/pages']],
    [
      ['copy', '--to', ''],
      ['main', 'lake'],
    ],
    [
      ['publish', 's'],
      ['status', 'store'],
    ],
    [['definitions', 'show', 'work'], ['workspace-notes']],
    // A file: the shell's own completion.
    [['sync', '--config', ''], []],
    [['sync', '--config', './broken.yaml', ''], []],
    [['--config=./broken.yaml', 'sync', ''], []],
    // bash gives what stands around "=" as words.
    [['--config', '=', './broken.yaml', 'sync', ''], []],
    [['actions', 'wiki', ''], []],
  ])('%j is completed by %j', async (words, expected) => {
    expect(await offered(...words)).toEqual(expect.arrayContaining(expected));
    if (expected.length < 2) expect(await offered(...words)).toEqual(expected);
  });

  it('completes in bash, sourced twice, and evaluates nothing that is typed', async () => {
    const bin = join(folder, 'connector-sync');
    writeFileSync(bin, `#!/bin/sh\nexec "${process.execPath}" "${launcher}" "$@"\n`);
    chmodSync(bin, 0o755);
    const typed = (...words: readonly string[]): string =>
      `COMP_WORDS=(connector-sync ${words.join(' ')}); COMP_CWORD=${words.length}; _connector_sync; echo "\${COMPREPLY[*]}";`;
    const script = [
      'source <(connector-sync completion bash); source <(connector-sync completion bash);',
      typed('sync', 'new'),
      typed("'$(touch made)'", "'`touch made`'"),
      'test -e made || echo nothing made',
    ].join('\n');
    const env = {
      PATH: `${folder}:${process.env['PATH']}`,
      CONNECTOR_SYNC_CONFIG: join(folder, 'sync.yaml'),
    };
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: folder, env });
    expect(stdout.trim().split('\n')).toEqual(['newsletter new-shop', '', 'nothing made']);
  });

  it('gives zsh candidates with their texts', async () => {
    const { stdout } = await callCli(['complete', 'zsh', '--', 'schem'], { cwd: folder });
    expect(stdout.trim()).toBe('schema:Compare stored records with their definition.');
    expect((await callCli(['completion', 'zsh'], { cwd: folder })).stdout).toContain('connector-sync');
    const wrong = await callCli(['completion', 'tcsh'], { cwd: folder });
    expect(wrong.stderr).toContain('expected bash or zsh, got "tcsh"');
  });
});

/** Every command with its subcommands, as their own help names them. */
async function everyHelp(columns: number): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  const waiting: (readonly string[])[] = [[]];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const { code, stdout } = await callCli([...path, '--help'], { cwd: tmpdir(), columns });
    expect(code).toBe(0);
    texts.set(path.join(' '), stdout);
    const commands = /^Commands:\n((?: .*\n)+)/m.exec(stdout)?.[1] ?? '';
    for (const [, name = ''] of commands.matchAll(/^ {2}([a-z]+)\b/gm)) {
      if (name !== 'help') waiting.push([...path, name]);
    }
  }
  return texts;
}

const withoutLayout = (text: string): string => text.replaceAll(/\s+/g, ' ');

describe('--help of every command', () => {
  it('fits 80 and 60 columns, fills the lines of a paragraph, and breaks no word', async () => {
    const wide = await everyHelp(100_000);
    expect(wide.size).toBeGreaterThan(35);
    for (const columns of [80, 60]) {
      for (const [command, text] of await everyHelp(columns)) {
        const long = text.split('\n').filter((line) => line.length > columns && line.trim().includes(' '));
        expect([command, long]).toEqual([command, []]);
        const short = [...text.matchAll(/^(\S.*)\n(?=(\S+))/gm)].filter(
          ([, line = '', next = '']) => line.length + 1 + next.length <= columns,
        );
        expect([command, short.map(([, line]) => line)]).toEqual([command, []]);
        expect(withoutLayout(text)).toBe(withoutLayout(wide.get(command) ?? ''));
      }
    }
  });
});
