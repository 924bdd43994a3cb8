import type { Clock } from '../../core/clock.ts';
import { orAborted } from '../../http/or-aborted.ts';

interface Kept {
  readonly answer: Promise<unknown>;
  readonly askedAtMs: number;
}

/** Of each account; a config of more connectors asks for some of them more often. */
const mostKept = 20_000;

/** A cache of catalog answers about connectors: the runs of one account ask for the same ones repeatedly. */
export function openLookUps(cacheForMs: number, clock: Clock) {
  const keptByKey = new Map<string, Kept>();
  return {
    /**
     * The cached answer for `key`, or that of `ask`, which concurrent callers share. Failures are not cached.
     * Rejects with the signal's reason as soon as it is aborted; the request continues for other callers.
     */
    async find<T>(key: string, ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
      signal.throwIfAborted();
      const known = keptByKey.get(key);
      if (known !== undefined && clock.now() - known.askedAtMs < cacheForMs) {
        // A key stands for one question, so its answer has the type of that question's.
        return await orAborted(known.answer as Promise<T>, signal);
      }
      const answer = ask();
      const kept: Kept = { answer, askedAtMs: clock.now() };
      keptByKey.delete(key);
      const [oldest] = keptByKey.size >= mostKept ? keptByKey.keys() : [];
      if (oldest !== undefined) keptByKey.delete(oldest);
      keptByKey.set(key, kept);
      answer.catch(() => {
        if (keptByKey.get(key) === kept) keptByKey.delete(key);
      });
      return await orAborted(answer, signal);
    },
    /** Drops what is kept for `key`. */
    forget: (key: string): void => void keptByKey.delete(key),
  };
}
