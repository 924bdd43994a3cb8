import type { Clock } from '../core/clock.ts';
import { openSink } from './registry.ts';
import type { OpenHow, Sink, SinkOptions } from './sink-access.ts';

/**
 * A sink that other runs of this process may use at the same time. Disposed, it is closed when no other run uses it.
 */
interface SharedSink extends AsyncDisposable {
  readonly sink: Sink;
}

export type OpenSharedSink = (
  options: SinkOptions,
  deps: SinkUser & { readonly sinkId: string | null },
) => Promise<SharedSink>;

type SinkUser = { readonly signal: AbortSignal } & Pick<OpenHow, 'onAway'>;

/** Cache memory of all sinks together. Each sink gets a part between the two limits below. */
const cachesKiB = 128 * 1024;
const mostCacheKiB = 32 * 1024;
const leastCacheKiB = 4 * 1024;

interface OpenedSink {
  readonly opening: Promise<Sink>;
  readonly users: Set<SinkUser>;
  /** Ends every wait for the write lock. */
  readonly waits: AbortController;
}

/**
 * Opens each sink once for all runs of a process at a time: SQLite reads the whole schema at each opening, which takes
 * 100 ms with 1,000 connectors. `sinks`: how many there may be; they share the memory for caches. A wait for the write
 * lock ends when the signals of all users are aborted.
 */
export function shareSinks(clock: Clock, sinks: number): OpenSharedSink {
  const cacheKiB = Math.min(mostCacheKiB, Math.max(leastCacheKiB, Math.floor(cachesKiB / sinks)));
  const openedByName = new Map<string, OpenedSink>();
  const forget = (name: string, opened: OpenedSink): void => {
    if (openedByName.get(name) === opened) openedByName.delete(name);
  };
  const begin = (options: SinkOptions, sinkId: string | null): OpenedSink => {
    const waits = new AbortController();
    const users = new Set<SinkUser>();
    const onAway: OpenHow['onAway'] = (away) => {
      for (const user of users) user.onAway?.(away);
    };
    const deps = { clock, cacheKiB, signal: waits.signal, onAway, ...(sinkId === null ? {} : { sinkId }) };
    const opened: OpenedSink = { opening: openSink(options, deps), users, waits };
    openedByName.set(options.name, opened);
    return opened;
  };
  const join = async (name: string, opened: OpenedSink, user: SinkUser): Promise<SharedSink> => {
    const { signal } = user;
    opened.users.add(user);
    const onAbort = (): void => {
      if (![...opened.users].every((each) => each.signal.aborted)) return;
      forget(name, opened);
      opened.waits.abort(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const leave = (): boolean => {
      signal.removeEventListener('abort', onAbort);
      opened.users.delete(user);
      if (opened.users.size > 0) return false;
      forget(name, opened);
      return true;
    };
    try {
      const sink = await opened.opening;
      return {
        sink,
        [Symbol.asyncDispose]: async () => {
          if (leave()) await sink[Symbol.asyncDispose]();
        },
      };
    } catch (error) {
      leave();
      throw error;
    }
  };
  return async (options, { sinkId, ...user }) => {
    const { name } = options;
    const known = openedByName.get(name);
    if (known !== undefined) {
      const shared = await join(name, known, user);
      if (await shared.sink.isInPlace()) return shared;
      forget(name, known);
      await shared[Symbol.asyncDispose]();
    }
    return await join(name, openedByName.get(name) ?? begin(options, sinkId), user);
  };
}
