import { answeredWithin, type Clock, systemClock } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import { connectorsBySink, sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { NoSinkYetError } from '../sinks/sink-errors.ts';
import type { RunFacts, RunFilter } from '../sinks/ledger-reader.ts';
import { accessSink } from '../sinks/registry.ts';
import type { ServedLedger } from '../sinks/sink-access.ts';
import type { SinkOverview } from './connector-states.ts';

/** Longer than any usable sink takes to answer. */
const answerWithinMs = 3_000;
const notAnswered = { problem: `no answer within ${answerWithinMs / 1000} s` };

export type WatchedSinks = ReturnType<typeof watchSinks>;

/** Reads the sinks of these connectors on request; a sink that has not changed is not read again. */
export function watchSinks(connectors: readonly ConnectorSettings[], clock: Clock) {
  const sinks = sinksOf(connectors).map((sink) => ({ sink, watched: watchSink(sink) }));
  /** By sink: the same object or text until the sink has changed. */
  const last = new Map<string, unknown>();
  let version = 0;
  return {
    /**
     * A sink that cannot be read does not hide the others, nor does one that does not answer: `problem` is for a
     * person. `version` is another number whenever something has changed. Nothing is made where there is no sink yet.
     */
    overviews: async () => {
      const answers = await Promise.all(
        sinks.map(async ({ sink, watched }) => {
          return { sink, ...(await answeredWithin(watched.read(), notAnswered, answerWithinMs, clock)) };
        }),
      );
      const overviews = new Map(
        answers.flatMap((one) => ('overview' in one ? [[one.sink.name, one.overview] as const] : [])),
      );
      const unreadable = answers.flatMap((one) => ('problem' in one ? [one] : []));
      for (const one of answers) {
        const now = 'problem' in one ? one.problem : one.overview.connectors;
        if (last.get(one.sink.name) !== now) version += 1;
        last.set(one.sink.name, now);
      }
      return { overviews, unreadable, version };
    },
    /** The newest runs of connectors whose sinks have just been read, newest first. */
    recentRuns: async (of: readonly ConnectorSettings[], limit: number) => {
      const runs = new Map<ConnectorName, readonly RunFacts[]>();
      const readSink = async (sink: SinkSettings, ofSink: readonly ConnectorSettings[]): Promise<void> => {
        const ledger = sinks.find((one) => one.sink.name === sink.name)?.watched.ledger();
        const names = ofSink.map(({ name }) => name);
        for (const [name, found] of (await ledger?.recentRuns(names, limit)) ?? []) runs.set(name, found);
      };
      await Promise.all(connectorsBySink(of).map(async (one) => await readSink(...one)));
      return runs;
    },
    /** Runs of sinks that have just been read, by their ids, newest first, and the numbers of those since an id. */
    runsOfAll: async (filter: RunFilter, since: string) => {
      const ledgers = sinks.flatMap(({ watched }) => watched.ledger() ?? []);
      const lists = await Promise.all(ledgers.map((ledger) => ledger.runs(filter)));
      const counts = await Promise.all(ledgers.map((ledger) => ledger.countRuns(since, filter)));
      const runs = lists.flat().toSorted((one, other) => (one.run < other.run ? 1 : -1));
      return { runs: runs.slice(0, filter.limit), counts: counts.flat() };
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const { watched } of sinks) await watched[Symbol.asyncDispose]();
    },
  };
}

const nothingYet: SinkOverview = { id: null, connectors: new Map() };

type Answer = { readonly overview: SinkOverview } | { readonly problem: string };

function watchSink(sink: SinkSettings) {
  let ledger: ServedLedger | null = null;
  let pending: Promise<Answer> | null = null;

  const read = async (): Promise<Answer> => {
    try {
      ledger ??= await accessSink(sink).openWatched();
      return { overview: { id: ledger.sinkId, connectors: await ledger.overviewNow() } };
    } catch (error) {
      if (error instanceof NoSinkYetError) return { overview: nothingYet };
      return { problem: error instanceof Error ? error.message : String(error) };
    }
  };
  return {
    /** Never rejects. Pages that ask at the same time share an answer. */
    read: (): Promise<Answer> => {
      pending ??= read().finally(() => (pending = null));
      return pending;
    },
    /** Null before it was read, and where there is no sink yet. */
    ledger: () => ledger,
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await pending;
      await ledger?.[Symbol.asyncDispose]();
    },
  };
}

/** The place of a sink, and why it cannot be read; `problem` null: it can, or the first sync makes it. */
export async function askSink(sink: SinkSettings) {
  await using watched = watchSink(sink);
  const asked = await answeredWithin(watched.read(), notAnswered, answerWithinMs, systemClock);
  return { place: accessSink(sink).place, problem: 'problem' in asked ? asked.problem : null };
}
