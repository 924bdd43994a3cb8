import { instant, systemClock, type Clock, type Instant } from '../core/clock.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { Retention, WithheldOf } from '../sinks/purges.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { sinksOf } from '../settings/choices.ts';
import { openExistingHistory } from '../sinks/registry.ts';

/** When the first entity gets too old. In the past where one was never read whole; without limits, never. */
export function freshUntilMs(
  connector: Pick<ConnectorSettings, 'entities'>,
  freshness: ConnectorOverview['freshness'] = [],
): number {
  const limits = freshnessOf(connector, freshness).flatMap(({ asOf, freshWithinMs }) =>
    freshWithinMs === null ? [] : [asOf === null ? 0 : Date.parse(asOf) + freshWithinMs],
  );
  return Math.min(Infinity, ...limits);
}

/**
 * How old each entity is, and may be. One that no run has begun yet has no age, but may have a limit that it misses.
 */
export function freshnessOf(
  { entities }: Pick<ConnectorSettings, 'entities'>,
  freshness: ConnectorOverview['freshness'] = [],
) {
  const asOf = new Map(freshness.map((known) => [known.entity, known.asOf]));
  return [...entities].map(([entity, { freshWithinMs }]) => {
    return { entity, asOf: asOf.get(entity) ?? null, freshWithinMs };
  });
}

export type WithRetention = Pick<ConnectorSettings, 'entities'> & {
  readonly definition: Pick<ConnectorSettings['definition'], 'entities'>;
};

/** Of each entity that has something to be removed by age, and of what it is exploded into. */
export function retentionsOf(
  { entities, definition }: WithRetention,
  clock: Pick<Clock, 'now'>,
): readonly Retention[] {
  const before = (ms: number | null | undefined): Instant | null =>
    ms === undefined || ms === null ? null : instant(clock.now() - ms);
  return [...entities].flatMap(([entity, { retention, history }]) => {
    const keepMs = history?.keepMs ?? null;
    if (retention === undefined && keepMs === null) return [];
    const exploded = definition.entities.get(entity)?.explodedTable?.entity;
    return [entity, ...(exploded === undefined ? [] : [exploded])].map((one) => ({
      entity: one,
      deletedBefore: before(retention?.deletedRowsMs),
      quarantinedBefore: before(retention?.quarantineMs),
      filesBefore: before(retention?.downloadsMs),
      versionsBefore: before(keepMs),
      publishedThrough: Number.MAX_SAFE_INTEGER,
      withheld: 0,
    }));
  });
}

/** What a guard keeps though it is too old, of entities whose age still counts. */
export function withheldByAgeOf(
  connector: WithRetention,
  stored: readonly WithheldOf[],
): readonly WithheldOf[] {
  if (stored.length === 0) return stored;
  const kept = new Set(retentionsOf(connector, systemClock).map(({ entity }) => entity));
  return stored.filter(({ entity }) => kept.has(entity));
}

/** The states of one sink's connectors, according to its ledger. */
export interface SinkOverview {
  /** Null: the sink is not on this machine, or was never used. */
  readonly id: string | null;
  readonly connectors: ReadonlyMap<ConnectorName, ConnectorOverview>;
}

/**
 * Each sink of these connectors is opened once and read in one pass. By the sink's name. Throws where one cannot be
 * read.
 */
export async function readOverviews(
  connectors: readonly ConnectorSettings[],
): Promise<ReadonlyMap<string, SinkOverview>> {
  const overviews = new Map<string, SinkOverview>();
  for (const sink of sinksOf(connectors)) overviews.set(sink.name, await readOverview(sink));
  return overviews;
}

/**
 * As `readOverviews`, but a sink that cannot be read does not hide the others. Throws where none of them can
 * be read.
 */
export async function readOverviewsOfReadable(connectors: readonly ConnectorSettings[]) {
  const overviews = new Map<string, SinkOverview>();
  const errors = new Map<SinkSettings, SyncError>();
  for (const sink of sinksOf(connectors)) {
    try {
      overviews.set(sink.name, await readOverview(sink));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      errors.set(sink, error);
    }
  }
  const unreadable = [...errors].map(([sink, error]) => {
    return { sink, connectors: connectors.filter((one) => one.sink.name === sink.name), error };
  });
  if (overviews.size === 0 && unreadable[0] !== undefined) throw unreadable[0].error;
  return { overviews, readable: connectors.filter(({ sink }) => overviews.has(sink.name)), unreadable };
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

/** Null where nothing of the connector was ever stored and it was never paused. */
export function overviewOf(
  overviews: ReadonlyMap<string, SinkOverview>,
  { name, sink }: Pick<ConnectorSettings, 'name' | 'sink'>,
): ConnectorOverview | null {
  return overviews.get(sink.name)?.connectors.get(name) ?? null;
}
