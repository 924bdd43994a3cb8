import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
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

const withoutLayout = (text: string): string => text.replaceAll(/\s+/g, ' ');

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
