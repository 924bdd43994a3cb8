/** UTC instant in ISO 8601 with milliseconds, as `Date.prototype.toISOString` writes it: compares as text. */
export type Instant = string;

/** The one way to learn the time or to wait, so that tests own both. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export function instant(ms: number): Instant {
  return new Date(ms).toISOString();
}

/** Parses a `Date` header; null where it is absent or unreadable. */
export function instantOf(date: string | null): Instant | null {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? null : instant(ms);
}

export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      }, ms);
      signal?.addEventListener('abort', onAbort, { once: true });
    }),
};

/** The answer, or `late` where it takes longer than `ms`. */
export async function answeredWithin<Answer, Late>(
  answer: Promise<Answer>,
  late: Late,
  ms: number,
  clock: Clock,
): Promise<Answer | Late> {
  const answered = new AbortController();
  const tooLate = slept(clock, ms, answered.signal).then(() => late);
  return await Promise.race([answer, tooLate]).finally(() => answered.abort());
}

/** True after `ms`, false as soon as the signal is aborted. */
export function slept(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  return clock.sleep(ms, signal).then(
    () => true,
    () => false,
  );
}

/** Retries work that must survive a passing failure: four attempts in six seconds. */
export async function inTries<Result>(work: () => Promise<Result>, clock: Clock): Promise<Result> {
  for (const pauseMs of [100, 1_000, 5_000]) {
    try {
      return await work();
    } catch {
      await clock.sleep(pauseMs);
    }
  }
  return await work();
}

/** Resolves when other work of the process has had a turn: reads of a file do not wait for anything by themselves. */
export function otherTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
