import { Writable } from 'node:stream';
import { parseListenAddress, type ListenAddress } from '../../monitor/listen-address.ts';
import { command, type CommandContext } from '../command.ts';
import { stderrLog } from '../environment.ts';
import type { Terminal } from '../output/terminal.ts';
import { aborted } from '../watch-interrupts.ts';

const grant = command({
  description:
    'Print the SQL that makes a role for "mcp --allow-sql" on PostgreSQL: it reads what agents see, no more.',
  help: `
Run it as a person who may make roles, with a password of your choice; then name the role in mcp.sqlUser and mcp.sqlPassword
of the config. Run it again after "mcp" in the config has changed, or entities were added. It asks the sinks, and writes nothing.

Examples:
  $ connector-sync mcp grant > role.sql`,
  run: async (context) => {
    const settings = await context.settings();
    const { grantSql } = await import('../../mcp/sql/grant-sql.ts');
    context.terminal.print(...(await grantSql(settings)));
  },
});

export const mcp = command({
  options: {
    '--http <[host]:port>': 'serve at an address of this machine instead, to agents with a token',
    '--allow-sql': 'agents may also query by SQL what they see, as with "mcp: { sql: true }"',
  },
  help: `
A server of the Model Context Protocol on standard input and output: an agent (Claude, Cursor, VS Code and others) starts it
and reads what the sinks of the config hold, with the tools list_entities, search, get, explain, changes and freshness. It
writes nothing and calls no service. With --allow-sql there is also sql: queries that the database itself keeps to what
agents see. On PostgreSQL they need a role, and "mcp grant" prints the SQL that makes it. "mcp" in the config says what agents may see. Calls are logged on stderr, see LOG_LEVEL.

Needs a package: npm install @modelcontextprotocol/server

With --http, agents send http.token or one of http.tokens of the config as a bearer token, and /metrics has what was asked.

Examples:
  $ connector-sync mcp --config /etc/connector-sync.yaml
  $ connector-sync mcp --http 9402
  $ connector-sync mcp --allow-sql
  $ claude mcp add newsletter -- connector-sync mcp --config /etc/connector-sync.yaml`,
  commands: { grant },
  enter: () => ({ isLogged: true, isWatching: true }),
  run: async (context, flags) => {
    if (flags.http !== undefined) {
      return await overHttp(context, parseListenAddress(flags.http), flags.allowSql);
    }
    const { terminal, clock, program, signal } = context;
    const settings = await context.settings();
    const log = await stderrLog(context, 'info');
    // Loaded only here: no other command serves agents.
    const { mcpOverStdio } = await import('../../mcp/open-mcp.ts');
    const output = new Writable({
      write: (chunk: Uint8Array, _encoding, done) => void writeTo(terminal, chunk, done),
    });
    const served = { settings, clock, log, program, allowsSql: flags.allowSql };
    await mcpOverStdio({ ...served, signal, input: context.input(), output });
  },
});

async function overHttp(context: CommandContext, listen: ListenAddress, allowsSql: boolean): Promise<void> {
  const { terminal, clock, program, signal } = context;
  const settings = await context.settings('http');
  const log = await stderrLog(context, 'info');
  const { mcpOverHttp } = await import('../../mcp/open-mcp.ts');
  await using served = await mcpOverHttp({ settings, listen, clock, log, program, allowsSql });
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
