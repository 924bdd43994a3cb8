import { slept, type Clock } from '../core/clock.ts';
import type { ClaimedMessage } from '../sinks/outbox.ts';
import type { Sink } from '../sinks/sink-access.ts';
import type { MessageChannel, Notice } from './notice.ts';
import { mostNoticeMs, type Sent } from './sent.ts';

/** Between the attempts; the last one stays. */
const pausesMs = [1, 5, 30, 120, 600, 1_800, 3_600].map((seconds) => seconds * 1_000);
/** A claim outlives its attempt. */
const leaseMs = 3 * mostNoticeMs;
/** Older messages are given up. */
export const keepMs = 3 * 24 * 60 * 60 * 1_000;

interface OutboxSender {
  readonly channel: MessageChannel;
  readonly notices: () => Promise<Sink['notices']>;
  readonly send: (channel: MessageChannel, notice: Notice, signal: AbortSignal) => Promise<Sent>;
  /** What a person should know: which message did not get through, and why. */
  readonly note: (line: string) => void;
  readonly clock: Clock;
  /** When sending ends, in milliseconds since the epoch; null: it has no end yet. */
  readonly endMs: () => number | null;
  /** Ends a pause, to look at `endMs` again, which is not null from then on. */
  readonly waking: AbortSignal;
  readonly signal: AbortSignal;
}

/**
 * Sends what the outbox has for a channel, oldest first, until nothing is left, or the next attempt comes after
 * `endMs`. Rejects where the sink cannot be used, and with the signal's reason.
 */
export async function sendOutbox(sender: OutboxSender): Promise<void> {
  const { channel, clock, signal } = sender;
  for (;;) {
    signal.throwIfAborted();
    const notices = await sender.notices();
    const claimed = await notices.claim(channel.name, { leaseMs, keepMs });
    if (claimed.kind === 'none') return;
    if (claimed.kind === 'message') {
      await attempt(sender, notices, claimed.message);
      continue;
    }
    const endMs = sender.endMs();
    if (endMs !== null && clock.now() + claimed.ms > endMs) return;
    const until = endMs === null ? AbortSignal.any([signal, sender.waking]) : signal;
    await slept(clock, claimed.ms, until);
  }
}

async function attempt(
  { channel, send, note, signal }: OutboxSender,
  notices: Sink['notices'],
  message: ClaimedMessage,
): Promise<void> {
  // `as`: `messageOf` writes payloads.
  const sent = await send(channel, JSON.parse(message.payload) as Notice, signal);
  if (sent.kind === 'delivered') {
    await notices.delivered(message);
    return;
  }
  const { attempts, notice } = message;
  const pauseMs =
    sent.kind === 'refused'
      ? null
      : Math.max(
          pausesMs[Math.min(attempts, pausesMs.length) - 1] ?? 0,
          Math.min(sent.retryAfterMs, 3_600_000),
        );
  await notices.failed(message, sent.error, pauseMs);
  // Once: a receiver that is away for an hour is one line, not ten.
  if (attempts > 1 && pauseMs !== null) return;
  const then = pauseMs === null ? 'It is given up' : 'It is sent again later';
  note(`Notification ${notice} to ${channel.name} was not delivered: ${sent.error}. ${then}.`);
}
