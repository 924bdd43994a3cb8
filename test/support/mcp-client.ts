import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { main } from './run-cli.ts';

/** What a tool answered, as JSON. */
export type Answered = Record<string, unknown> & {
  readonly records: readonly Record<string, unknown>[];
  readonly record: Record<string, unknown>;
  readonly next: Record<string, unknown>;
};

export type McpClient = Awaited<ReturnType<typeof openMcpClient>>;

/** `legacy`: the protocol of 2025, which most clients speak; `auto`: the newest that both know. */
type ProtocolMode = 'legacy' | 'auto';

/** The official client, connected to the built program. */
export async function openMcpClient(
  world: { readonly config: string | null; readonly env: Readonly<Record<string, string>> },
  mode: ProtocolMode = 'legacy',
  flags: readonly string[] = [],
) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [main, 'mcp', ...(world.config === null ? [] : ['--config', world.config]), ...flags],
    env: { PATH: process.env['PATH'] ?? '', ...world.env },
    stderr: 'pipe',
  });
  let log = '';
  transport.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return {
    ...callsOf(client),
    client,
    pid: transport.pid,
    /** Most memory that the server has had so far, in MiB; 0 where the machine does not say. */
    peakMiB: () => {
      const status = `/proc/${transport.pid}/status`;
      const [, kib = '0'] = (existsSync(status) && /VmHWM:\s+(\d+)/.exec(readFileSync(status, 'utf8'))) || [];
      return Number(kib) / 1024;
    },
    /** What the server has logged so far, line by line. */
    logged: () =>
      log
        .split('\n')
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    [Symbol.asyncDispose]: async () => await client.close(),
  };
}

/** Processes that a server has started, by their numbers. */
export function processesOf({ pid }: { readonly pid?: number | null | undefined }): readonly string[] {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout.split('\n').filter((line) => line !== '');
}

export function callsOf(client: Client) {
  const text = async (name: string, given: Record<string, unknown>, mustFail: boolean): Promise<string> => {
    const { content, isError = false } = await client.callTool({ name, arguments: given });
    const [first] = content as readonly { readonly text: string }[];
    if (isError !== mustFail) throw new Error(`${name} ${JSON.stringify(given)}: ${first?.text}`);
    return first?.text ?? '';
  };
  return {
    /** The answer of a call that must succeed. */
    call: async (name: string, given: Record<string, unknown> = {}) =>
      JSON.parse(await text(name, given, false)) as Answered,
    /** The message of a call that must be refused. */
    refusal: async (name: string, given: Record<string, unknown> = {}) =>
      (JSON.parse(await text(name, given, true)) as { readonly message: string }).message,
  };
}
