import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { commands } from '../../src/cli/commands.ts';
import { runCommandLine } from '../../src/cli/run-command-line.ts';
import type { Output } from '../../src/cli/output/terminal.ts';
import { checkJsonOutput } from './json-output/check-json-output.ts';

/** The entry of the built program, as a path; `ensure-built.ts` keeps it as new as its sources. */
export const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const typescriptLoader = import.meta.resolve('tsx');

// Commands load their modules when they are called; here before the tests, whose time is not for translating sources.
await Promise.all(commands.map(({ load }) => load()));

export interface CliOptions {
  readonly cwd: string;
  /** The whole environment of the program besides PATH and TMPDIR: nothing of the tester's own reaches it. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input; of `callCli` alone. Left out: empty. */
  readonly stdin?: string;
  /** How wide the screen is; of `callCli` alone. Left out: standard output is no screen. */
  readonly columns?: number;
  /** Standard input is a keyboard; of `callCli` alone. */
  readonly isTyped?: boolean;
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

/** Runs the built program as a user would, to its end. */
export function runCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  return startCli(args, options).result;
}

/** The same inside this process: for what needs no process of its own, and much faster. */
export async function callCli(
  args: readonly string[],
  { cwd, env = {}, stdin = '', columns, isTyped = false }: CliOptions,
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
    stdin: () => Object.assign(Readable.from([stdin]), { isTTY: isTyped }),
    stdout: columns === undefined ? capture('stdout') : { ...capture('stdout'), isTTY: true, columns },
    stderr: capture('stderr'),
  });
  checkJsonOutput(args, output.stdout);
  return { code, ...output };
}

/** Every line of standard output as JSON, without the version that all documents have. */
export function jsonLines(result: CliResult): readonly Record<string, unknown>[] {
  return result.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const document = JSON.parse(line) as Record<string, unknown>;
      if (line.startsWith('{"version":')) delete document['version'];
      return document;
    });
}

export function startCli(args: readonly string[], { cwd, env = {} }: CliOptions): RunningCli {
  return startNode([main, ...args], cwd, env);
}

/** Runs any TypeScript file of ours as a process, or what `testProgram` gives; also `-e` and a program text. */
export function startScript(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): RunningCli {
  const isBuilt = args[0]?.endsWith('.mjs') === true;
  return startNode([...(isBuilt ? [] : ['--import', typescriptLoader]), ...args], cwd, env);
}

function startNode(args: readonly string[], cwd: string, env: Readonly<Record<string, string>>): RunningCli {
  const child = spawn(process.execPath, args, {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: tmpdir(), ...env },
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
