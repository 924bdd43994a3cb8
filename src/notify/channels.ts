import { createHmac } from 'node:crypto';
import { connect, isIP, type Socket } from 'node:net';
import type { Clock } from '../core/clock.ts';
import { importOptional } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import type { Secret } from '../core/secret.ts';
import { guardedLookup, judgePublic } from '../http/guard-address.ts';
import { networkFaultOf, UnreadableBodyError } from '../http/exchange.ts';
import { secretsOf } from '../settings/load-settings.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { createScrubber } from '../telemetry/scrubber.ts';
import { openUpstreamTransport, type UpstreamTransport } from '../upstream/upstream-transport.ts';
import { hearsOf, type MessageChannel, messageChannels, type Notice } from './notice.ts';

/** Time limit for sending one message through any channel; of an email, for each of its steps. */
export const mostNoticeMs = 10_000;

/** The result of one attempt. `refused`: repeating it would not help. */
export type Sent =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused'; readonly error: string }
  | { readonly kind: 'failed'; readonly error: string; readonly retryAfterMs: number };

export interface ChannelsOptions {
  readonly settings: LocalSettings;
  readonly clock: Clock;
  /** Called with the reason why notifications are not sent, for a person or a log. */
  readonly note: (line: string) => void;
}

export type Channels = ReturnType<typeof openChannels>;

/** The channels of `notify`; a message sent through them leaves this process at once. */
export function openChannels({ settings, clock, note }: ChannelsOptions, signal: AbortSignal) {
  const scrubber = createScrubber();
  for (const secret of secretsOf(settings)) scrubber.register(secret);
  const receivers = openReceivers(settings.allowNotifyHosts, clock);
  const callOnce = async (url: Secret): Promise<Sent> => await receivers.heartbeat(url, signal);
  // Many syncs may end at once: an address is called once at a time, and once more for all that end meanwhile.
  const heartbeats = [...settings.notify.values()].flatMap((channel) => {
    if (channel.type !== 'heartbeat') return [];
    const beat = repeated(async () => {
      const sent = await callOnce(channel.url);
      if (sent.kind !== 'delivered') throw new Error(`${channel.name}: ${sent.error}`);
    });
    return [{ channel, beat }];
  });
  return {
    all: messageChannels(settings),
    hide: scrubber.scrub,
    note: (line: string): void => note(scrubber.scrub(line)),
    send: async (channel: MessageChannel, notice: Notice, within: AbortSignal): Promise<Sent> =>
      channel.type === 'email'
        ? await sendMail(channel, notice, settings.allowNotifyHosts, within)
        : await receivers.webhook(channel, notice, within),
    /** A sync of the connector went well. Rejects where an address is not answered. */
    beat: async (connector: ConnectorName): Promise<void> => {
      const asked = heartbeats.filter(({ channel }) => hearsOf(channel, connector));
      await Promise.all(asked.map(({ beat }) => beat()));
    },
    /** One call of a heartbeat's address, whatever went well. */
    callOnce,
    [Symbol.asyncDispose]: async (): Promise<void> => await receivers[Symbol.asyncDispose](),
  };
}

/** Does the work; a request meanwhile makes it run once more. Resolves when there is no further request. */
export function repeated(work: () => Promise<void>): () => Promise<void> {
  let isAsked = false;
  let running: Promise<void> | null = null;
  const run = async (): Promise<void> => {
    try {
      while (isAsked) {
        isAsked = false;
        await work();
      }
    } finally {
      running = null;
    }
  };
  return () => {
    isAsked = true;
    return (running ??= run());
  };
}

type Webhook = Extract<MessageChannel, { readonly type: 'webhook' }>;

/** Connections to receivers. Private addresses, other ports and http only where the settings allow the host. */
export function openReceivers(allowHosts: readonly string[], clock: Clock) {
  const transport = openUpstreamTransport({ allowHosts, limits: { maxErrorBytes: 1_024 } });
  return {
    webhook: async (channel: Webhook, notice: Notice, signal: AbortSignal): Promise<Sent> => {
      const forSlack = (text: string): string =>
        text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
      const slack = { text: `*${forSlack(notice.title)}*\n${forSlack(notice.text)}` };
      const body = JSON.stringify(channel.format === 'json' ? notice : slack);
      const time = String(Math.floor(clock.now() / 1_000));
      const headers = {
        'content-type': 'application/json',
        'webhook-id': notice.id,
        'webhook-timestamp': time,
        ...(channel.secret === null
          ? {}
          : { 'webhook-signature': signatureOf(channel.secret, `${notice.id}.${time}.${body}`) }),
      };
      return await call(transport, { url: channel.url, method: 'POST', headers, body }, signal);
    },
    heartbeat: async (url: Secret, signal: AbortSignal): Promise<Sent> =>
      await call(transport, { url, method: 'GET', headers: {}, body: null }, signal),
    [Symbol.asyncDispose]: async () => await transport[Symbol.asyncDispose](),
  };
}

/** Signs as the Standard Webhooks specification requires: the id, the time in seconds and the body. */
function signatureOf(secret: Secret, signed: string): string {
  return `v1,${createHmac('sha256', secret.reveal()).update(signed).digest('base64')}`;
}

