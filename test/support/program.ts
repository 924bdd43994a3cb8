import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callCli, type CliResult, jsonLines } from './run-cli.ts';

/** A folder of its own with a config in it, and the program, which is run with that config inside this process. */
export function openProgram(
  configText: string,
  {
    env = {},
    folder = newFolder(),
  }: { readonly env?: Record<string, string>; readonly folder?: string } = {},
) {
  const config = join(folder, 'sync.yaml');
  writeFileSync(config, configText, { mode: 0o600 });
  const cli = (...args: readonly string[]): Promise<CliResult> =>
    callCli([...args, '--config', config], { cwd: folder, env });
  return {
    folder,
    config,
    env,
    cli,
    /** The lines of standard output as JSON, of a command that must end with 0. */
    json: async (...args: readonly string[]): Promise<readonly Record<string, unknown>[]> => {
      const result = await cli(...args, '--json');
      if (result.code !== 0) throw new Error(`ended with ${result.code}: ${result.stdout}${result.stderr}`);
      return jsonLines(result);
    },
    [Symbol.asyncDispose]: (): Promise<void> => {
      rmSync(folder, { recursive: true, force: true });
      return Promise.resolve();
    },
  };
}

export function newFolder(): string {
  return mkdtempSync(join(tmpdir(), 'program-'));
}
