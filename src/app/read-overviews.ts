import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { ConnectorOverview, LedgerReader } from '../sinks/ledger-reader.ts';
import { openExistingHistory } from '../sinks/open-history.ts';

/** How the connectors of one sink stand, by the sink's own account. */
export interface SinkOverview {
  /** Null: the sink is not on this machine, or was never used. */
  readonly id: string | null;
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorOverview>;
}

/** Each sink of these connectors is opened once and read in one pass. By the sink's name. Throws where one cannot be read. */
export function readOverviews(connectors: readonly ConnectorSettings[]): ReadonlyMap<string, SinkOverview> {
  const sinks = new Map(connectors.map(({ sink }) => [sink.name, sink]));
  return new Map([...sinks].map(([name, sink]) => [name, readOverview(sink)]));
}

export function readOverview(sink: SinkSettings): SinkOverview {
  using history = openExistingHistory(sink);
  if (history === null) return { id: null, connectors: new Map() };
  return toOverview(history);
}

export function toOverview(history: LedgerReader): SinkOverview {
  const connectors = new Map(history.overview().map((overview) => [overview.connector, overview]));
  return { id: history.sinkId(), connectors };
}

/** Null where nothing was ever stored of the connector, nor was it paused. */
export function overviewOf(
  overviews: ReadonlyMap<string, SinkOverview>,
  { name, sink }: Pick<ConnectorSettings, 'name' | 'sink'>,
): ConnectorOverview | null {
  return overviews.get(sink.name)?.connectors.get(name) ?? null;
}