interface Call {
  readonly url: Secret;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** Statuses of a receiver that would refuse the same message again. */
const refusals: readonly number[] = [400, 413, 415, 422];

async function call(
  transport: UpstreamTransport,
  { url: secret, ...request }: Call,
  signal: AbortSignal,
): Promise<Sent> {
  const url = new URL(secret.reveal());
  try {
    const { status, header } = await transport.send(
      {
        ...request,
        url,
        base: url,
        namedBy: 'definition',
        timeoutMs: mostNoticeMs,
        maxBodyBytes: 64 * 1_024,
      },
      signal,
    );
    if (status >= 200 && status < 300) return { kind: 'delivered' };
    const error = `the receiver answered with HTTP status ${status}`;
    if (refusals.includes(status)) return { kind: 'refused', error };
    return {
      kind: 'failed',
      error,
      retryAfterMs: 1_000 * Number(/^\d{1,5}$/.exec(header('retry-after') ?? '')?.[0] ?? 0),
    };
  } catch (error) {
    signal.throwIfAborted();
    // Only of an answer of success is the body needed, and the status alone is enough here.
    if (error instanceof UnreadableBodyError) return { kind: 'delivered' };
    const fault = networkFaultOf(error);
    if (fault === null) throw error;
    return { kind: 'failed', error: fault.text, retryAfterMs: 0 };
  }
}

/**
 * Sends one message by SMTP, with TLS; without it only to a host of `allowHosts`, which may be at a private address
 * too. Throws `SyncError` PACKAGE_MISSING.
 */
async function sendMail(
  channel: Extract<MessageChannel, { readonly type: 'email' }>,
  notice: Notice,
  allowHosts: readonly string[],
  signal: AbortSignal,
): Promise<Sent> {
  // `as`: the used members are declared below.
  const { createTransport } = (await importOptional(
    'A channel of type email',
    'nodemailer',
    async () => await import(library),
  )) as Library;
  const server = new URL(channel.server);
  const host = server.hostname.replace(/^\[|\]$/g, '');
  const isSecure = server.protocol === 'smtps:';
  const port = Number(server.port === '' ? (isSecure ? 465 : 587) : server.port);
  const isAllowed = allowHosts.includes(server.hostname) || allowHosts.includes(`${server.hostname}:${port}`);
  const { user, password, from, to } = channel;
  let connection: Socket | null = null;
  const onAbort = (): void => void connection?.destroy();
  // A server that answers, but slowly, would hold it for ever.
  const end = AbortSignal.any([signal, AbortSignal.timeout(2 * mostNoticeMs)]);
  end.addEventListener('abort', onAbort, { once: true });
  try {
    connection = await openSocket(host, port, isAllowed);
    const mailer = createTransport({
      connection,
      host,
      port,
      secure: isSecure,
      requireTLS: !isAllowed,
      ...(user === null || password === null ? {} : { auth: { user, pass: password.reveal() } }),
      greetingTimeout: mostNoticeMs,
      socketTimeout: mostNoticeMs,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    await mailer.sendMail({
      from,
      to: [...to],
      subject: `[connector-sync] ${notice.title}`,
      text: `${notice.text}\n\nSince: ${notice.since}`,
      // The same for a message that is sent twice.
      messageId: `<${notice.id}@connector-sync>`,
      headers: { 'Auto-Submitted': 'auto-generated' },
    });
    return { kind: 'delivered' };
  } catch (error) {
    signal.throwIfAborted();
    return failureOf(error);
  } finally {
    end.removeEventListener('abort', onAbort);
    connection?.destroy();
  }
}

/** The library would resolve the name by itself, without looking where it leads. */
async function openSocket(host: string, port: number, isAllowed: boolean): Promise<Socket> {
  const judge = isAllowed ? () => undefined : judgePublic;
  if (isIP(host) !== 0) judge(host, host);
  return await new Promise((resolve, reject) => {
    const socket = connect({ host, port, lookup: guardedLookup(judge) });
    socket.setTimeout(mostNoticeMs, () => socket.destroy(new Error('no answer in time')));
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      socket.setTimeout(0);
      resolve(socket);
    });
  });
}

/** By its codes: texts of a server may hold anything. A reply of 5xx to the message is final (RFC 5321, 4.2.1). */
function failureOf(error: unknown): Sent {
  // `as`: errors of the library and of sockets have these.
  const {
    code = 'unknown',
    responseCode: reply,
    message = '',
  } = error as { readonly code?: string; readonly responseCode?: number; readonly message?: string };
  const isFinal = Number(reply) >= 500 && ['EENVELOPE', 'EMESSAGE'].includes(code);
  let why = 'the mail server was not reached';
  if (reply !== undefined) why = `the mail server answered with ${reply}`;
  else if (code === 'ERR_ADDRESS_REFUSED') why = message;
  else if (/certificate/i.test(message)) {
    why = 'the mail server has a TLS certificate that is not trusted: name its CA in NODE_EXTRA_CA_CERTS';
  }
  const text = `${why} (${code})`;
  return isFinal ? { kind: 'refused', error: text } : { kind: 'failed', error: text, retryAfterMs: 0 };
}

/** The part of nodemailer that is used. The first message loads it: most configs send no mail. */
interface Library {
  readonly createTransport: (options: object) => { sendMail(message: object): Promise<unknown> };
}

/** No literal: the program is checked and built where this optional package is not installed. */
const library: string = 'nodemailer';
