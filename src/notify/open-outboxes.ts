import type { ConnectorName } from '../core/names.ts';
import type { ConnectorSettings, SinkSettings } from '../settings/settings.ts';
import type { FoundState, NoticeChanges } from '../sinks/notices.ts';
import type { NewMessage, OutboxRow } from '../sinks/outbox.ts';
import { changesOf } from './changes.ts';
import type { FoundCondition } from './conditions.ts';
import { messagesOf, type MessageChannel } from './notice.ts';
import type { NotifierOptions } from './notifier.ts';
import type { Channels } from './open-channels.ts';
import { openSinks, type HeldSink } from './open-sinks.ts';
import { sendOutbox } from './send-outbox.ts';

interface OutboxesOptions extends Omit<NotifierOptions, 'note'> {
  readonly channels: Channels;
  readonly signal: AbortSignal;
}

/** What holds now of a connector, or of none. */
interface FoundOf {
  readonly of: ConnectorName | '';
  readonly found: readonly FoundCondition[];
}

/** Sends until nothing is left; asked again meanwhile, it looks once more. */
interface Asked {
  isAsked: boolean;
  done: Promise<void>;
}

function keyOf({ settings }: HeldSink, { name }: MessageChannel): string {
  return JSON.stringify([settings.name, name]);
}

const mostLooked = 100_000;

export type Outboxes = ReturnType<typeof openOutboxes>;

/** The outboxes of the sinks that are used, and what sends their messages. */
export function openOutboxes({ settings, channels, clock, signal, sinkIdOf }: OutboxesOptions) {
  const sinks = openSinks({ clock, signal, sinkIdOf });
  const sending = new Map<string, Asked>();
  const used = new Set<string>();
  const waking = new AbortController();
  let endMs: number | null = null;

  const sendWhileAsked = async (held: HeldSink, channel: MessageChannel, asked: Asked): Promise<void> => {
    try {
      while (asked.isAsked) {
        asked.isAsked = false;
        await sendOutbox({
          channel,
          notices: async () => (await held.open()).notices,
          send: channels.send,
          note: channels.note,
          clock,
          endMs: () => endMs,
          waking: waking.signal,
          signal,
        });
      }
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      if (signal.aborted) return;
      channels.note(`Messages to ${channel.name} wait in ${held.settings.name}: ${text}`);
    } finally {
      sending.delete(keyOf(held, channel));
    }
  };
  /** One sender for each channel of a sink. */
  const send = (held: HeldSink): void => {
    for (const channel of channels.all) {
      const key = keyOf(held, channel);
      const running = sending.get(key);
      if (running !== undefined) {
        running.isAsked = true;
        continue;
      }
      const asked: Asked = { isAsked: true, done: Promise.resolve() };
      sending.set(key, asked);
      asked.done = sendWhileAsked(held, channel, asked);
    }
  };

  return {
    /**
     * Compares what `find` says of the state of a sink with what was found last, and sends what has changed. Rejects
     * where the sink cannot be written to.
     */
    update: async (
      sink: SinkSettings,
      connectors: readonly ConnectorSettings[],
      find: (state: FoundState) => readonly FoundOf[],
    ): Promise<void> => {
      const held = sinks.of(sink);
      const { notices } = await held.open();
      await notices.update(
        connectors.map(({ name }) => name),
        (state) => {
          const parts = find(state).map(({ of, found }) =>
            changesOf(
              found.map((one) => ({
                ...one,
                subject: channels.hide(one.subject),
                detail: channels.hide(one.detail),
              })),
              state.conditions.get(of) ?? [],
            ),
          );
          const how = { settings, sink: sink.name, nowMs: state.nowMs };
          const changes: NoticeChanges = {
            stored: parts.flatMap((part) => part.stored),
            dropped: parts.flatMap((part) => part.dropped),
            messages: parts.flatMap((part) => part.changes).flatMap((change) => messagesOf(change, how)),
          };
          const isNew = Object.values(changes).some((some: readonly unknown[]) => some.length > 0);
          return isNew ? changes : null;
        },
      );
      used.add(sink.name);
      send(held);
    },
    /** Whether something of the sink was compared. */
    hasUsed: ({ name }: SinkSettings): boolean => used.has(name),
    /** Rejects where the sink cannot be written to. */
    put: async (sink: SinkSettings, message: NewMessage): Promise<void> => {
      const held = sinks.of(sink);
      await (await held.open()).notices.put([message]);
      send(held);
    },
    /** What is in the outbox of a message; null where it was delivered. */
    left: async (sink: SinkSettings, notice: string): Promise<OutboxRow | null> => {
      const { history } = await sinks.of(sink).open();
      return (await history.outbox(mostLooked)).find((row) => row.notice === notice) ?? null;
    },
    /** Resolves when nothing is left to send, or would be sent before `ms`. */
    end: async (ms: number): Promise<void> => {
      endMs = ms;
      waking.abort();
      await Promise.all([...sending.values()].map(({ done }) => done));
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      await Promise.all([...sending.values()].map(({ done }) => done));
      await sinks[Symbol.asyncDispose]();
    },
  };
}
