import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { runCommandLine } from '../../src/cli/run-command-line.ts';
import type { Output } from '../../src/cli/terminal.ts';

/** The program's entry, as a path. */
export const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const typescriptLoader = import.meta.resolve('tsx');

export interface CliOptions {
  readonly cwd: string;
  /** The whole environment of the program besides PATH: nothing of the tester's own reaches it. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input; of `callCli` alone. Left out: empty. */
  readonly stdin?: string;
}

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCli {
  readonly child: ChildProcess;
  /** Resolves when the text has appeared on either output; rejects when the program ends without it. */
  until(text: string): Promise<void>;
  /** What it has written so far. */
  output(): Pick<CliResult, 'stdout' | 'stderr'>;
  readonly result: Promise<CliResult>;
}

/** Runs the program as a user would, from its sources, to its end. */
export function runCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  return startCli(args, options).result;
}

/** The same inside this process: for what needs no process of its own, and much faster. */
export async function callCli(
  args: readonly string[],
  { cwd, env = {}, stdin = '' }: CliOptions,
): Promise<CliResult> {
  const output = { stdout: '', stderr: '' };
  const capture = (name: 'stdout' | 'stderr'): Output => ({
    write: (text) => (output[name] += text),
    on: () => undefined,
  });
  const code = await runCommandLine({
    args,
    env,
    cwd,
    stdin: () => Readable.from([stdin]),
    stdout: capture('stdout'),
    stderr: capture('stderr'),
  });
  return { code, ...output };
}

/** Every line of standard output as JSON. */
export function jsonLines(result: CliResult): readonly Record<string, unknown>[] {
  return result.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

export function startCli(args: readonly string[], { cwd, env = {} }: CliOptions): RunningCli {
  return startScript([main, ...args], cwd, env);
}

/** Runs any TypeScript file of ours as a process; also `-e` and a program text. */
export function startScript(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): RunningCli {
  const child = spawn(process.execPath, ['--import', typescriptLoader, ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8');
    child[name].on('data', (text: string) => {
      output[name] += text;
      for (const watch of watchers) watch();
    });
  }
  const result = once(child, 'close').then(([code]) => ({
    code: typeof code === 'number' ? code : null,
    ...output,
  }));
  const until = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const watch = (): void => {
        if (!`${output.stdout}\n${output.stderr}`.includes(text)) return;
        watchers.delete(watch);
        resolve();
      };
      watchers.add(watch);
      watch();
      void result.then(() => reject(new Error(`ended without "${text}": ${output.stdout}${output.stderr}`)));
    });
  return { child, until, output: () => ({ ...output }), result };
}
