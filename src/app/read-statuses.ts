import type { ConnectorSettings } from '../settings/settings.ts';
import type { DamagedFile } from '../sinks/closed-files.ts';
import type { CopiedAway, UnfinishedCopy } from '../sinks/copies.ts';
import type { DriftRow } from '../sinks/drift.ts';
import type { Pause } from '../sinks/lease.ts';
import type { ConnectorStatus, FailedFile, PartitionFailure, QuarantineRow } from '../sinks/ledger-reader.ts';
import { accessSink, openExistingHistory } from '../sinks/registry.ts';
import { sinksOf } from '../settings/chosen-connectors.ts';
import { overviewOf, type SinkOverview } from './connector-states.ts';

export interface StoredConnector {
  readonly connector: ConnectorSettings;
  /** Where the sink's `_sync_*` tables are. */
  readonly ledgerPlace: string;
  /** Null: nothing was ever synced, or only a part of the connector is there. */
  readonly status: ConnectorStatus | null;
  /** The copy that would have to be completed first. */
  readonly unfinishedCopy: UnfinishedCopy | null;
  /** The sink that it was copied to: this one takes no more syncs of it. */
  readonly copiedAway: CopiedAway | null;
  readonly paused: Pause | null;
  readonly failures: readonly PartitionFailure[];
  readonly fileFailures: readonly FailedFile[];
  /** The newest ones. */
  readonly quarantine: readonly QuarantineRow[];
  readonly damagedFiles: readonly DamagedFile[];
}

/** Of each kind of failure of a connector, so many are named. */
export const failureLimit = 20;
const quarantineLimit = 3;

/** In the order of the connectors; each sink of them is read in one pass. */
export async function readStatuses(
  connectors: readonly ConnectorSettings[],
  overviews: ReadonlyMap<string, SinkOverview>,
): Promise<readonly StoredConnector[]> {
  const read = new Map<ConnectorSettings, StoredConnector>();
  for (const sink of sinksOf(connectors)) {
    const ofSink = connectors.filter((connector) => connector.sink.name === sink.name);
    const access = accessSink(sink);
    await using history = await openExistingHistory(sink);
    await using closed = await access.openClosedFiles();
    const copies = await history?.copies();
    const statuses = (await history?.connectors(ofSink.map(({ name }) => name))) ?? [];
    const statusByName = new Map(statuses.map((status) => [status.connector, status]));
    for (const connector of ofSink) {
      const { name } = connector;
      read.set(connector, {
        connector,
        ledgerPlace: access.ledgerPlace,
        status: statusByName.get(name) ?? null,
        unfinishedCopy: copies?.unfinished.get(name) ?? null,
        copiedAway: copies?.away.get(name) ?? null,
        paused: overviewOf(overviews, connector)?.paused ?? null,
        failures: (await history?.failures(name, failureLimit)) ?? [],
        fileFailures: (await history?.fileFailures(name, failureLimit)) ?? [],
        quarantine: (await history?.quarantine(name, quarantineLimit)) ?? [],
        damagedFiles: (await closed?.lengths(name))?.damaged ?? [],
      });
    }
  }
  return connectors.flatMap((connector) => read.get(connector) ?? []);
}

/** Null where there is no sink yet. */
export async function readDrift({ name, sink }: ConnectorSettings): Promise<readonly DriftRow[] | null> {
  await using history = await openExistingHistory(sink);
  return (await history?.drift(name)) ?? null;
}
