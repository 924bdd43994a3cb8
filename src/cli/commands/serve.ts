import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  aborted,
  command,
  type CommandContext,
  durationOf,
  type FlagsOf,
  hostOf,
  oneOf,
  wholeNumber,
} from '../command.ts';
import { shellWord, stderrLog } from '../environment.ts';
import type { Clock } from '../../core/clock.ts';
import { SyncError, usage } from '../../core/errors.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../definitions/load-definitions.ts';
import type { Masks } from '../../definitions/record-masks.ts';
import { firstNames } from '../../definitions/suggest-name.ts';
import { formatDuration } from '../../settings/texts.ts';
import { isLoopbackHost } from '../../http/guard-address.ts';
import type { SampleSize } from '../../sample/sample-account.ts';
import { maxSampleRevision } from '../../sample/sample-values.ts';
import { shortestTokenSeconds } from '../../service/server-limits.ts';
import type { Service } from '../../service/start-service.ts';
import { loadServiceKey } from '../../service/state/service-key.ts';
import {
  chooseApplication,
  type ChosenApplication,
  defaultDataFolder,
  openStoredState,
} from './applications.ts';
import type { ServedAccount } from '../../sample/sample-service.ts';

const serveOptions = {
  '--host <address>': { text: 'address to bind', default: '127.0.0.1' },
  '--port <n>': { text: '0 for any free port', default: '8787' },
  '--allow-host <name...>': 'names that clients reach it by, besides --host and the loopback names',
  '--data <folder>': { text: 'folder for its state and indexed stores', default: defaultDataFolder },
  '--definitions <folder...>': 'folders with definitions of further connector types',
  '--masks <file>': 'what is never stored and never answered, by connector type (docs/guides/masks.md)',
  '--samples': 'sample accounts for all connectors, whatever their credentials: no third party is asked',
  '--allow-upstream-host <name...>':
    'hosts of third parties that may be at private addresses: by the scheme and port of the definition, with :port at that port too',
  '--size <size>': { text: 'size of the sample accounts: tiny or small', default: 'small' },
  '--members <n>': 'instead: one mailing list with this many members',
  '--seed <n>': { text: 'the same seed makes the same records', default: '1' },
  '--revision <n>': { text: `days of changes in the records, 0 to ${maxSampleRevision}`, default: '0' },
  '--refresh <duration>': { text: 'how often the indexed stores are refreshed', default: '1h' },
  '--no-index': 'no indexed stores: list and get work, search does not',
  '--rate-limit <n>': { text: 'requests per second for each token', default: '1000' },
  '--token-lifetime <duration>': { text: 'lifetime of application tokens, at least 15m', default: '15m' },
  '--tls-cert <file>': 'serve HTTPS with this certificate (PEM, intermediate ones included)',
  '--tls-key <file>': 'the private key of that certificate (PEM)',
} as const;

type ServeFlags = FlagsOf<typeof serveOptions>;

type ServeChoices = ReturnType<typeof readServeFlags>;

const maxLifetimeMs = 7 * 86_400_000;
/** The longest wait of a timer. */
const maxRefreshMs = 24 * 86_400_000;

/** Reads the flags. Throws USAGE that names the flag. */
function readServeFlags(flags: ServeFlags) {
  const revision = wholeNumber('--revision', flags.revision, maxSampleRevision);
  const account = { size: sizeOf(flags), seed: wholeNumber('--seed', flags.seed), revision };
  const shortestMs = shortestTokenSeconds * 1000;
  if (flags.data === '') throw usage('--data: expected the path of a folder, got "".');
  if (flags.masks === '') throw usage('--masks: expected the path of a file, got "".');
  return {
    service: {
      host: flags.host,
      port: wholeNumber('--port', flags.port, 65_535),
      allowedHosts: flags.allowHost.map(hostName),
      upstream: upstreamOf(flags),
      accounts: servedAccounts(account),
      otherwise: account,
      isIndexed: flags.index,
      refreshEveryMs: durationOf('--refresh', flags.refresh, 1000, maxRefreshMs),
      tokenTtlSeconds: durationOf('--token-lifetime', flags.tokenLifetime, shortestMs, maxLifetimeMs) / 1000,
      limits: { requestsPerSecond: wholeNumber('--rate-limit', flags.rateLimit, 1_000_000, 1) },
    },
    /** Folders with definitions, in addition to the built-in ones. */
    definitions: flags.definitions,
    /** The file with masks; null: there are none. */
    masks: flags.masks ?? null,
    revision,
    /** Paths of PEM files; null: HTTP. */
    tls: tlsOf(flags),
  };
}

function tlsOf({ tlsCert: cert = '', tlsKey: key = '' }: ServeFlags) {
  if ((cert === '') !== (key === '')) {
    throw usage('Expected both --tls-cert and --tls-key, or neither; got one.');
  }
  return cert === '' ? null : { cert, key };
}

/** Parses a name as in a Host header, without a port. */
function hostName(text: string): string {
  if (/^[\w.-]{1,253}$|^\[[\da-f:.]{2,45}\]$/i.test(text)) return text;
  throw usage(`--allow-host: expected a host name or an address without a port, got "${text}".`);
}

