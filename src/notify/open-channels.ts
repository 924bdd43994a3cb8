import { instant, type Instant } from '../core/clock.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Secret } from '../core/secret.ts';
import { secretsOf } from '../settings/secrets-of.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import type { Change, ChangedItem } from './changes.ts';
import { hearsOf, messageChannels, messagesOf, type MessageChannel, type Notice } from './notice.ts';
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
  /** Connectors and targets of which a message was sent without the ledger, since when. */
  const toldDirectly = new Map<string, Instant>();

  const noteHidden = (line: string): void => note(scrubber.scrub(line));
  const send = async (channel: MessageChannel, notice: Notice, within: AbortSignal): Promise<Sent> =>
    channel.type === 'email'
      ? await sendMail(channel, notice, settings.allowNotifyHosts, within)
      : await receivers.webhook(channel, notice, within);
  const sendNow = async (change: Change, sink: string): Promise<void> => {
    const messages = messagesOf(change, { settings, sink, nowMs: clock.now() });
    await Promise.all(
      messages.map(async ({ channel: name, payload, notice }) => {
        const channel = all.find((one) => one.name === name);
        if (channel === undefined) return;
        // `as`: `messageOf` writes payloads.
        const sent = await send(channel, JSON.parse(payload) as Notice, signal);
        const how = sent.kind === 'delivered' ? 'was sent' : `was not delivered (${sent.error})`;
        noteHidden(
          `Notification ${notice} to ${name} ${how} without the ledger, which cannot be written to.`,
        );
      }),
    );
  };
  return {
    all,
    hide: scrubber.scrub,
    note: noteHidden,
    send,
    /** What the ledger cannot take: sent at once, and once until it can. */
    tellDirectly: async (
      { kind, connector, subject }: Pick<Change, 'connector'> & Pick<ChangedItem, 'kind' | 'subject'>,
      sink: string,
      { text, needsPerson = true }: { readonly text: string; readonly needsPerson?: boolean },
    ): Promise<void> => {
      const about = connector ?? subject;
      if (toldDirectly.has(about)) return;
      const since = instant(clock.now());
      toldDirectly.set(about, since);
      const items = [{ kind, subject, since, text: scrubber.scrub(text) }];
      await sendNow({ kind, connector, since, items, needsPerson }, sink);
    },
    /** `isGood`: the connector works again too. */
    ledgerIsBack: async (connector: ConnectorName, sink: string, isGood: boolean): Promise<void> => {
      const since = toldDirectly.get(connector);
      if (since === undefined) return;
      toldDirectly.delete(connector);
      const item = { kind: 'failed', subject: '', since, text: '' } as const;
      if (!isGood) return;
      await sendNow({ kind: 'recovered', connector, since, items: [item], needsPerson: false }, sink);
    },
    /** What was sent without the ledger is over; `kind`: of what was sent. */
    tellOver: async (
      kind: ChangedItem['kind'],
      subject: string,
      sink: string,
      since: Instant,
    ): Promise<void> => {
      toldDirectly.delete(subject);
      const items = [{ kind, subject, since, text: '' }];
      await sendNow({ kind: 'recovered', connector: null, since, items, needsPerson: false }, sink);
    },
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
