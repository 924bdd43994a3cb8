import { resolve } from 'node:path';
import { hasCode, SyncError } from '../../../core/errors.ts';
import { isConnectorId, isConnectorName } from '../../../core/names.ts';
import { Secret } from '../../../core/secret.ts';
import { usage } from '../../../core/usage-error.ts';
import { servedDefinition, type Definition } from '../../../definitions/definition.ts';
import { maskedDefinition, type Masks } from '../../../definitions/mask/masked-definition.ts';
import { buildDirect } from '../../../settings/build-direct.ts';
import { connectorNamed } from '../../../settings/chosen-connectors.ts';
import { readSettings, withParts } from '../../../settings/load-settings.ts';
import type {
  ConnectorSettings,
  LocalSettings,
  ReadConnector,
  SettingsWith,
} from '../../../settings/settings.ts';
import type { CommandContext } from '../../command.ts';
import { configuredWorkspaces } from '../../find-in-workspaces.ts';
import { registerSecrets } from '../../load-config.ts';

const credentialPrefix = 'CONNECTOR_SYNC_CREDENTIAL_';
const defaultWorkspace = 'default';

interface Asked {
  /** Null: none was named. */
  readonly connector: string | null;
  /** Beside those of the config. */
  readonly allowHosts: readonly string[];
}

interface Chosen {
  readonly connector: ReadConnector;
  readonly settings: SettingsWith<'access'>;
}

/**
 * What a definition is tried with: the connector that was asked for, else the credentials of the environment, else the
 * API. Throws USAGE, saying what to give.
 */
export function chooseConnector(
  context: CommandContext,
  config: LocalSettings | null,
  definition: Definition,
  { connector: name, allowHosts }: Asked,
): Chosen {
  const own = config ?? environmentSettings(context);
  const settings = { ...own, allowUpstreamHosts: [...own.allowUpstreamHosts, ...allowHosts] };
  const chosen = (
    address: ConnectorSettings['address'],
    { masks, storedIn }: Pick<ConnectorSettings, 'masks' | 'storedIn'> | typeof untold = untold,
  ): Chosen => ({
    connector: {
      ...triedConnector(definition, address, masks ?? masksOfType(settings, definition)),
      storedIn,
    },
    settings: { ...settings, access: address.kind === 'direct' ? null : withParts(settings, 'api').api },
  });
  if (name !== null) {
    const entry = isConnectorName(name) ? settings.connectors.get(name) : undefined;
    if (entry !== undefined) return chosen(addressOf(entry, definition, settings), entry);
    if (settings.parts.api === null || !isConnectorId(name)) connectorNamed(settings, name);
    if (isConnectorId(name)) return chosen({ kind: 'id', id: name });
  }
  const given = credentialsOf(context, definition);
  if (Object.keys(given).length > 0) {
    return chosen(triedCredentials(definition, given, (field) => variable(field ?? '<FIELD>')));
  }
  if (settings.parts.api === null) throw usage(howToText(definition));
  const { scopedToWorkspace } = settings.parts.api;
  const workspace = scopedToWorkspace ?? configuredWorkspaces(settings)[0] ?? defaultWorkspace;
  return chosen({ kind: 'workspace', workspace });
}

/** Credentials that no connector of the config has. */
const untold = { masks: null, storedIn: null } as const;

/** Of the config's connectors of this type. Throws USAGE where they mask an entity in several ways. */
function masksOfType({ connectors }: LocalSettings, { id, name }: Definition): Masks {
  const ofType = [...connectors.values()].filter(({ definition }) => definition.id === id);
  const masks = new Map(ofType.flatMap((connector) => [...connector.masks]));
  for (const [entity, { mask }] of ofType.flatMap((connector) => [...connector.masks])) {
    if (masks.get(entity)?.mask.fingerprint === mask.fingerprint) continue;
    throw usage(
      `The connectors of the type ${name} mask ${entity} in several ways. Name the one whose masks you mean with --connector.`,
    );
  }
  return masks;
}

/** Without a config: the API that the environment names, if any. */
function environmentSettings({ cwd, env, scrubber }: CommandContext): LocalSettings {
  const api = {
    baseUrl: '${CONNECTOR_API_BASE_URL}',
    clientId: '${CONNECTOR_API_CLIENT_ID}',
    clientSecret: '${CONNECTOR_API_CLIENT_SECRET}',
  };
  const hasApi = (env['CONNECTOR_API_BASE_URL'] ?? '') !== '';
  const text = JSON.stringify({ sinks: {}, ...(hasApi ? { api } : {}) });
  const settings = readSettings({ file: resolve(cwd, 'environment'), text, env });
  registerSecrets(settings, scrubber);
  return settings;
}