function upstreamOf({ samples, allowUpstreamHost }: ServeFlags) {
  if (!samples) {
    return { allowHosts: allowUpstreamHost.map((host) => hostOf('--allow-upstream-host', host)) };
  }
  if (allowUpstreamHost.length === 0) return null;
  throw usage('--allow-upstream-host: expected no --samples beside it, which asks no third party.');
}

function sizeOf({ size, members }: ServeFlags): SampleSize {
  if (members !== undefined) return { members: wholeNumber('--members', members, 1_000_000) };
  return oneOf('--size', size, ['tiny', 'small']);
}

const servedWorkspace = 'default';

const samples = [
  { connectorId: 'sample-newsletter', definitionName: 'email-marketing', name: 'newsletter' },
  { connectorId: 'sample-wiki', definitionName: 'workspace-notes', name: 'wiki' },
  { connectorId: 'sample-library', definitionName: 'document-library', name: 'library' },
] as const;

/** The connectors that every `serve` provides: one of each built-in definition. */
function servedAccounts(account: Pick<ServedAccount, 'size' | 'seed' | 'revision'>) {
  return samples.map(({ connectorId, definitionName }) => ({
    connectorId,
    definitionName,
    workspace: servedWorkspace,
    ...account,
  }));
}

export const serve = command({
  options: serveOptions,
  help: `
Credentials: $CONNECTOR_SYNC_CLIENT_ID and $CONNECTOR_SYNC_CLIENT_SECRET; without them, the first start on a
data folder generates new ones and prints them once. "connector-sync applications" manages more.

Credentials of connectors are encrypted with the key in $CONNECTOR_SYNC_SERVICE_KEY (32 bytes, base64 or hex), else with
service.key in the data folder, which the first start creates.

A connector with real credentials is answered by the third party itself. The connectors that are there from the start have sample
accounts, and so has one that is created with a secret that begins with "sample".

Requests are logged on stderr, one JSON line each, with LOG_LEVEL=info.

Each day of --revision adds, changes or deletes about one record in a hundred. To see a sync find that: serve, sync,
stop the service, serve with the next revision and the same port and seed, sync again.

Examples:
  $ connector-sync serve --port 8787 --members 100000
  $ connector-sync serve --revision 1`,
  run: async (context, flags) => {
    const { terminal, signal } = context;
    const choices = readServeFlags(flags);
    const folder = resolve(context.cwd, flags.data);
    warnOfPlainText(context, choices);
    const application = await chooseApplication(context, folder);
    await using service = await start(context, choices, folder, application);
    // Prints the secret, once, because it was generated here and cannot be learned otherwise. No other place prints
    // one.
    const secretText = application.kind === 'made-up' ? application.clientSecret.reveal() : null;
    terminal.printJson({
      url: service.url,
      openapi: `${service.url}/openapi.json`,
      workspace: servedWorkspace,
      connectors: service.connectors,
      revision: choices.revision,
      data: folder,
      clientId: application.clientId,
      ...(secretText === null ? {} : { clientSecret: secretText }),
    });
    terminal.print(...announcement(service, choices, flags.data, application, context.program));
    if (application.kind === 'given') context.scrubber.register(application.clientSecret);
    // A server runs until it is stopped: exit code 0.
    await aborted(signal);
  },
});

function warnOfPlainText({ terminal }: CommandContext, { service: { host }, tls }: ServeChoices): void {
  if (tls !== null || isLoopbackHost(host)) return;
  terminal.note(
    `WARNING: ${host} can be reached from other machines, and this service speaks plain HTTP: client secrets, tokens and ` +
      'records cross the network readable. Put a proxy with TLS in front, or give --tls-cert and --tls-key.',
  );
}

async function start(
  context: CommandContext,
  choices: ServeChoices,
  folder: string,
  application: ChosenApplication,
): Promise<Service> {
  const { env, terminal, clock, cwd, scrubber } = context;
  // Loaded on demand: a server's code would slow the start of every other command.
  const { serveSamples } = await import('../../sample/sample-service.ts');
  const log = await stderrLog(context);
  const definitions = loadDefinitions([
    builtInDefinitionsFolder,
    ...choices.definitions.map((name) => resolve(cwd, name)),
  ]);
  const masks = await loadMasks({ env, cwd, scrubber }, choices.masks, definitions);
  return await serveSamples({
    ...choices.service,
    data: folder,
    key: loadServiceKey(folder, env['CONNECTOR_SYNC_SERVICE_KEY']),
    ...(application.kind === 'there'
      ? {}
      : { clientId: application.clientId, clientSecret: application.clientSecret.reveal() }),
    definitions,
    masks,
    tls: choices.tls === null ? null : readTls(choices.tls, cwd),
    onFailure: (error) => terminal.note(failureText(error)),
    onRequest: (entry) => log?.info(entry, 'request'),
  }).catch(async (error: unknown) => {
    if (application.kind === 'made-up') await forget(application.clientId, folder, clock);
    throw startFailure(error, choices);
  });
}

