import type { ConnectorName } from '../core/names.ts';
import type { Secret } from '../core/secret.ts';
import { secretsOf } from '../settings/secrets-of.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import { hearsOf, messageChannels, type MessageChannel, type Notice } from './notice.ts';
import type { NotifierOptions } from './notifier.ts';
import { sendMail } from './send-mail.ts';
import { openReceivers } from './send-webhook.ts';
import type { Sent } from './sent.ts';

export type Channels = ReturnType<typeof openChannels>;

/** The channels of `notify`: what is sent through them leaves this process at once. */
export function openChannels({ settings, clock, note }: NotifierOptions, signal: AbortSignal) {
  const scrubber = createScrubber();
  for (const secret of secretsOf(settings)) scrubber.register(secret);
  const receivers = openReceivers(settings.allowNotifyHosts, clock);
  const all = messageChannels(settings);
  const heartbeats = openHeartbeats(settings, (url) => receivers.heartbeat(url, signal));

  const noteHidden = (line: string): void => note(scrubber.scrub(line));
  const send = async (channel: MessageChannel, notice: Notice, within: AbortSignal): Promise<Sent> =>
    channel.type === 'email'
      ? await sendMail(channel, notice, settings.allowNotifyHosts, within)
      : await receivers.webhook(channel, notice, within);
  return {
    all,
    hide: scrubber.scrub,
    note: noteHidden,
    send,
    /** A sync of the connector went well. Rejects where an address is not answered. */
    beat: heartbeats,
    /** One call of a heartbeat's address, whatever went well. */
    call: async (url: Secret): Promise<Sent> => await receivers.heartbeat(url, signal),
    [Symbol.asyncDispose]: async (): Promise<void> => await receivers[Symbol.asyncDispose](),
  };
}

/** Many syncs may end at once: an address is called once at a time, and once more for all that end meanwhile. */
function openHeartbeats(settings: LocalSettings, call: (url: Secret) => Promise<Sent>) {
  const beats = [...settings.notify.values()].flatMap((channel) =>
    channel.type === 'heartbeat' ? [{ channel, isAsked: false, isCalling: false }] : [],
  );
  const beat = async (one: (typeof beats)[number]): Promise<void> => {
    one.isAsked = true;
    if (one.isCalling) return;
    one.isCalling = true;
    try {
      while (one.isAsked) {
        one.isAsked = false;
        const sent = await call(one.channel.url);
        if (sent.kind !== 'delivered') throw new Error(`${one.channel.name}: ${sent.error}`);
      }
    } finally {
      one.isCalling = false;
    }
  };
  return async (connector: ConnectorName): Promise<void> => {
    await Promise.all(beats.filter(({ channel }) => hearsOf(channel, connector)).map(beat));
  };
}
