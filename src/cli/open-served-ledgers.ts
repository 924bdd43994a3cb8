import type { Clock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { ServedSink } from '../jobs/served-sink.ts';
import type { WorkerLedger } from '../jobs/worker-ledger.ts';
import { sinksOf } from '../settings/chosen-connectors.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { LedgerReader } from '../sinks/ledger-reader.ts';
import { openHistory } from '../sinks/open-history.ts';
import { servedSink } from './locate-sink.ts';
import { toOverview, type SinkOverview } from './read-overviews.ts';

/** The sinks of some connectors as a worker needs them: their ids, and their own account of what was run. */
export interface ServedLedgers extends Disposable {
  readonly sinks: readonly ServedSink[];
  readonly ledger: WorkerLedger;
  /** The sink id of a connector; null where its sink is not served. */
  sinkIdOf(connector: ConnectorSettings): string | null;
  /**
   * How all connectors stand, by sink. A sink that has not changed since the last time is not read again; others
   * have their turn every 200 ms. Rejects where one cannot be read.
   */
  overviews(): Promise<ReadonlyMap<string, SinkOverview>>;
  /** What keeps each sink from being read, asked now. */
  problems(): readonly { readonly name: string; readonly problem: string | null }[];
}

/** Opens each sink once, which makes it where there is none, and keeps its ledger open for reading. Throws what `openSink` throws. */
export async function openServedLedgers(
  connectors: readonly ConnectorSettings[],
  clock: Clock,
): Promise<ServedLedgers> {
  const sinks: ServedSink[] = [];
  const historyBySink = new Map<string, LedgerReader & Disposable>();
  const close = (): void => historyBySink.forEach((history) => history[Symbol.dispose]());
  try {
    for (const sink of sinksOf(connectors)) {
      sinks.push(await servedSink(sink, clock));
      historyBySink.set(sink.name, openHistory(sink));
    }
  } catch (error) {
    close();
    throw error;
  }
  const byName = new Map(connectors.map((connector) => [connector.name, connector]));
  const found = (name: ConnectorName): LedgerReader | undefined =>
    historyBySink.get(byName.get(name)?.sink.name ?? '');
  return {
    sinks,
    ledger: {
      pause: (name) => found(name)?.pause(name) ?? null,
      lastRun: (name) => found(name)?.runs({ connector: name, kind: 'sync', limit: 1 })[0] ?? null,
      freshUntil: (name) => freshUntil(byName.get(name), found(name)),
    },
    overviews: openOverviews(historyBySink),
    sinkIdOf: ({ sink }) => sinks.find(({ name }) => name === sink.name)?.id ?? null,
    problems: () => [...historyBySink].map(([name, history]) => ({ name, problem: problemOf(history) })),
    [Symbol.dispose]: close,
  };
}

function freshUntil(
  connector: ConnectorSettings | undefined,
  history: LedgerReader | undefined,
): number | null {
  const limits = [...(connector?.entities ?? [])].flatMap(([entity, { freshWithinMs }]) =>
    freshWithinMs === null ? [] : [{ entity, freshWithinMs }],
  );
  if (connector === undefined || history === undefined || limits.length === 0) return null;
  const asOf = new Map(history.freshness(connector.name).map((known) => [known.entity, known.asOf]));
  return Math.min(
    ...limits.map(({ entity, freshWithinMs }) => {
      const readAt = asOf.get(entity) ?? null;
      return readAt === null ? 0 : Date.parse(readAt) + freshWithinMs;
    }),
  );
}

/** So long others may be kept waiting: renewals of locks and answers of health checks take their time in seconds. */
const turnMs = 200;

function openOverviews(
  historyBySink: ReadonlyMap<string, LedgerReader>,
): () => Promise<ReadonlyMap<string, SinkOverview>> {
  const known = new Map<string, { readonly mark: number; readonly overview: SinkOverview }>();
  return async () => {
    const overviews = new Map<string, SinkOverview>();
    let sinceMs = performance.now();
    for (const [name, history] of historyBySink) {
      // Taken before: what changes while it is read is read again the next time.
      const mark = history.changeMark();
      const earlier = known.get(name);
      const overview = earlier?.mark === mark ? earlier.overview : toOverview(history);
      // Not after each sink: in a busy worker a turn of all others may take as long as the sinks together.
      if (performance.now() - sinceMs > turnMs) {
        await otherTurn();
        sinceMs = performance.now();
      }
      known.set(name, { mark, overview });
      overviews.set(name, overview);
    }
    return overviews;
  };
}

function otherTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

function problemOf(history: LedgerReader): string | null {
  try {
    history.pauses();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
