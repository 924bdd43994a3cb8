import { type Clock, systemClock } from '../core/clock.ts';
import { connectorsBySink } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { DriftRow } from '../sinks/readings.ts';
import { accessSink, openExistingHistory } from '../sinks/registry.ts';
import { healthOf } from './connector-health.ts';
import { overviewOf, readSignIns, type SinkOverview, withheldByAgeOf } from './connector-states.ts';

export type StoredConnector = Awaited<ReturnType<typeof readSink>>[number];

/** Number of failures of each kind to name for a connector. */
export const failureLimit = 20;
const quarantineLimit = 3;

/** In the order of the connectors; each sink of them is read in one pass. */
export async function readStatuses(
  connectors: readonly ConnectorSettings[],
  overviews: ReadonlyMap<string, SinkOverview>,
  clock: Clock = systemClock,
): Promise<readonly StoredConnector[]> {
  const nowMs = clock.now();
  const read = new Map<ConnectorSettings, StoredConnector>();
  const signIns = await readSignIns(connectors, clock);
  for (const [sink, ofSink] of connectorsBySink(connectors)) {
    for (const one of await readSink(sink, ofSink, overviews, signIns, nowMs)) read.set(one.connector, one);
  }
  return connectors.flatMap((connector) => read.get(connector) ?? []);
}

async function readSink(
  sink: SinkSettings,
  connectors: readonly ConnectorSettings[],
  overviews: ReadonlyMap<string, SinkOverview>,
  signIns: Awaited<ReturnType<typeof readSignIns>>,
  nowMs: number,
) {
  const access = accessSink(sink);
  await using history = await openExistingHistory(sink);
  await using closed = await access.openClosedFiles();
  const copies = await history?.copies();
  const statuses = (await history?.connectors(connectors.map(({ name }) => name))) ?? [];
  const statusByName = new Map(statuses.map((status) => [status.connector, status]));
  const readConnector = async (connector: ConnectorSettings) => {
    const { name } = connector;
    const overview = overviewOf(overviews, connector);
    const signIn = signIns.get(name) ?? null;
    return {
      connector,
      health: healthOf(connector, overview, nowMs, signIn),
      /** The newest sync, also one that could not begin. */
      lastRun: overview?.lastRun ?? null,
      /** Location of the sink's `_sync_*` tables. */
      ledgerPlace: access.ledgerPlace,
      /** Null: nothing was ever synced, or only a part of the connector is there. */
      status: statusByName.get(name) ?? null,
      /** The copy that would have to be completed first. */
      unfinishedCopy: copies?.unfinished.get(name) ?? null,
      /** The sink that it was copied to: this one takes no more syncs of it. */
      copiedAway: copies?.away.get(name) ?? null,
      /** Null: no person signs in to it. */
      signIn,
      paused: overview?.paused ?? null,
      /** Work that purges have not completed. */
      purgeWork: overview?.purgeWork ?? [],
      failures: (await history?.failures(name, failureLimit)) ?? [],
      fileFailures: (await history?.fileFailures(name, failureLimit)) ?? [],
      /** The newest ones. */
      quarantine: (await history?.quarantine(name, quarantineLimit)) ?? [],
      masks: (await history?.masks(name)) ?? [],
      /** Has only entities that still have a retention. */
      withheldByAge: withheldByAgeOf(connector, overview?.withheldByAge ?? []),
      damagedFiles: (await closed?.check(name))?.damaged ?? [],
    };
  };
  const read: Awaited<ReturnType<typeof readConnector>>[] = [];
  for (const connector of connectors) read.push(await readConnector(connector));
  return read;
}

/** Null where there is no sink yet. */
export async function readDrift({ name, sink }: ConnectorSettings): Promise<readonly DriftRow[] | null> {
  await using history = await openExistingHistory(sink);
  return (await history?.drift(name)) ?? null;
}
