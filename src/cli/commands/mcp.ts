import { Writable } from 'node:stream';
import { parseListenAddress, type ListenAddress } from '../../monitor/listen-address.ts';
import { command, type CommandContext } from '../command.ts';
import { stderrLog } from '../environment.ts';
import type { Terminal } from '../output/terminal.ts';
import { aborted } from '../watch-interrupts.ts';

export const mcp = command({
  options: { '--http <[host]:port>': 'serve at an address of this machine instead, to agents with a token' },
  help: `
A server of the Model Context Protocol on standard input and output: an agent (Claude, Cursor, VS Code and others) starts it
and reads what the sinks of the config hold, with the tools list_entities, search, get, explain, changes and freshness. It
writes nothing and calls no service. "mcp" in the config says what agents may see. Calls are logged on stderr, see LOG_LEVEL.

Needs a package: npm install @modelcontextprotocol/server

With --http, agents send http.token or one of http.tokens of the config as a bearer token, and /metrics has what was asked.

Examples:
  $ connector-sync mcp --config /etc/connector-sync.yaml
  $ connector-sync mcp --http 9402
  $ claude mcp add newsletter -- connector-sync mcp --config /etc/connector-sync.yaml`,
  enter: () => ({ isLogged: true, isWatching: true }),
  run: async (context, flags) => {
    if (flags.http !== undefined) return await overHttp(context, parseListenAddress(flags.http));
    const { terminal, clock, program, signal } = context;
    const settings = await context.settings();
    const log = await stderrLog(context, 'info');
    // Loaded only here: no other command serves agents.
    const { mcpOverStdio } = await import('../../mcp/open-mcp.ts');
    const output = new Writable({
      write: (chunk: Uint8Array, _encoding, done) => void writeTo(terminal, chunk, done),
    });
    await mcpOverStdio({ settings, clock, log, program, signal, input: context.input(), output });
  },
});

async function overHttp(context: CommandContext, listen: ListenAddress): Promise<void> {
  const { terminal, clock, program, signal } = context;
  const settings = await context.settings('http');
  const log = await stderrLog(context, 'info');
  const { mcpOverHttp } = await import('../../mcp/open-mcp.ts');
  await using served = await mcpOverHttp({ settings, listen, clock, log, program });
  terminal.printJson({ url: served.url });
  terminal.print(served.url);
  await aborted(signal);
}

async function writeTo(
  terminal: Terminal,
  chunk: Uint8Array,
  done: (error: Error | null) => void,
): Promise<void> {
  const isTaken = await terminal.printBytes(chunk);
  done(isTaken ? null : new Error('the client has closed the output'));
}
