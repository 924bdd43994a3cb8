import { schedulerId } from '../jobs/queue-names.ts';
import type { RunningWorker } from '../jobs/start-worker.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { MetricSample } from '../telemetry/metrics-sample.ts';
import type { ServedLedgers } from './open-served-ledgers.ts';

/** The worker, from when it has started: what it is made of may be asked before. */
export interface StartedWorker {
  worker: RunningWorker | null;
}

/** How things stand now, for a scrape. Rejects where a sink or the queue cannot be asked. */
export async function sampleWorker(
  connectors: readonly ConnectorSettings[],
  ledgers: ServedLedgers,
  { worker }: StartedWorker,
): Promise<MetricSample> {
  const { depth } = (await worker?.state()) ?? { depth: [] };
  return {
    freshness: connectors.flatMap((connector) => freshnessOf(connector, ledgers)),
    missing: connectors.flatMap((connector) => missingOf(connector, ledgers)),
    paused: connectors.flatMap(({ name }) => (ledgers.ledger.pause(name) === null ? [] : [name])),
    connectors: connectors.map(({ name }) => name),
    depth,
    // Redis is who knows the depth.
    isRedisUp: depth.length > 0,
  };
}

/** When a connector's schedule comes next, in milliseconds; null where that cannot be told, also while Redis is away. */
export function nextRunOf(
  ledgers: ServedLedgers,
  started: StartedWorker,
): (connector: ConnectorSettings) => Promise<number | null> {
  return async (connector) => {
    const sinkId = ledgers.sinkIdOf(connector);
    const ticks = started.worker?.queues[0];
    if (sinkId === null || ticks === undefined) return null;
    return await ticks.getJobScheduler(schedulerId(sinkId, connector.name)).then(
      (scheduler) => scheduler?.next ?? null,
      () => null,
    );
  };
}

/** Entities that no run has begun yet have no age, but may have a limit that they miss. */
function freshnessOf(
  connector: ConnectorSettings,
  ledgers: ServedLedgers,
): readonly MetricSample['freshness'][number][] {
  const asOf = new Map(
    ledgers
      .historyOf(connector)
      .freshness(connector.name)
      .map((known) => [known.entity, known.asOf]),
  );
  return [...connector.entities].map(([entity, { freshWithinMs }]) => ({
    connector: connector.name,
    entity,
    asOf: asOf.get(entity) ?? null,
    freshWithinMs,
  }));
}

/** A run that is going on has no report yet: the one before it says how things stand. */
function missingOf(
  connector: ConnectorSettings,
  ledgers: ServedLedgers,
): readonly MetricSample['missing'][number][] {
  const runs = ledgers.historyOf(connector).runs({ connector: connector.name, kind: 'sync', limit: 10 });
  const newest = runs.find(({ report }) => report !== null)?.report ?? null;
  return (newest?.entities ?? []).map(({ entity, withheld, pending }) => ({
    connector: connector.name,
    entity,
    withheld,
    pending,
  }));
}
