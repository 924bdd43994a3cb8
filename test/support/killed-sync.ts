import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { testCredentials } from './sync-once.ts';

const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface EndedSync {
  /** Null: it was killed. */
  readonly code: number | null;
  /** The last thing the program reported about itself. */
  readonly phase: string;
  readonly stderr: string;
}

/**
 * Runs one sync of the built program as a user would; kills it `afterMs` behind the first event of kind `from`, unless
 * that is null.
 */
export async function killedSync(
  config: string,
  connector: string,
  flags: readonly string[],
  afterMs: number | null,
  from = 'run-started',
): Promise<EndedSync> {
  const args = [program, 'sync', connector, ...flags, '--json', '--config', config];
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TEST_SECRET: testCredentials.clientSecret },
  });
  let phase = 'before the run';
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { kind } = JSON.parse(line) as { kind: string };
    phase = kind;
    if (kind === from && afterMs !== null) setTimeout(() => child.kill('SIGKILL'), afterMs);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, phase, stderr };
}
