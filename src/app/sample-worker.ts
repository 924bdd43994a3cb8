import type { Clock } from '../core/clock.ts';
import { schedulerId } from '../jobs/open-queue-set.ts';
import type { RunningWorker } from '../jobs/start-worker.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/ledger-reader.ts';
import type { SampledConnector } from '../telemetry/metrics-of-states.ts';
import type { MetricSample } from '../telemetry/metrics-sample.ts';
import { statesOf, overviewOf } from './connector-states.ts';
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
  clock: Clock,
): Promise<MetricSample> {
  const { depth } = (await worker?.state()) ?? { depth: [] };
  const overviews = await ledgers.overviews();
  const nowMs = clock.now();
  return {
    connectors: connectors.map((connector) =>
      sampleConnector(connector, overviewOf(overviews, connector), nowMs),
    ),
    depth,
    // Redis is who knows the depth.
    isRedisUp: depth.length > 0,
  };
}

/** Entities that no run has begun yet have no age, but may have a limit that they miss. */
function sampleConnector(
  connector: ConnectorSettings,
  overview: ConnectorOverview | null,
  nowMs: number,
): SampledConnector {
  const asOf = new Map(overview?.freshness.map((known) => [known.entity, known.asOf]));
  return {
    name: connector.name,
    states: statesOf(connector, overview, nowMs),
    endedAt: overview?.lastEnded?.finishedAt ?? null,
    freshness: [...connector.entities].map(([entity, { freshWithinMs }]) => ({
      entity,
      asOf: asOf.get(entity) ?? null,
      freshWithinMs,
    })),
    missing: overview?.missing ?? [],
  };
}

/** When a connector's schedule comes next, in milliseconds; null where that cannot be told, also while Redis is away. */
export function nextRunOf(
  ledgers: ServedLedgers,
  started: StartedWorker,
): (connector: ConnectorSettings) => Promise<number | null> {
  return async (connector) => {
    const sinkId = ledgers.sinkIdOf(connector.sink);
    const ticks = started.worker?.queues[0];
    if (sinkId === null || ticks === undefined) return null;
    return await ticks.getJobScheduler(schedulerId(sinkId, connector.name)).then(
      (scheduler) => scheduler?.next ?? null,
      () => null,
    );
  };
}