async function loadMasks(
  { env, cwd, scrubber }: Pick<CommandContext, 'env' | 'cwd' | 'scrubber'>,
  name: string | null,
  definitions: ReturnType<typeof loadDefinitions>,
): Promise<ReadonlyMap<string, Masks>> {
  if (name === null) return new Map();
  // Loaded on demand: it knows the format of configs.
  const { loadServedMasks } = await import('../../settings/load-served-masks.ts');
  const { key, masks } = loadServedMasks({ file: resolve(cwd, name), env, definitions });
  if (key !== null) scrubber.register(key);
  return masks;
}

function readTls({ cert, key }: NonNullable<ServeChoices['tls']>, cwd: string) {
  const read = (flag: string, file: string): string => {
    try {
      return readFileSync(resolve(cwd, file), 'utf8');
    } catch (error) {
      throw usage(
        `${flag}: ${file} cannot be read (${error instanceof Error ? error.message : String(error)}).`,
      );
    }
  };
  return { cert: read('--tls-cert', cert), key: read('--tls-key', key) };
}

/** Removes a client whose secret was not shown, so the next start generates another one. */
async function forget(clientId: string, folder: string, clock: Clock): Promise<void> {
  try {
    using state = await openStoredState(folder, clock, { isMade: false });
    state?.applications.delete(clientId);
  } catch {
    // The error that kept the service from starting also causes this one, and is reported.
  }
}

/** The text of an unexpected error may quote a record: only its origin is shown. */
function failureText(error: unknown): string {
  if (error instanceof SyncError) return `A request failed: ${error.code}: ${error.message}`;
  const frames = error instanceof Error ? (error.stack ?? '').match(/^ +at .*$/gm) : null;
  return [
    'A request failed unexpectedly:',
    error instanceof Error ? error.name : 'no error',
    ...(frames ?? []),
  ].join('\n');
}

function startFailure(error: unknown, { service: { host, port }, tls }: ServeChoices): unknown {
  if (!(error instanceof Error && 'code' in error)) return error;
  const code = String(error.code);
  if (code === 'EADDRINUSE') {
    return usage(
      `Port ${port} of ${host} is in use by another program. Choose another with --port, or 0 for any free one.`,
    );
  }
  if (tls === null || !/^ERR_(OSSL|TLS|SSL|CRYPTO)/.test(code)) return error;
  // OpenSSL's reasons quote nothing of the files.
  return usage(
    `Expected in ${tls.cert} a certificate and in ${tls.key} its private key without a passphrase, both PEM: ${error.message}`,
  );
}

/** The lines that are shown when the service has started. `data`: as it was written. */
function announcement(
  service: Pick<Service, 'url' | 'connectors'>,
  choices: Pick<ServeChoices, 'revision' | 'service'>,
  data: string,
  application: ChosenApplication,
  program: string,
): readonly string[] {
  const { revision } = choices;
  const { upstream, isIndexed, refreshEveryMs } = choices.service;
  return [
    `Serving the Connector Execution API at ${service.url}`,
    `  OpenAPI:     ${service.url}/openapi.json`,
    `  workspace:   ${servedWorkspace}`,
    `  connectors:  ${firstNames(service.connectors, 8)} (revision ${revision})`,
    `  new ones:    ${upstream === null ? 'sample data, whatever their credentials (--samples)' : 'the real service; sample data if a secret starts with "sample"'}`,
    `  data:        ${data}`,
    `  search:      ${isIndexed ? `indexed stores, refreshed every ${formatDuration(refreshEveryMs)}` : 'off (--no-index)'}`,
    ...credentialsText(application, data, program),
    '',
    'A config for it:',
    '  api:',
    `    baseUrl: ${service.url}`,
    `    clientId: ${JSON.stringify(application.clientId)}`,
    '    clientSecret: "${CONNECTOR_API_CLIENT_SECRET}"',
    '  sinks: { main: { type: sqlite, path: ./data/sample.db } }',
    '  connectors:',
    ...samples.map(
      ({ connectorId, definitionName, name }) =>
        `    ${name}: { definition: ${definitionName}, id: ${connectorId}, sink: main }`,
    ),
    '',
    ...(revision < maxSampleRevision
      ? [
          `Ctrl-C stops it. --revision ${revision + 1} serves the accounts a day later: some records new, changed or deleted.`,
        ]
      : ['Ctrl-C stops it.']),
  ];
}

function credentialsText(application: ChosenApplication, data: string, program: string): readonly string[] {
  switch (application.kind) {
    case 'given':
      return ['  credentials: from CONNECTOR_SYNC_CLIENT_ID and CONNECTOR_SYNC_CLIENT_SECRET'];
    case 'made-up':
      return [
        '  credentials: generated now; the secret is shown this once:',
        `    client id      ${application.clientId}`,
        `    client secret  ${application.clientSecret.reveal()}`,
      ];
    case 'there':
      return [
        `  credentials: client id ${application.clientId}; its secret was shown once, when it was created.`,
        '    Lost it? Make another one:',
        `    ${program} applications create${data === defaultDataFolder ? '' : ` --data ${shellWord(data)}`}`,
      ];
  }
}
