import { hostname } from 'node:os';
import { instant, otherTurn, slept } from '../core/clock.ts';
import { isPutOff, SyncError } from '../core/errors.ts';
import { connectorsBySink } from '../settings/choices.ts';
import type {
  ConnectorSettings,
  NotifySettings,
  PublishSettings,
  SinkSettings,
} from '../settings/settings.ts';
import type { ClaimedMessage, FoundState } from '../sinks/notices.ts';
import { openSink } from '../sinks/registry.ts';
import type { Sink } from '../sinks/sink-access.ts';
import { type Channels, type ChannelsOptions, mostNoticeMs, openChannels, repeated } from './channels.ts';
import {
  type Compared,
  conditionsOf,
  configOf,
  type MessageChannel,
  type Notice,
  noticeChanges,
  publicationOf,
  type ReadConfig,
  testNotice,
} from './notice.ts';

export interface NotifierOptions extends ChannelsOptions {
  /** The sink that must be at its place; null: whichever is there, and a new one where there is none. */
  readonly sinkIdOf?: ((sink: SinkSettings) => string | null) | undefined;
}

/** The end of a run. */
interface EndedRun {
  readonly connector: ConnectorSettings;
  readonly kind: 'sync' | 'backfill';
  /** Why no run could begin; null: one has ended. */
  readonly error: unknown;
  /** Nothing was left out, except by a limit that the caller has set. */
  readonly isGood: boolean;
}

/** Time that an ending process spends on waiting messages; the rest is sent by the next process that opens the sink. */
const mostEndMs = 10_000;

/** Connectors: other work gets a turn after them, and writers of the sink do not wait for all. */
const comparedAtOnce = 500;

/**
 * Notifies people of problems. Compares the state in the ledger with the conditions that were found last, and writes
 * each change to the ledger's outbox, so that nothing is lost if the process ends. If the ledger is away, nothing is
 * sent: the missing heartbeat shows that. None of its promises rejects. `openNotifier` loads it for a config that has
 * channels.
 */
export function tellingNotifier(options: NotifierOptions) {
  const { settings, clock } = options;
  const stop = new AbortController();
  const channels = openChannels(options, stop.signal);
  const outboxes = openOutboxes(options, channels, stop.signal);
  const inBackground = openBackground(channels, stop.signal);

  const updateAll = async (sink: SinkSettings, connectors: readonly ConnectorSettings[]): Promise<void> =>
    await outboxes.update(sink, connectors, (state) =>
      connectors.map((connector) => conditionsOf(connector, state)),
    );
  const look = async (connectors: readonly ConnectorSettings[]): Promise<void> => {
    for (const [sink, ofSink] of connectorsBySink(connectors)) {
      await inBackground(`sink ${sink.name}`, async () => {
        for (let first = 0; first < ofSink.length && !stop.signal.aborted; first += comparedAtOnce) {
          await updateAll(sink, ofSink.slice(first, first + comparedAtOnce));
          await otherTurn();
        }
      });
    }
  };
  const finish = async (): Promise<void> => {
    await inBackground.all();
    await look([...settings.connectors.values()].filter(({ sink }) => outboxes.hasUsed(sink)));
    await outboxes.end(clock.now() + mostEndMs);
    await inBackground.all();
  };
  /** Waits no longer than an end may take. */
  const inTime = async (work: Promise<void>): Promise<void> => {
    const isOver = new AbortController();
    await Promise.race([work, slept(clock, mostEndMs, isOver.signal)]);
    isOver.abort();
  };
  return {
    runEnded: async ({ connector, kind, error, isGood }: EndedRun): Promise<void> => {
      // A backfill that cannot begin concerns only the person who requested it: it makes nothing older.
      if (isPutOff(error) || (kind === 'backfill' && error !== null)) return;
      if (isGood && kind === 'sync') {
        void inBackground('a heartbeat', async () => await channels.beat(connector.name));
      }
      await inBackground(connector.name, async () => await updateAll(connector.sink, [connector]));
    },
    /** `error` null: it went well. */
    publicationEnded: async ({ name, connectors: [first] }: PublishSettings, error: unknown) => {
      if (first === undefined || isPutOff(error)) return;
      await inBackground(name, async () => {
        await outboxes.update(first.sink, [], (state) => [publicationOf(state, name, error)]);
      });
    },
    configRead: async (read: ReadConfig): Promise<void> => {
      const [first] = settings.connectors.values();
      if (first === undefined) return;
      await inBackground('the config', async () => {
        await outboxes.update(first.sink, [], (state) => [configOf(state, read, hostname())]);
      });
    },
    /** Finds conditions that no event reports, such as staleness, and sends waiting messages. */
    look,
    /** Sends a message through each of these channels, at once. `error` null: it was delivered. */
    test: async (chosen: readonly NotifySettings[]) =>
      await Promise.all(
        chosen.map(async (channel) => {
          const sending =
            channel.type === 'heartbeat'
              ? channels.callOnce(channel.url)
              : channels.send(channel, testNotice(channel, instant(clock.now())), stop.signal);
          const error = await sending.then((sent) => (sent.kind === 'delivered' ? null : sent.error), textOf);
          return { channel, error };
        }),
      ),
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await inTime(finish());
      stop.abort(new SyncError('the notifier was closed', { code: 'INTERRUPTED', recovery: 'retry' }));
      await inBackground.all();
      await outboxes[Symbol.asyncDispose]();
      await channels[Symbol.asyncDispose]();
    },
  };
}

