import { type Clock, otherTurn } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ServedSink, WorkerLedger } from '../jobs/worker-context.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { accessSink } from '../sinks/registry.ts';
import type { ServedLedger } from '../sinks/sink-access.ts';
import { freshUntilMs, type SinkOverview } from './connector-states.ts';

/** The sinks of some connectors as a worker needs them: their ids, and their own account of what was run. */
export type ServedLedgers = Awaited<ReturnType<typeof openServedLedgers>>;

/**
 * Opens each sink once, which makes it where there is none, and keeps its ledger open for reading. Throws what
 * `openSink` throws.
 */
export async function openServedLedgers(connectors: readonly ConnectorSettings[], clock: Clock) {
  const bySink = new Map<string, ServedLedger>();
  const close = async (): Promise<void> => {
    for (const ledger of bySink.values()) await ledger[Symbol.asyncDispose]();
  };
  try {
    for (const sink of sinksOf(connectors)) {
      bySink.set(sink.name, await accessSink(sink).openServed({ ...sink, clock }));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const byName = new Map(connectors.map((connector) => [connector.name, connector]));
  const found = (name: ConnectorName): ServedLedger | undefined =>
    bySink.get(byName.get(name)?.sink.name ?? '');
  return {
    sinks: sinksOf(connectors).map((sink): ServedSink => ({
      name: sink.name,
      id: bySink.get(sink.name)?.sinkId ?? '',
      place: accessSink(sink).place,
    })),
    ledger: {
      pause: async (name) => (await found(name)?.pause(name)) ?? null,
      paused: async (sink) => (await bySink.get(sink)?.paused()) ?? new Set(),
      lastRun: async (name) => (await found(name)?.lastRun(name)) ?? null,
      freshUntil: (name) => freshUntil(byName.get(name), found(name)),
      lost: async (sink) => (await bySink.get(sink)?.lost()) ?? null,
    } satisfies WorkerLedger,
    /**
     * The states of all connectors, by sink. A sink that has not changed since the last time is not read again; other
     * work gets a turn every 200 ms. Rejects where one cannot be read.
     */
    overviews: async (): Promise<ReadonlyMap<string, SinkOverview>> => {
      const overviews = new Map<string, SinkOverview>();
      let sinceMs = performance.now();
      for (const [name, ledger] of bySink) {
        overviews.set(name, { id: ledger.sinkId, connectors: await ledger.overview() });
        // Not after each sink: in a busy worker one turn of all other work may take as much time as all sinks together.
        if (performance.now() - sinceMs > turnMs) {
          await otherTurn();
          sinceMs = performance.now();
        }
      }
      return overviews;
    },
    /** The id of a sink; null where it is not served. */
    sinkIdOf: ({ name }: SinkSettings): string | null => bySink.get(name)?.sinkId ?? null,
    /** What keeps each sink from being read, checked now; `ledger` reports sinks that are not at their place. */
    problems: () =>
      Promise.all([...bySink].map(async ([name, ledger]) => ({ name, problem: await ledger.problem() }))),
    [Symbol.asyncDispose]: close,
  };
}

async function freshUntil(
  connector: ConnectorSettings | undefined,
  ledger: ServedLedger | undefined,
): Promise<number | null> {
  if (connector === undefined || ledger === undefined) return null;
  if ([...connector.entities.values()].every(({ freshWithinMs }) => freshWithinMs === null)) return null;
  return freshUntilMs(connector, await ledger.freshness(connector.name));
}

/** How long other work may wait: renewals of locks and answers of health checks have seconds to spare. */
const turnMs = 200;
