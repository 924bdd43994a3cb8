import { answeredWithin, type Clock } from '../core/clock.ts';
import { sinksOf } from '../settings/choices.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import { NoSinkYetError } from '../sinks/acquire-errors.ts';
import { accessSink } from '../sinks/registry.ts';
import type { ServedLedger } from '../sinks/sink-access.ts';
import { openHealths } from './connector-health.ts';
import type { SinkOverview } from './connector-states.ts';
import { readRecentHistory } from './read-history.ts';

/** Longer than any sink takes that can be used. */
const answerWithinMs = 3_000;

export type WatchedSinks = ReturnType<typeof watchSinks>;

/** What the sinks of these connectors hold, read as often as wanted: one that has not changed is not read again. */
export function watchSinks(connectors: readonly ConnectorSettings[], clock: Clock) {
  const sinks = sinksOf(connectors).map((sink) => ({ sink, watched: watchSink(sink) }));
  /** Of each sink, the same object or text until it has changed. */
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
          const problem = `no answer within ${answerWithinMs / 1000} s`;
          return { sink, ...(await answeredWithin(watched.read(), { problem }, answerWithinMs, clock)) };
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
    healthOf: openHealths(),
    /** As `readRecentHistory`, of connectors whose sinks have just been read. */
    recentHistory: (of: readonly ConnectorSettings[], runLimit: number, nowMs: number) =>
      readRecentHistory(
        of,
        ({ name }) => sinks.find(({ sink }) => sink.name === name)?.watched.ledger() ?? null,
        runLimit,
        nowMs,
      ),
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
