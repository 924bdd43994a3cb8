import { Writable } from 'node:stream';
import { parseListenAddress } from '../../monitor/listen-address.ts';
import { aborted, command, type CommandContext } from '../command.ts';
import { stderrLog } from '../environment.ts';

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
    const { grantSql } = await import('../../mcp/sql/open-sql.ts');
    context.terminal.print(...(await grantSql(settings)));
  },
});

const options = {
  '--http <[host]:port>': 'serve at an address of this machine instead, to agents with a token',
  '--allow-sql': 'agents may also query by SQL what they see, as with "mcp: { sql: true }"',
} as const;

export const mcp = command({
  options,
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
    const { terminal, clock, program, signal } = context;
    const listen = flags.http === undefined ? null : parseListenAddress(flags.http);
    const settings = await (listen === null ? context.settings() : context.settings('http'));
    const allowsSql = flags.allowSql || settings.mcp.sql;
    const log = await stderrLog(context, 'info');
    const { mcpOverHttp, mcpOverStdio } = await import('../../mcp/open-mcp.ts');
    const served = { settings, allowsSql, clock, log, program };
    if (listen !== null) {
      await using over = await mcpOverHttp({ ...served, listen, http: settings.parts.http });
      terminal.printJson({ url: over.url });
      terminal.print(over.url);
      return await aborted(signal);
    }
    const output = new Writable({
      write: (chunk: Uint8Array, _encoding, done) => void writeTo(terminal, chunk, done),
    });
    await mcpOverStdio({ ...served, signal, input: context.input(), output });
  },
});

async function writeTo(
  terminal: CommandContext['terminal'],
  chunk: Uint8Array,
  done: (error: Error | null) => void,
): Promise<void> {
  const isTaken = await terminal.printBytes(chunk);
  done(isTaken ? null : new Error('the client has closed the output'));
}
