import type { ConnectorName } from '../core/names.ts';
import { sinksOf } from '../settings/chosen-connectors.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import { openExistingHistory } from '../sinks/registry.ts';

/** How the connectors of one sink stand, by the sink's own account. */
export interface SinkOverview {
  /** Null: the sink is not on this machine, or was never used. */
  readonly id: string | null;
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorOverview>;
}

/** Each sink of these connectors is opened once and read in one pass. By the sink's name. Throws where one cannot be read. */
export async function readOverviews(
  connectors: readonly ConnectorSettings[],
): Promise<ReadonlyMap<string, SinkOverview>> {
  const overviews = new Map<string, SinkOverview>();
  for (const sink of sinksOf(connectors)) overviews.set(sink.name, await readOverview(sink));
  return overviews;
}

export async function readOverview(sink: SinkSettings): Promise<SinkOverview> {
  await using history = await openExistingHistory(sink);
  return history === null
    ? { id: null, connectors: new Map() }
    : {
        id: history.sinkId,
        connectors: new Map((await history.overview()).map((one) => [one.connector, one])),
      };
}

/** Null where nothing was ever stored of the connector, nor was it paused. */
export function overviewOf(
  overviews: ReadonlyMap<string, SinkOverview>,
  { name, sink }: Pick<ConnectorSettings, 'name' | 'sink'>,
): ConnectorOverview | null {
  return overviews.get(sink.name)?.connectors.get(name) ?? null;
}
