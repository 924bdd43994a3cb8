import { type Clock, instant } from '../core/clock.ts';
import { hasCode, usage } from '../core/errors.ts';
import { isConnectorId } from '../core/names.ts';
import type { ConnectorSettings, SettingsWith } from '../settings/settings.ts';
import { IdentityChangedError, type IdentityDifference, identityDifferences } from '../sinks/sink-errors.ts';
import type { StoredIdentity } from '../sinks/lease.ts';
import { recordShape } from '../engine/prepare/prepare-record.ts';
import { openHistory, openSink, statusOf } from '../sinks/registry.ts';
import type { AdoptedIdentity } from '../sinks/requests.ts';
import type { App, SyncRequest } from './app.ts';
import { compareAside } from './audit-entity.ts';
import { addressOfConnector, storedOrigin } from './connector-address.ts';

/**
 * Compares the address of the connector with that of its stored rows. Makes no call. Throws USAGE if nothing is stored.
 */
export async function changedAddress(
  { storedIn, ...connector }: ConnectorSettings,
  settings: SettingsWith<'access'>,
): Promise<{ readonly stored: StoredIdentity; readonly differences: readonly IdentityDifference[] }> {
  const stored = await storedOrigin(storedIn);
  if (stored === null) {
    const { name, sink } = storedIn;
    throw usage(`Sink ${sink.name} has no data of ${name}: there is nothing to adopt. Run sync.`);
  }
  const given = addressOfConnector(connector, { settings }) ?? stored.baseUrl;
  return { stored, differences: identityDifferences(stored, { ...stored, baseUrl: given }) };
}

/**
 * Compares the configured identity with the stored one. An address that needs a sign-in is assumed to belong to the
 * same account, because `login` sends nothing there before. Throws IdentityChangedError for another type.
 */
export async function changedIdentity(
  app: App,
  connector: ConnectorSettings,
  { stored, differences: [moved] }: Awaited<ReturnType<typeof changedAddress>>,
  signal: AbortSignal,
) {
  const { name, definition, address } = connector;
  await using source = await app.openSource(connector, signal);
  const origin = await source.origin(signal).catch((error: unknown) => {
    const { connectorId } = stored;
    const mustSignIn = address.kind === 'direct' && address.signIn !== null && hasCode(error, 'AUTH_FAILED');
    if (!mustSignIn || moved === undefined || !isConnectorId(connectorId)) throw error;
    return { baseUrl: moved.given, connectorId, isAccount: null };
  });
  const { baseUrl, connectorId, isAccount } = origin;
  const identity = { connector: name, baseUrl, connectorId, definition: definition.name };
  const differences = identityDifferences(stored, identity);
  if (differences.some(({ what }) => what === 'definition')) {
    throw new IdentityChangedError(name, differences);
  }
  await using history = await openHistory(connector.sink);
  const status = await statusOf(history, name);
  return {
    identity,
    /** Differences from the stored identity; empty if there is nothing to adopt. */
    differences,
    /** True if nothing can be read before a sign-in. */
    mustSignIn: isAccount === null,
    /** True if a sync ended because the records seemed to belong to another account. */
    isDoubted: (await history.doubts([name])).length > 0,
    /** Number of stored rows. */
    rows: (status?.entities ?? []).reduce((sum, entity) => sum + entity.rows, 0),
  };
}

/** Assigns the sink's records to this address and connector id. Throws the errors of the sink's `adopt`. */
export async function adoptIdentity(connector: ConnectorSettings, identity: AdoptedIdentity, clock: Clock) {
  await using sink = await openSink(connector.sink, { clock });
  await sink.repair.adopt(identity, instant(clock.now()));
}

/** Calls for records: enough for some pages of most entities. */
const sampleCalls = 60;
/**
 * Least share of equal rows among the compared ones. The same account has most rows as they are stored; another one
 * shares hardly a key.
 */
const leastEqualShare = 0.5;
/** An entity with this many compared rows and no equal one belongs to another account, however well others fit. */
const tellingRows = 20;

export type Sample = Awaited<ReturnType<typeof sampleConnector>>;

/**
 * Reads a part of a connector and compares it with the rows in the connector's sink. Throws the errors of
 * `compareAside`.
 */
export async function sampleConnector(
  app: App,
  connector: ConnectorSettings,
  { onEvent, signal }: Pick<SyncRequest, 'onEvent' | 'signal'>,
) {
  const run = { isFull: true, maxCalls: sampleCalls };
  const asked = { globs: { select: [], exclude: [] }, run, onEvent, signal };
  return await compareAside(app, connector, asked, async (report, compare) => {
    const entities = [];
    for (const name of connector.entities.keys()) {
      const entity = connector.definition.entities.get(name);
      if (entity === undefined) continue;
      const found = await compare(entity.table, 0, recordShape(entity));
      // Served records: stored with the same content except for volatile fields, with other content, and not stored.
      const [equal, changed, added] = [found.same, found.changed.count, found.missing.count];
      // Stored records that were not served. Null if the sample ended before the account did.
      const missing = report.outcome === 'ok' ? found.extra.count : null;
      entities.push({ entity: name, read: equal + changed + added, equal, changed, added, missing });
    }
    const compared = entities.filter(({ read, missing }) => read + (missing ?? 0) > 0);
    const all = compared.reduce((sum, { read, missing }) => sum + read + (missing ?? 0), 0);
    const equal = compared.reduce((sum, one) => sum + one.equal, 0);
    const isOther = compared.some((one) => one.equal === 0 && one.read + (one.missing ?? 0) >= tellingRows);
    return {
      /** Report of the sample, which is in no sink's history. */
      report,
      entities: compared,
      /** True if the served records agree with the stored ones, as far as the sample goes. */
      agrees: equal > 0 && equal >= all * leastEqualShare && !isOther,
    };
  });
}
