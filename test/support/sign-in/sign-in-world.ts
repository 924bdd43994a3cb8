import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { PassThrough } from 'node:stream';
import { runCommandLine } from '../../../src/cli/run-command-line.ts';
import type { Output } from '../../../src/cli/output/terminal.ts';
import { callCli, type CliResult } from '../run-cli.ts';
import { app, signInDefinition, startSignInProvider, type SignInProvider } from './sign-in-provider.ts';

/** A command inside this process that waits for a person. */
export interface WaitingCli {
  readonly input: PassThrough;
  /** What standard error holds up to this text, once it has appeared; rejects when the command ends without it. */
  readonly until: (text: string) => Promise<string>;
  readonly result: Promise<CliResult>;
}

export interface SignInWorld {
  readonly provider: SignInProvider;
  readonly folder: string;
  readonly cli: (...args: readonly string[]) => Promise<CliResult>;
  /** In an environment without the app's secret. */
  readonly cliWithoutSecret: (...args: readonly string[]) => Promise<CliResult>;
  readonly start: (...args: readonly string[]) => WaitingCli;
  /** Signs in as a person does, with a browser that agrees. */
  readonly signIn: () => Promise<CliResult>;
  /** Writes the config again, with another client id. */
  readonly useApp: (id: string) => void;
  /** What the program has written, by file, and the mode of each. */
  readonly files: () => ReadonlyMap<string, { readonly text: string; readonly mode: number }>;
}

interface WorldOptions {
  readonly sink?: string;
  readonly signIns?: string;
  readonly definition?: (text: string) => string;
  readonly provider?: SignInProvider;
}

/** A made-up service, and a connector `crm` that reads it once a person has signed in. */
export async function signInWorld(options: WorldOptions = {}): Promise<SignInWorld> {
  const provider = options.provider ?? (await startSignInProvider());
  const folder = mkdtempSync(path.join(tmpdir(), 'sign-in-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'definitions'));
  const text = options.definition?.(signInDefinition) ?? signInDefinition;
  writeFileSync(
    path.join(folder, 'definitions', 'described.yaml'),
    `name: described
title: Described
id: 3f2a6c8e-5b7d-4e1f-9a0c-2d4e6f8a1b3c
rateLimit: { requestsPerSecond: 1000, concurrency: 2 }
${text.replaceAll('$ORIGIN', provider.origin)}`,
  );
  const { client_id, client_secret: secret } = app;
  const useApp = (id: string): void =>
    writeFileSync(
      path.join(folder, 'sync.yaml'),
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${provider.port}']
${options.signIns === undefined ? '' : `signIns: ${options.signIns}`}
sinks: { main: ${options.sink ?? '{ type: sqlite, path: ./data/main.db, durability: normal }'} }
connectors:
  crm: { definition: described, credentials: { client_id: ${id}, client_secret: "\${SECRET}" }, sink: main }
`,
      { mode: 0o600 },
    );
  useApp(client_id);
  const env = { SECRET: secret };
  const given = (args: readonly string[]) => [...args, '--config', path.join(folder, 'sync.yaml')];
  const start = (...args: readonly string[]): WaitingCli => startWaiting(given(args), folder, env);
  return {
    provider,
    folder,
    cli: (...args) => callCli(given(args), { cwd: folder, env }),
    cliWithoutSecret: (...args) => callCli(given(args), { cwd: folder, env: {} }),
    start,
    useApp,
    signIn: async () => {
      const running = start('login', 'crm');
      await agree(await shownAddress(running));
      return await running.result;
    },
    files: () =>
      new Map(
        readdirSync(folder, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => {
            const file = path.join(entry.parentPath, entry.name);
            const text = readFileSync(file, 'latin1');
            return [path.relative(folder, file), { text, mode: statSync(file).mode & 0o777 }] as const;
          }),
      ),
  };
}

function startWaiting(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>>,
): WaitingCli {
  const output = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  const capture = (name: 'stdout' | 'stderr'): Output => ({
    write: (text) => {
      output[name] += String(text);
      for (const watch of watchers) watch();
    },
    on: () => undefined,
  });
  const input = new PassThrough();
  const result = runCommandLine({
    args,
    env,
    cwd,
    stdin: () => input,
    stdout: capture('stdout'),
    stderr: capture('stderr'),
  }).then((code) => ({ code, ...output }));
  return {
    input,
    until: (text) =>
      new Promise((resolve, reject) => {
        const watch = (): void => {
          if (!output.stderr.includes(text)) return;
          watchers.delete(watch);
          resolve(output.stderr);
        };
        watchers.add(watch);
        watch();
        void result.then(() =>
          reject(new Error(`ended without "${text}": ${output.stdout}${output.stderr}`)),
        );
      }),
    result,
  };
}

/** The address that the program asks a person to open. */
export async function shownAddress(running: WaitingCli): Promise<string> {
  const shown = await running.until('/authorize?');
  const [address = ''] = /http\S+\/authorize\?\S+/.exec(shown) ?? [];
  return address;
}

/** Where the service sends the browser of a person who agrees. */
export async function redirectOf(address: string): Promise<string> {
  const { headers } = await fetch(address, { redirect: 'manual' });
  return headers.get('location') ?? '';
}

export async function agree(address: string): Promise<Response> {
  return await fetch(await redirectOf(address));
}
