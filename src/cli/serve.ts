import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import { Secret } from '../core/secret.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../definitions/load-definitions.ts';
import type { ServedAccount } from '../service/local-connectors.ts';
import { maxSampleRevision } from '../service/sample/revision-time.ts';
import type { Service } from '../service/start-service.ts';
import type { CommandContext, Enter } from './command-context.ts';
import { exitCodes, type ExitCode } from './exit-codes.ts';
import { usage } from './usage-error.ts';
import { wholeNumber } from './whole-number.ts';

interface ServeFlags {
  readonly host: string;
  readonly port: string;
  readonly size: string;
  readonly members?: string;
  readonly seed: string;
  readonly revision: string;
}

interface Credentials {
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly isGenerated: boolean;
}

const workspace = 'default';

export function addServe(program: Command, enter: Enter): void {
  program
    .command('serve')
    .description('Serve the Connector Execution API on this machine, with sample data.')
    .option('--host <address>', 'address to bind', '127.0.0.1')
    .option('--port <n>', '0 for any free port', '8787')
    .option('--size <size>', 'of the sample accounts: tiny or small', 'small')
    .option('--members <n>', 'instead: one mailing list with so many members')
    .option('--seed <n>', 'the same seed makes the same records', '1')
    .option('--revision <n>', `days that have changed the records, 0 to ${maxSampleRevision}`, '0')
    .addHelpText(
      'after',
      `
Credentials: $CONNECTOR_SYNC_CLIENT_ID and $CONNECTOR_SYNC_CLIENT_SECRET; where they are not set, new ones are made up
and printed.

On each day of --revision about one record in a hundred comes, changes or goes. To see what a sync makes of that: serve, sync,
end the service, serve with the next revision and the same port and seed, sync again.

Examples:
  $ connector-sync serve --port 8787 --members 100000
  $ connector-sync serve --revision 1`,
    )
    .action((flags: ServeFlags) => enter((context) => runServe(context, flags)));
}

/** Told to stop is how a server ends: exit code 0. */
async function runServe(context: CommandContext, flags: ServeFlags): Promise<ExitCode> {
  const { terminal, signal } = context;
  const credentials = credentialsFrom(context);
  const size = sizeOf(flags);
  const seed = wholeNumber('--seed', flags.seed, Number.MAX_SAFE_INTEGER);
  const revision = wholeNumber('--revision', flags.revision, maxSampleRevision);
  const port = wholeNumber('--port', flags.port, 65_535);
  // Loaded only where something is served: a server's code would slow the start of every other command.
  const { startService } = await import('../service/start-service.ts');
  await using service = await startService({
    host: flags.host,
    port,
    clientId: credentials.clientId,
    clientSecret: credentials.clientSecret.reveal(),
    definitions: loadDefinitions([builtInDefinitionsFolder]),
    accounts: [
      {
        connectorId: 'sample-newsletter',
        workspace,
        definitionName: 'email-marketing',
        seed,
        size,
        revision,
      },
      { connectorId: 'sample-wiki', workspace, definitionName: 'workspace-notes', seed, size, revision },
    ],
  }).catch((error: unknown) => {
    throw portTaken(error, flags);
  });
  // The one place that prints a secret, once, because it was made up here and nobody could know it otherwise.
  const secretText = credentials.isGenerated ? credentials.clientSecret.reveal() : null;
  terminal.printJson({
    url: service.url,
    workspace,
    connectors: service.connectors,
    revision,
    clientId: credentials.clientId,
    ...(secretText === null ? {} : { clientSecret: secretText }),
  });
  for (const line of announcement(service, revision, credentials.clientId, secretText)) terminal.print(line);
  if (!credentials.isGenerated) context.scrubber.register(credentials.clientSecret);
  await aborted(signal);
  return exitCodes.ok;
}

function credentialsFrom({ env }: CommandContext): Credentials {
  const clientId = env['CONNECTOR_SYNC_CLIENT_ID'] ?? '';
  const clientSecret = env['CONNECTOR_SYNC_CLIENT_SECRET'] ?? '';
  if ((clientId === '') !== (clientSecret === '')) {
    throw usage(
      'Expected both CONNECTOR_SYNC_CLIENT_ID and CONNECTOR_SYNC_CLIENT_SECRET, or neither; one is not set.',
    );
  }
  return clientId === ''
    ? {
        clientId: 'local',
        clientSecret: new Secret(randomBytes(18).toString('base64url')),
        isGenerated: true,
      }
    : { clientId, clientSecret: new Secret(clientSecret), isGenerated: false };
}

function announcement(
  { url, connectors }: Service,
  revision: number,
  clientId: string,
  secret: string | null,
): readonly string[] {
  return [
    `Serving the Connector Execution API at ${url}`,
    `  connectors: ${connectors.join(', ')} (workspace ${workspace}), revision ${revision}`,
    secret === null
      ? '  credentials: from CONNECTOR_SYNC_CLIENT_ID and CONNECTOR_SYNC_CLIENT_SECRET'
      : `  credentials, made up for this run: client id ${clientId}, client secret ${secret}`,
    '',
    'A config for it:',
    '  api:',
    `    baseUrl: ${url}`,
    `    clientId: ${JSON.stringify(clientId)}`,
    '    clientSecret: "${CONNECTOR_API_CLIENT_SECRET}"',
    '  sinks: { main: { type: sqlite, path: ./data/sample.db } }',
    '  connectors:',
    '    newsletter: { definition: email-marketing, id: sample-newsletter, sink: main }',
    '    wiki: { definition: workspace-notes, id: sample-wiki, sink: main }',
    '',
    ...(revision < maxSampleRevision
      ? [`Ctrl-C ends it. With --revision ${revision + 1} some records will have come, changed or gone.`]
      : ['Ctrl-C ends it.']),
  ];
}

function sizeOf({ size, members }: ServeFlags): ServedAccount['size'] {
  if (members !== undefined) return { members: wholeNumber('--members', members, 1_000_000) };
  if (size !== 'tiny' && size !== 'small') throw usage(`--size: expected tiny or small, got "${size}".`);
  return size;
}

function portTaken(error: unknown, { host, port }: ServeFlags): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) return error;
  return usage(
    `Port ${port} of ${host} is taken by another program. Choose another with --port, or 0 for any free one.`,
  );
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
