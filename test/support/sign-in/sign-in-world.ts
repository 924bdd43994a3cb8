import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { PassThrough } from 'node:stream';
import { runCommandLine } from '../../../src/cli/run-command-line.ts';
import type { Output } from '../../../src/cli/output/terminal.ts';
import { describedFolder } from '../described/described-service.ts';
import { openProgram } from '../program.ts';
import { callCli } from '../run-cli.ts';
import { app, signInDefinition, startSignInProvider, type SignInProvider } from './sign-in-provider.ts';

interface WorldOptions {
  readonly sink?: string;
  readonly signIns?: string;
  readonly definition?: (text: string) => string;
  readonly provider?: SignInProvider;
}

/** A made-up service, and a connector `crm` that reads it once a person has signed in. */
export async function signInWorld(options: WorldOptions = {}) {
  const provider = options.provider ?? (await startSignInProvider());
  const text = options.definition?.(signInDefinition) ?? signInDefinition;
  const folder = describedFolder(text, provider.origin);
  const env = { SECRET: app.client_secret };
  /** Writes the config, with this client id. */
  const useApp = (id: string) =>
    openProgram(
      `definitions: [./definitions]
allowUpstreamHosts: ['127.0.0.1:${provider.port}']
${options.signIns === undefined ? '' : `signIns: ${options.signIns}`}
sinks: { main: ${options.sink ?? '{ type: sqlite, path: ./data/main.db, durability: normal }'} }
connectors:
  crm: { definition: described, credentials: { client_id: ${id}, client_secret: "\${SECRET}" }, sink: main }
`,
      { env, folder },
    );
  const { cli, config, [Symbol.asyncDispose]: remove } = useApp(app.client_id);
  onTestFinished(remove);
  const start = (...args: readonly string[]) => startWaiting([...args, '--config', config], folder, env);
  return {
    provider,
    folder,
    cli,
    /** In an environment without the app's secret. */
    cliWithoutSecret: (...args: readonly string[]) =>
      callCli([...args, '--config', config], { cwd: folder, env: {} }),
    start,
    useApp: (id: string): void => void useApp(id),
    /** Signs in as a person does, with a browser that agrees. */
    signIn: async () => {
      const running = start('login', 'crm');
      await agree(await shownAddress(running));
      return await running.result;
    },
    /** What the program has written, by file, and the mode of each. */
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

type WaitingCli = ReturnType<typeof startWaiting>;

/** A command inside this process that waits for a person. */
function startWaiting(args: readonly string[], cwd: string, env: Readonly<Record<string, string>>) {
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
  const [stdout, stderr] = [capture('stdout'), capture('stderr')];
  const result = runCommandLine({ args, env, cwd, stdin: () => input, stdout, stderr }).then((code) => ({
    code,
    ...output,
  }));
  /** What standard error holds up to this text, once it has appeared; rejects when the command ends without it. */
  const until = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const watch = (): void => {
        if (!output.stderr.includes(text)) return;
        watchers.delete(watch);
        resolve(output.stderr);
      };
      watchers.add(watch);
      watch();
      void result.then(() => reject(new Error(`ended without "${text}": ${output.stdout}${output.stderr}`)));
    });
  return { input, until, result };
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
