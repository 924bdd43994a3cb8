import { SyncError } from '../../core/errors.ts';
import type { Tx } from '../../sql/database.ts';
import type { ConnectorName } from '../../core/names.ts';
import { readDays } from './days.ts';
import {
  readFreshness,
  readLastRun,
  readPause,
  readPauses,
  readRecentRuns,
  renewOverview,
  type KnownOverview,
  type LastCommits,
  type Overview,
} from './history/overview.ts';

/** The sink behind a ledger that is served for days. */
export interface ServedSink extends AsyncDisposable {
  readonly sinkId: string;
  /**
   * Checks the sink's place now: null while this sink is there, else what is wrong. `losing` is called where the sink
   * has just been lost and what was opened can still be read, before that is closed. Rejects where the place cannot be
   * checked.
   */
  look(losing: () => Promise<void>): Promise<string | null>;
  read<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result>;
  /**
   * Changes with every commit. Asked for after a look and in front of the read that it is the mark of; null where only
   * a read can show changes.
   */
  mark(): Promise<number | string | null>;
  readonly lastCommits: (tx: Tx) => Promise<LastCommits>;
}

interface Known extends KnownOverview {
  readonly mark: number | string | null;
}

/** Overview cached for outages: no older than this when the sink is lost, while callers ask for it. */
const rememberedMs = 10_000;

/**
 * The ledger of one sink for a process that serves it for days. While the sink is lost (moved, replaced, out of reach)
 * it answers with what was read last.
 */
export async function servedLedger(sink: ServedSink) {
  /** Why the sink is not there; null while it is. */
  let lostBecause: string | null = null;
  let known: Known = { overview: new Map(), commits: null, mark: null };
  let knownMs = -Infinity;

  /** The same object while its content is the same. */
  const remember = async (): Promise<Overview> => {
    // Before the read: what changes meanwhile is read again the next time.
    const mark = await sink.mark();
    if (mark === null || mark !== known.mark) {
      const now = await sink.read(async (tx) => await renewOverview(tx, known, sink.lastCommits));
      known = { ...now, mark };
    }
    knownMs = performance.now();
    return known.overview;
  };
  const answer = async <Result>(
    read: () => Promise<Result>,
    remembered: (last: Overview) => Result,
  ): Promise<Result> => {
    if (lostBecause !== null) return remembered(known.overview);
    try {
      return await read();
    } catch (error) {
      if (!isAway(error)) throw error;
      lostBecause = error.message;
      return remembered(known.overview);
    }
  };
  const lost = async (): Promise<string | null> => {
    try {
      lostBecause = await sink.look(async () => void (await remember().catch(() => undefined)));
    } catch (error) {
      lostBecause = textOf(error);
    }
    if (lostBecause !== null) {
      known = { ...known, mark: null };
    } else if (performance.now() - knownMs > rememberedMs) {
      // Where the sink exists and cannot be read, `problem` reports it.
      await answer(remember, (last) => last).catch(() => undefined);
    }
    return lostBecause;
  };

  await lost();
  return {
    sinkId: sink.sinkId,
    /** Checks the sink's place now: null while this sink is there, else what is wrong, for the log. */
    lost,
    pause: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readPause(tx, connector)),
        (last) => last.get(connector)?.paused ?? null,
      ),
    paused: () =>
      answer(
        async () => new Set((await sink.read(readPauses)).map(({ connector }) => connector)),
        (last) => new Set([...last.values()].flatMap((one) => (one.paused === null ? [] : [one.connector]))),
      ),
    /** The newest of kind `sync`. */
    lastRun: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readLastRun(tx, connector)),
        (last) => last.get(connector)?.lastRun ?? null,
      ),
    freshness: (connector: ConnectorName) =>
      answer(
        () => sink.read((tx) => readFreshness(tx, connector)),
        (last) => last.get(connector)?.freshness ?? [],
      ),
    /**
     * The state of every connector; the same object until the sink has changed, the same entry until its connector has.
     */
    overview: async () => {
      await lost();
      return await answer(remember, (last) => last);
    },
    /** The same, but it rejects where the sink is lost or cannot be read. */
    overviewNow: async () => {
      const why = await lost();
      if (why !== null) throw new SyncError(why, { code: 'SINK_FAILED', recovery: 'retry' });
      return await remember();
    },
    recentRuns: (connectors: readonly ConnectorName[], limit: number) =>
      sink.read((tx) => readRecentRuns(tx, connectors, limit)),
    days: (asked: Parameters<typeof readDays>[1]) => sink.read((tx) => readDays(tx, asked)),
    /** Why it cannot be read, tried now; null while it can, or while the sink is lost. */
    problem: async () => {
      if ((await lost()) !== null) return null;
      try {
        await sink.read(readPauses);
        return null;
      } catch (error) {
        return textOf(error);
      }
    },
    [Symbol.asyncDispose]: async () => await sink[Symbol.asyncDispose](),
  };
}

/** Out of reach for now. */
function isAway(error: unknown): error is SyncError {
  return error instanceof SyncError && error.recovery === 'retry';
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
