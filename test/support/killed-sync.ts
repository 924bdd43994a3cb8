import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { dirname } from 'node:path';
import { callCli, jsonLines, main } from './run-cli.ts';
import { testCredentials } from './sync-once.ts';

/**
 * Runs one sync of the built program as a user would, and kills it `afterMs` behind the first event of kind `from`. If
 * that is null, the sync needs no process of its own.
 */
export async function killedSync(
  config: string,
  connector: string,
  flags: readonly string[],
  afterMs: number | null,
  from = 'run-started',
) {
  const args = ['sync', connector, ...flags, '--json', '--config', config];
  const env = { TEST_SECRET: testCredentials.clientSecret };
  if (afterMs === null) {
    const ended = await callCli(args, { cwd: dirname(config), env });
    return { ...ended, phase: String(jsonLines(ended).at(-1)?.['kind']) };
  }
  const child = spawn(process.execPath, [main, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  /** The last thing the program reported about itself. */
  let phase = 'before the run';
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { kind } = JSON.parse(line) as { kind: string };
    phase = kind;
    if (kind === from) setTimeout(() => child.kill('SIGKILL'), afterMs);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, phase, stderr };
}
