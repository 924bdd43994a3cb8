import type { ConnectorSettings, ReadConnector, SettingsWith } from '../settings/settings.ts';
import { IdentityChangedError } from '../sinks/sink-errors.ts';
import type { StoredIdentity } from '../sinks/lease.ts';
import { openExistingHistory } from '../sinks/registry.ts';
import { placesOfCredentials } from '../upstream/credentials.ts';
import type { AppOptions } from './app.ts';

type Access = Pick<AppOptions, 'identityBaseUrl'> & {
  readonly settings: Pick<SettingsWith<'access'>, 'access'>;
};

/**
 * The destination of a connector's credentials: scheme, host and port of everything that gets those of a direct one,
 * else the base URL of the API. Null: they cannot be used, so nothing is sent.
 */
export function addressOfConnector(
  { definition, address }: Pick<ReadConnector, 'definition' | 'address'>,
  { settings: { access }, identityBaseUrl }: Access,
): string | null {
  if (address.kind !== 'direct') return identityBaseUrl ?? access?.baseUrl ?? '';
  return placesOfCredentials(
    definition,
    Object.fromEntries([...address.credentials].map(([field, secret]) => [field, secret.reveal()])),
  );
}

/** The origin of the rows under the connector's name; null where the sink holds none. */
export async function storedOrigin({ name, sink }: ConnectorSettings['storedIn']) {
  await using history = await openExistingHistory(sink);
  return (await history?.origins([name]))?.[0] ?? null;
}

/**
 * Called before the first request that carries a credential. Throws `IdentityChangedError` if the stored rows came from
 * another address: a person accepts that with `adopt`. `known`: the origin that the caller has read from the sink.
 */
export async function checkAddress(
  connector: ReadConnector,
  access: Access & Pick<AppOptions, 'adopts'>,
  known?: StoredIdentity | null,
): Promise<void> {
  const { storedIn } = connector;
  if (storedIn === null || access.adopts === storedIn.name) return;
  const given = addressOfConnector(connector, access);
  const stored = known === undefined ? await storedOrigin(storedIn) : known;
  if (stored === null || given === null || stored.baseUrl === given) return;
  throw new IdentityChangedError(storedIn.name, [{ what: 'base URL', stored: stored.baseUrl, given }]);
}

/**
 * The same for calls to the API that belong to no connector: its credentials go to an address that some stored rows
 * came from, as long as any came through an API.
 */
export async function checkApiAddress({ settings, adopts, identityBaseUrl }: AppOptions): Promise<void> {
  if (adopts !== undefined) return;
  const given = identityBaseUrl ?? settings.access?.baseUrl ?? '';
  const served = [...settings.connectors.values()].filter(({ address }) => address.kind !== 'direct');
  const changed: IdentityChangedError[] = [];
  for (const sink of new Set(served.map((one) => one.sink))) {
    const names = served.filter((one) => one.sink === sink).map(({ name }) => name);
    // One that is away must not keep connectors of other sinks from their API.
    await using history = await openExistingHistory(sink).catch(() => null);
    for (const { connector, baseUrl: stored } of (await history?.origins(names)) ?? []) {
      if (stored === given) return;
      changed.push(new IdentityChangedError(connector, [{ what: 'base URL', stored, given }]));
    }
  }
  const [first] = changed;
  if (first !== undefined) throw first;
}
