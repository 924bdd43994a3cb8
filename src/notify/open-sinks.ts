import type { Clock } from '../core/clock.ts';
import type { SinkSettings } from '../settings/settings.ts';
import { openSink } from '../sinks/registry.ts';
import type { Sink } from '../sinks/sink-access.ts';

/** A sink that is opened when it is needed, and again where another one has taken its place. */
export interface HeldSink {
  readonly settings: SinkSettings;
  open(): Promise<Sink>;
}

interface SinksOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The sink that must be at its place; null: whichever is there, and a new one where there is none. */
  readonly sinkIdOf?: ((sink: SinkSettings) => string | null) | undefined;
}

/** Less than a run waits: a message can wait for the next look. */
const mostLockMs = 10_000;
const cacheKiB = 1_024;

/**
 * Sinks of the notifier's own: a run that waits for a lock ends with its signal, which must not depend on others that
 * share its sink.
 */
export function openSinks({ clock, signal, sinkIdOf = () => null }: SinksOptions) {
  const opened = new Map<string, Promise<Sink>>();
  const ids = new Map<string, string>();
  const open = async (settings: SinkSettings): Promise<Sink> => {
    const known = opened.get(settings.name);
    if (known !== undefined) {
      const sink = await known;
      if (await sink.isInPlace()) return sink;
      opened.delete(settings.name);
      await sink[Symbol.asyncDispose]();
    }
    const found = opened.get(settings.name) ?? begin(settings);
    opened.set(settings.name, found);
    return await found;
  };
  const begin = (settings: SinkSettings): Promise<Sink> => {
    const few = settings.type === 'postgres' ? { connections: 2 } : { lockTimeoutMs: mostLockMs };
    const known = sinkIdOf(settings) ?? ids.get(settings.name);
    // A sink that was moved away is not made again.
    const same = known === undefined ? {} : { sinkId: known };
    const opening = openSink({ ...settings, ...few }, { clock, signal, cacheKiB, ...same });
    opening.then(
      ({ id }) => void ids.set(settings.name, id),
      // The next one tries again.
      () => void opened.delete(settings.name),
    );
    return opening;
  };
  return {
    of: (settings: SinkSettings): HeldSink => ({ settings, open: async () => await open(settings) }),
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const opening of opened.values()) {
        const sink = await opening.catch(() => null);
        await sink?.[Symbol.asyncDispose]();
      }
    },
  };
}
