import type { Instant } from '../core/clock.ts';
import type { ConnectorName, EntityName } from '../core/names.ts';
import { labelText, openSeries, type Series } from './series.ts';

/** What keeps a connector from being `ok`; several may hold at a time. */
export type SampledState = 'failing' | 'stale' | 'withheld' | 'paused' | 'never-synced';

export interface SampledConnector {
  readonly name: ConnectorName;
  readonly states: ReadonlySet<SampledState>;
  /** When the newest run of any process ended that has a report; null: none has. */
  readonly endedAt: Instant | null;
  readonly freshness: readonly {
    readonly entity: EntityName;
    /** Everything that was there then has been read; null: never read wholly. */
    readonly asOf: Instant | null;
    readonly freshWithinMs: number | null;
  }[];
  /** Of the newest run that came to an end; entities without such rows are left out. */
  readonly missing: readonly {
    readonly entity: EntityName;
    readonly withheld: number;
    readonly pending: number;
  }[];
  /** As that run found them; entities without such listings are left out. */
  readonly unproven: readonly { readonly entity: EntityName; readonly listings: number }[];
}

/** How single connectors stand at a scrape. */
export function openSampleSeries() {
  const gauge = (name: string, help: string): Series => openSeries(`connector_sync_${name}`, 'gauge', help);
  return {
    state: gauge(
      'connector_state',
      '1 for each state of "connectors" that the connector is in; absent while it is ok.',
    ),
    paused: gauge('connector_paused', '1 while the connector is paused, else 0.'),
    freshness: gauge(
      'freshness_seconds',
      'Age of what is stored: how long ago the last run started that read the entity completely. Absent if none did.',
    ),
    freshWithin: gauge(
      'fresh_within_seconds',
      'How old what is stored may be, as the config says in freshWithin.',
    ),
    isFresh: gauge(
      'is_fresh',
      '1 while what is stored is younger than freshWithin, else 0; also 0 if the entity was never read completely.',
    ),
    withheld: gauge(
      'withheld_deletes',
      'Rows that were missing in the last run and are withheld by a guard until a person allows the deletes. Absent where there are none.',
    ),
    pending: gauge(
      'pending_deletes',
      'Rows that were missing in the last run and are not confirmed as deleted yet. Absent where there are none.',
    ),
    unproven: gauge(
      'unproven_listings',
      'Listings that may have records which they did not show when they were read last: the API counts more. Absent where there are none.',
    ),
  };
}

/** `states`: those of the sample, and what this process alone knows. */
export function showConnector(
  series: ReturnType<typeof openSampleSeries>,
  { name: connector, freshness, missing, unproven }: SampledConnector,
  states: ReadonlySet<SampledState>,
  nowMs: number,
): void {
  for (const state of states) series.state.set(labelText({ connector, state }), 1);
  series.paused.set(labelText({ connector }), states.has('paused') ? 1 : 0);
  for (const { entity, asOf, freshWithinMs } of freshness) {
    const labels = labelText({ connector, entity });
    const ageMs = asOf === null ? null : Math.max(0, nowMs - Date.parse(asOf));
    if (ageMs !== null) series.freshness.set(labels, ageMs / 1000);
    if (freshWithinMs === null) continue;
    series.freshWithin.set(labels, freshWithinMs / 1000);
    series.isFresh.set(labels, ageMs !== null && ageMs <= freshWithinMs ? 1 : 0);
  }
  for (const { entity, withheld, pending } of missing) {
    const labels = labelText({ connector, entity });
    if (withheld > 0) series.withheld.set(labels, withheld);
    if (pending > 0) series.pending.set(labels, pending);
  }
  for (const { entity, listings } of unproven) {
    series.unproven.set(labelText({ connector, entity }), listings);
  }
}
