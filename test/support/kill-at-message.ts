import type { PostgresProxy } from './postgres-proxy.ts';
import type { CliResult, RunningCli } from './run-cli.ts';

/**
 * Kills a command in front of its message of that number to the server behind the proxy, where it comes to it. Gives
 * how it ended (`code` null: killed), and how many messages came.
 */
export async function killAtMessage(
  proxy: PostgresProxy,
  running: RunningCli,
  at: number,
): Promise<CliResult & { readonly messages: number }> {
  let messages = 0;
  proxy.rule(() => ({
    fromClient: ({ length }) => {
      messages += 1;
      if (messages < at) return length;
      running.child.kill('SIGKILL');
      return 0;
    },
    fromServer: ({ length }) => length,
  }));
  const result = await running.result;
  proxy.rule(null);
  return { ...result, messages };
}
