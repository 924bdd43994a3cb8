import { awayText, codeOf, driverError, failingOf } from './postgres-error.ts';

/** A server cannot be written to for a while. */
export interface Away {
  /** The server and the reason, without any secret. */
  readonly message: string;
  /** Time for which it is tried again before the waiting calls fail. */
  readonly leftMs: number;
}

interface Current {
  readonly sinceMs: number;
  lastMs: number;
  last: unknown;
  shown: string | null;
}

const longestMs = 60_000;
/** A failure so long ago belongs to another outage. */
const forgottenMs = 60_000;
const leastBetweenMs = 10_000;
/** Shorter ones are over before they are read. */
const shownAfterMs = 1_000;

/**
 * A time during which a server cannot be written to. Whatever waits for it shares one minute, also one after the other.
 */
export function watchOutage(
  place: string,
  explain: (error: unknown) => unknown,
  onAway: (away: Away | null) => void = () => undefined,
  now: () => number = () => performance.now(),
) {
  let current: Current | null = null;
  const leftMs = ({ sinceMs }: Current): number => sinceMs + longestMs - now();
  const failed = (error: unknown): boolean => {
    const atMs = now();
    if (current === null || atMs - current.lastMs > forgottenMs) {
      current = { sinceMs: atMs, lastMs: atMs, last: error, shown: null };
    }
    current.lastMs = atMs;
    current.last = error;
    const left = leftMs(current);
    const message = `PostgreSQL at ${place} ${awayText(error)}`;
    if (left > 0 && atMs - current.sinceMs >= shownAfterMs && message !== current.shown) {
      current.shown = message;
      onAway({ message, leftMs: left });
    }
    return left > 0;
  };
  return {
    /**
     * Begins the attempts of one caller. After each failure the result resolves whether another attempt is allowed:
     * false once the outage's minute, or the caller's own, is over. Throws the error of the last attempt, explained,
     * where the minute is over and that attempt was a moment ago, because one more may take ten seconds.
     */
    begin: () => {
      if (current !== null && leftMs(current) <= 0 && now() - current.lastMs < leastBetweenMs) {
        throw explain(current.last);
      }
      const untilMs = now() + longestMs;
      // Each caller has a minute too: the server may answer others and cut this caller's connection each time.
      return (error: unknown): boolean =>
        (failingOf(error) !== 'connection' || failed(error)) && now() < untilMs;
    },
    /** Notes an attempt that the server answered; a read ends no outage that consists in refused writes. */
    answered: (how: 'read' | 'committed'): void => {
      if (current === null || (how === 'read' && codeOf(driverError(current.last)) === '25006')) return;
      const { shown } = current;
      current = null;
      if (shown !== null) onAway(null);
    },
  };
}

/**
 * Lost connections to a server. The next server to answer may be another one, or have lost commits, and is checked
 * before it is written to. `Found`: data for the checks.
 */
export function watchLosses<Found>() {
  /** A connection was lost since the last check. */
  let isLost = false;
  const checks: ((found: Found) => Promise<unknown>)[] = [];
  let checking: Promise<void> | null = null;

  const checkAll = async (found: Found): Promise<void> => {
    isLost = false;
    try {
      for (const check of checks) await check(found);
    } catch (error) {
      isLost = true;
      throw error;
    }
  };

  return {
    /** A connection was lost. */
    notice: (): void => void (isLost = true),
    /** Adds a check, as `Server.afterLoss`. */
    afterLoss: (check: (found: Found) => Promise<unknown>): void => void checks.push(check),
    /** Whether a connection was lost, and the server has not been checked since. */
    isUnchecked: (): boolean => checks.length > 0 && (isLost || checking !== null),
    /** Resolves when the server has been checked since the last loss; concurrent calls share one check. */
    checkFirst: async (found: Found): Promise<void> => {
      // `finally` runs after the assignment even where there are no checks.
      if (isLost) checking ??= checkAll(found).finally(() => (checking = null));
      await checking;
    },
  };
}
