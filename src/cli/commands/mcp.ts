import { resolve } from 'node:path';
import { Writable } from 'node:stream';
import { usage } from '../../core/usage-error.ts';
import { parseListenAddress } from '../../monitor/listen-address.ts';
import { command, type CommandContext, type FlagsOf } from '../command.ts';
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

const tokenVariable = 'CONNECTOR_SYNC_MCP_TOKEN';

const options = {
  '--http <[host]:port>': 'serve at an address of this machine instead, to agents with a token',
  '--allow-sql': 'agents may also query by SQL what they see, as with "mcp: { sql: true }"',
  '--serve <folder>': 'what "serve" keeps in this data folder, in place of the sinks of a config',
  '--connectors <glob...>': 'with --serve: only these, by id or <workspace>/<name>; * is any text',
  '--exclude <what...>':
    'with --serve: entities or fields that agents do not see, as mcp.exclude of a config',
  '--allow-host <name...>':
    'with --serve and --http: names that agents reach it by, as http.hosts of a config',
} as const;

type McpFlags = FlagsOf<typeof options>;

export const mcp = command({
  options,
  help: `
A server of the Model Context Protocol on standard input and output: an agent (Claude, Cursor, VS Code and others) starts it
and reads what the sinks of the config hold, with the tools list_entities, search, get, explain, changes and freshness. It
writes nothing and calls no service. With --allow-sql there is also sql: queries that the database itself keeps to what
agents see. On PostgreSQL they need a role, and "mcp grant" prints the SQL that makes it. "mcp" in the config says what agents may see. Calls are logged on stderr, see LOG_LEVEL.

Needs a package: npm install @modelcontextprotocol/server

With --http, agents send http.token or one of http.tokens of the config as a bearer token, and /metrics has what was asked.

With --serve there is no config: agents read the indexed stores of all connectors that "serve" hosts, whether it runs or not.
The bearer token of --http is then in $${tokenVariable}.

Examples:
  $ connector-sync mcp --config /etc/connector-sync.yaml
  $ connector-sync mcp --http 9402
  $ connector-sync mcp --allow-sql
  $ connector-sync mcp --serve /srv/connectors/data/service --connectors 'default/*'
  $ claude mcp add newsletter -- connector-sync mcp --config /etc/connector-sync.yaml`,
  commands: { grant },
  enter: () => ({ isLogged: true, isWatching: true }),
  run: async (context, flags) => {
    const { terminal, clock, program, signal } = context;
    const listen = flags.http === undefined ? null : parseListenAddress(flags.http);
    const { http, allowsSql, source } = await servedBy(context, flags);
    const log = await stderrLog(context, 'info');
    const { mcpOverHttp, mcpOverStdio } = await import('../../mcp/open-mcp.ts');
    const served = { source, allowsSql, clock, log, program };
    if (listen !== null) {
      await using over = await mcpOverHttp({ ...served, listen, http });
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

/** What agents read, and by which tokens over HTTP. */
async function servedBy(context: CommandContext, flags: McpFlags) {
  if (flags.serve !== undefined) return await servedByFolder(context, flags, flags.serve);
  for (const [name, given] of [
    ['--connectors', flags.connectors],
    ['--exclude', flags.exclude],
    ['--allow-host', flags.allowHost],
  ] as const) {
    if (given.length === 0) continue;
    throw usage(`${name} belongs to --serve; a config has mcp.connectors, mcp.exclude and http.hosts.`);
  }
  const settings = await (flags.http === undefined ? context.settings() : context.settings('http'));
  const { http } = settings.parts;
  // Loaded only here: no other command serves agents.
  const { configSource } = await import('../../mcp/open-mcp.ts');
  return { http, allowsSql: flags.allowSql || settings.mcp.sql, source: configSource(settings) };
}

async function servedByFolder({ config, cwd, env, scrubber }: CommandContext, flags: McpFlags, data: string) {
  if (config !== null) throw usage('Expected either --serve or --config, got both.');
  const [{ serveSource }, { httpFile }] = await Promise.all([
    import('../../mcp/serve-source.ts'),
    import('../../settings/settings-file.ts'),
  ]);
  const { connectors: globs, exclude, allowHost: hosts } = flags;
  const source = serveSource({ folder: resolve(cwd, data), globs, exclude });
  // Now, and not at the first call: a folder that is none of "serve" is a slip of the command line.
  source.shown();
  const token = env[tokenVariable];
  if (flags.http !== undefined && token === undefined) {
    throw usage(`mcp --serve --http needs a token that agents send: set ${tokenVariable}.`);
  }
  const { data: http, error } = httpFile.safeParse({ token, hosts });
  const [problem] = error?.issues ?? [];
  if (http === undefined) {
    throw usage(`${problem?.path[0] === 'hosts' ? '--allow-host' : tokenVariable}: ${problem?.message}.`);
  }
  if (http.token !== null) scrubber.register(http.token);
  return { http, allowsSql: flags.allowSql, source };
}

async function writeTo(
  terminal: Terminal,
  chunk: Uint8Array,
  done: (error: Error | null) => void,
): Promise<void> {
  const isTaken = await terminal.printBytes(chunk);
  done(isTaken ? null : new Error('the client has closed the output'));
}
