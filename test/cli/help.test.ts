import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { wrapHelp } from '../../src/cli/output/wrap-help.ts';
import { callCli } from '../support/run-cli.ts';

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

const withoutLayout = (text: string): string => text.replaceAll(/\\\n/g, '').replaceAll(/\s+/g, ' ');

describe('--help of every command', () => {
  it('fits 80 and 60 columns, and breaks no word', async () => {
    const wide = await everyHelp(100_000);
    expect(wide.size).toBeGreaterThan(35);
    for (const columns of [80, 60]) {
      for (const [command, text] of await everyHelp(columns)) {
        const long = text.split('\n').filter((line) => line.length > columns && line.trim().includes(' '));
        expect([command, long]).toEqual([command, []]);
        expect(withoutLayout(text)).toBe(withoutLayout(wide.get(command) ?? ''));
      }
    }
  });
});

describe('a help text that is too wide', () => {
  it('continues below its own column, and examples stay commands', () => {
    const text = [
      'A paragraph whose first line is long enough',
      'to be filled anew with its second.',
      '',
      '  $ program do --filter \'{"a": 1}\' --now     what it does, in words',
      '  --flag <value>  a description of the flag',
    ].join('\n');
    expect(wrapHelp(text, 34).split('\n')).toEqual([
      'A paragraph whose first line is',
      'long enough to be filled anew with',
      'its second.',
      '',
      '  $ program do --filter \\',
      '      \'{"a": 1}\' --now',
      '      what it does, in words',
      '  --flag <value>',
      '      a description of the flag',
    ]);
  });

  it('is unchanged where it fits', () => {
    const text = 'One.\nTwo.\n  $ program   note\n';
    expect(wrapHelp(text, 40)).toBe(text);
  });
});