function addressOf(
  { name, definition: own, address }: ConnectorSettings,
  definition: Definition,
  settings: LocalSettings,
): ConnectorSettings['address'] {
  if (own.id !== definition.id) {
    throw usage(`The connector "${name}" is of the type ${own.name}, and ${definition.name} is tried.`);
  }
  if (address.kind !== 'direct') return address;
  withParts(settings, 'access');
  const given = Object.fromEntries(
    [...address.credentials].map(([field, secret]) => [field, secret.reveal()]),
  );
  const tried = triedCredentials(
    definition,
    given,
    (field) => `credentials of ${name}${field === null ? '' : `, ${field}`}`,
  );
  return tried.kind === 'direct' ? { ...tried, signIn: address.signIn } : tried;
}

/** A connector that no config has, at this address, with the rates of its definition. */
function triedConnector(
  definition: Definition,
  address: ConnectorSettings['address'],
  masks: Masks,
): Omit<ReadConnector, 'storedIn'> {
  const { name, rateLimit } = definition;
  if (!isConnectorName(name)) throw new TypeError(`expected the name of a checked definition, got ${name}`);
  return {
    name,
    definition: maskedDefinition(
      address.kind === 'direct' ? definition : servedDefinition(definition),
      masks,
    ),
    address,
    ...rateLimit,
    isRateSet: false,
  };
}

/**
 * The service itself, with these credentials. Throws USAGE with everything that is wrong with them; `placeOf` names
 * the place of a field, or (null) of all of them.
 */
function triedCredentials(
  definition: Definition,
  given: Readonly<Record<string, string>>,
  placeOf: (field: string | null) => string,
): ConnectorSettings['address'] {
  const problems: string[] = [];
  const address = buildDirect({}, given, definition, {
    at: [],
    note: ([, field], message) => {
      problems.push(`${placeOf(field === undefined ? null : String(field))}: ${message}`);
    },
  });
  if (problems.length > 0 || address === null) throw usage(problems.join('\n'));
  return address;
}

/** By field; those that are set. The scrubber knows them from here on. */
function credentialsOf(
  { env, scrubber }: CommandContext,
  { credentials }: Definition,
): Readonly<Record<string, string>> {
  const fields = new Set(credentials.flatMap((shape) => [...shape.fields.keys()]));
  const given = [...fields].flatMap((field) => {
    const value = env[variable(field)] ?? '';
    return value === '' ? [] : [[field, value] as const];
  });
  const isSecret = (field: string): boolean =>
    credentials.some((shape) => shape.fields.get(field)?.isSecret === true);
  for (const [field, value] of given) if (isSecret(field)) scrubber.register(new Secret(value));
  return Object.fromEntries(given);
}

/** Of a field of credentials in the environment. */
export function variable(field: string): string {
  return `${credentialPrefix}${field.toUpperCase()}`;
}

function howToText({ name, upstream, credentials }: Definition): string {
  const api =
    'name an API in the config, or by CONNECTOR_API_BASE_URL, CONNECTOR_API_CLIENT_ID and CONNECTOR_API_CLIENT_SECRET';
  if (upstream === null) {
    return `${name} has no upstream, so only an API can read it, and there is none: ${api}.`;
  }
  return [
    `${name} needs credentials. ${waysText(credentials)}`,
    `Or name a connector of the config with --connector. Or ${api}.`,
  ].join('\n');
}

/** The API has no connector to try the definition with: what else there is. Gives any other error as it is. */
export function withOtherWays(error: unknown, { upstream, credentials }: Definition): unknown {
  if (!hasCode(error, 'CONNECTOR_UNKNOWN') || upstream === null) return error;
  const { message, code, recovery, context } = error;
  const other = `${message}.\nOr ask the service itself. ${waysText(credentials)}`;
  return new SyncError(other, { code, recovery, context, cause: error });
}

function waysText(credentials: Definition['credentials']): string {
  const ways = credentials.map(({ title, fields }) => {
    const needed = [...fields].filter(([, { isRequired }]) => isRequired).map(([field]) => variable(field));
    return `  ${needed.join(' and ')} (${title})`;
  });
  return ['Set these variables of the environment:', ways.join(', or\n')].join('\n');
}
