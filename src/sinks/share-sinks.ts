import { type Clock, slept } from '../core/clock.ts';
import { openSink } from './registry.ts';
import type { OpenHow, Sink, SinkOptions } from './sink-access.ts';

/** A sink that other runs of this process may use at the same time. Disposed by all of them, it is kept for a while. */
type SharedSink = AsyncDisposable & { readonly sink: Sink };

export type OpenSharedSink = (
  options: SinkOptions,
  deps: SinkUser & { readonly sinkId: string | null },
) => Promise<SharedSink>;

type SinkUser = { readonly signal: AbortSignal } & Pick<OpenHow, 'onAway'>;

/** An unused sink is closed after this time: with most schedules, another run of its connectors comes sooner. */
const idleMs = 30_000;
/** Unused sinks that stay open at most: each has a few files. */
const mostIdle = 32;

/** Cache memory of all sinks together. Each sink gets a part between the two limits below. */
const cachesKiB = 64 * 1024;
const mostCacheKiB = 32 * 1024;
const leastCacheKiB = 2 * 1024;

/**
 * Opens each sink once for all runs of a process: SQLite reads the whole schema at each opening, which takes 100 ms
 * with 1,000 connectors. `sinks`: how many there may be; they share the memory for caches. A wait for the write lock
 * ends when the signals of all users are aborted. Disposed, it closes unused sinks, and others after their last run.
 */
export function shareSinks(clock: Clock, sinks: number): AsyncDisposable & { readonly open: OpenSharedSink } {
  const cacheKiB = Math.min(mostCacheKiB, Math.max(leastCacheKiB, Math.floor(cachesKiB / sinks)));
  const openedByName = new Map<string, OpenedSink>();
  let isClosed = false;
  const forget = (name: string, opened: OpenedSink): void => {
    if (openedByName.get(name) === opened) openedByName.delete(name);
  };
  const unused = () => [...openedByName].filter(([, { users }]) => users.size === 0);
  const close = async ([name, opened]: readonly [string, OpenedSink]): Promise<void> => {
    forget(name, opened);
    opened.idle.abort();
    await (await opened.opening)[Symbol.asyncDispose]();
  };
  const keep = async (name: string, opened: OpenedSink): Promise<void> => {
    if (isClosed || openedByName.get(name) !== opened) return await close([name, opened]);
    opened.idle = new AbortController();
    // No run waits for this close, and all that they have stored is in place: its error says nothing of one.
    void slept(clock, idleMs, opened.idle.signal).then((isOver) =>
      isOver && opened.users.size === 0 ? close([name, opened]).catch(() => undefined) : null,
    );
    const [first, ...others] = unused();
    if (first !== undefined && others.length >= mostIdle) await close(first);
  };
  const join = async (name: string, opened: OpenedSink, user: SinkUser): Promise<SharedSink> => {
    const { signal } = user;
    opened.idle.abort();
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
      return opened.users.size === 0;
    };
    try {
      const sink = await opened.opening;
      return {
        sink,
        [Symbol.asyncDispose]: async () => (leave() ? await keep(name, opened) : undefined),
      };
    } catch (error) {
      if (leave()) forget(name, opened);
      throw error;
    }
  };
  return {
    open: async (options, { sinkId, ...user }) => {
      const { name } = options;
      const known = openedByName.get(name);
      if (known !== undefined) {
        const shared = await join(name, known, user);
        if (await shared.sink.isInPlace()) return shared;
        forget(name, known);
        await shared[Symbol.asyncDispose]();
      }
      const how = { clock, cacheKiB, ...(sinkId === null ? {} : { sinkId }) };
      const opened = openedByName.get(name) ?? openShared(options, how);
      openedByName.set(name, opened);
      return await join(name, opened, user);
    },
    [Symbol.asyncDispose]: async () => {
      isClosed = true;
      await Promise.all(unused().map(close));
    },
  };
}

type OpenedSink = ReturnType<typeof openShared>;

function openShared(options: SinkOptions, how: Pick<OpenHow, 'clock' | 'cacheKiB' | 'sinkId'>) {
  /** Ends every wait for the write lock. */
  const waits = new AbortController();
  const users = new Set<SinkUser>();
  const onAway: OpenHow['onAway'] = (away) => {
    for (const user of users) user.onAway?.(away);
  };
  const opening = openSink(options, { ...how, signal: waits.signal, onAway });
  /** `idle`: ends its time without users. */
  return { opening, users, waits, idle: new AbortController() };
}