/** Work in progress, for which closing waits. A repeated failure is noted once until the work succeeds. */
function openBackground({ note }: Pick<Channels, 'note'>, stopped: AbortSignal) {
  const pending = new Set<Promise<void>>();
  const noted = new Map<string, string>();
  const inBackground = (about: string, work: () => Promise<void>): Promise<void> => {
    const done = work()
      .then(() => void noted.delete(about))
      .catch((error: unknown) => {
        const text = textOf(error);
        if (stopped.aborted || noted.get(about) === text) return;
        noted.set(about, text);
        note(`Notifications about ${about} wait: ${text}`);
      })
      .finally(() => pending.delete(done));
    pending.add(done);
    return done;
  };
  return Object.assign(inBackground, {
    all: async (): Promise<void> => void (await Promise.all(pending)),
  });
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Between the attempts; the last one stays. */
const pausesMs = [1, 5, 30, 120, 600, 1_800, 3_600].map((seconds) => seconds * 1_000);
/** A claim outlives its attempt. Older messages are given up. */
const claimHow = { leaseMs: 3 * mostNoticeMs, keepMs: 3 * 24 * 60 * 60 * 1_000 };

/** The outboxes of the sinks that are used, and what sends their messages. */
function openOutboxes(options: NotifierOptions, channels: Channels, signal: AbortSignal) {
  const { settings, clock } = options;
  const sinks = openSinks(options, signal);
  const sendersBySink = new Map<string, readonly (() => Promise<void>)[]>();
  const sending = new Set<Promise<void>>();
  const used = new Set<string>();
  /** Ends a pause, to look at `endMs` again, which is not null from then on. */
  const waking = new AbortController();
  let endMs: number | null = null;

  /** Oldest first, until nothing is left, or the next attempt comes after `endMs`. */
  const sendAll = async (sink: SinkSettings, channel: MessageChannel): Promise<void> => {
    for (;;) {
      signal.throwIfAborted();
      const { notices } = await sinks.open(sink);
      const claimed = await notices.claim(channel.name, claimHow);
      if (claimed.kind === 'none') return;
      if (claimed.kind === 'message') {
        await attempt(notices, channel, claimed.message);
        continue;
      }
      if (endMs !== null && clock.now() + claimed.ms > endMs) return;
      await slept(clock, claimed.ms, endMs === null ? AbortSignal.any([signal, waking.signal]) : signal);
    }
  };
  const attempt = async (notices: Sink['notices'], channel: MessageChannel, message: ClaimedMessage) => {
    // `as`: `messageOf` writes payloads.
    const sent = await channels.send(channel, JSON.parse(message.payload) as Notice, signal);
    if (sent.kind === 'delivered') {
      await notices.delivered(message);
      return;
    }
    const { attempts, notice } = message;
    const plannedMs = pausesMs[Math.min(attempts, pausesMs.length) - 1] ?? 0;
    const pauseMs =
      sent.kind === 'refused' ? null : Math.max(plannedMs, Math.min(sent.retryAfterMs, 3_600_000));
    await notices.failed(message, sent.error, pauseMs);
    // Once: a receiver that is away for an hour is one line, not ten.
    if (attempts > 1 && pauseMs !== null) return;
    const then = pauseMs === null ? 'It is given up' : 'It is sent again later';
    channels.note(`Notification ${notice} to ${channel.name} was not delivered: ${sent.error}. ${then}.`);
  };
  const senderOf = (sink: SinkSettings, channel: MessageChannel): (() => Promise<void>) =>
    repeated(async () => {
      try {
        await sendAll(sink, channel);
      } catch (error) {
        if (signal.aborted) return;
        channels.note(`Messages to ${channel.name} wait in ${sink.name}: ${textOf(error)}`);
      }
    });
  /** One sender for each channel of a sink. */
  const send = (sink: SinkSettings): void => {
    const senders = sendersBySink.get(sink.name) ?? channels.all.map((channel) => senderOf(sink, channel));
    sendersBySink.set(sink.name, senders);
    for (const ask of senders) {
      const sent = ask().finally(() => sending.delete(sent));
      sending.add(sent);
    }
  };

  return {
    /**
     * Compares the conditions that `find` derives from the state of a sink with those that were found last, and sends
     * the changes. Rejects if the sink cannot be written to.
     */
    update: async (
      sink: SinkSettings,
      connectors: readonly ConnectorSettings[],
      find: (state: FoundState) => readonly Compared[],
    ): Promise<void> => {
      const { notices } = await sinks.open(sink);
      await notices.update(
        connectors.map(({ name }) => name),
        (state) => {
          const how = { settings, sink: sink.name, nowMs: state.nowMs, hide: channels.hide };
          const parts = find(state).map((compared) => noticeChanges(compared, how));
          const changes = {
            stored: parts.flatMap((part) => part.stored),
            dropped: parts.flatMap((part) => part.dropped),
            messages: parts.flatMap((part) => part.messages),
          };
          const isNew = Object.values(changes).some((some: readonly unknown[]) => some.length > 0);
          return isNew ? changes : null;
        },
      );
      used.add(sink.name);
      send(sink);
    },
    /** True once something of the sink was compared. */
    hasUsed: ({ name }: SinkSettings): boolean => used.has(name),
    /** Resolves when nothing is left to send, or would be sent before `ms`. */
    end: async (ms: number): Promise<void> => {
      endMs = ms;
      waking.abort();
      await Promise.all(sending);
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await Promise.all(sending);
      await sinks[Symbol.asyncDispose]();
    },
  };
}

/** Less than a run waits: a message can wait for the next look. */
const mostLockMs = 10_000;
const cacheKiB = 1_024;

/**
 * Sinks of the notifier's own, opened when they are needed, and again where another one has taken their place: a run
 * that waits for a lock ends with its signal, which must not depend on others that share its sink.
 */
function openSinks({ clock, sinkIdOf = () => null }: NotifierOptions, signal: AbortSignal) {
  const opened = new Map<string, Promise<Sink>>();
  const ids = new Map<string, string>();
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
    open: async (settings: SinkSettings): Promise<Sink> => {
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
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      for (const opening of opened.values()) {
        const sink = await opening.catch(() => null);
        await sink?.[Symbol.asyncDispose]();
      }
    },
  };
}
