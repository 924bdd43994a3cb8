import { createHmac } from 'node:crypto';
import type { Clock } from '../core/clock.ts';
import type { Secret } from '../core/secret.ts';
import { UnreadableBodyError, networkFaultOf } from '../http/exchange.ts';
import { openUpstreamTransport, type UpstreamTransport } from '../upstream/upstream-transport.ts';
import { mostNoticeMs, type Sent } from './sent.ts';
import type { MessageChannel, Notice } from './notice.ts';

type Webhook = Extract<MessageChannel, { readonly type: 'webhook' }>;

/** Connections to receivers. Private addresses, other ports and http only where the settings allow the host. */
export function openReceivers(allowHosts: readonly string[], clock: Clock) {
  const transport = openUpstreamTransport({ allowHosts, limits: { maxErrorBytes: 1_024 } });
  return {
    webhook: async (channel: Webhook, notice: Notice, signal: AbortSignal): Promise<Sent> => {
      const body = bodyOf(channel, notice);
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

/** As the specification of Standard Webhooks has it: over the id, the time in seconds and the body. */
function signatureOf(secret: Secret, signed: string): string {
  return `v1,${createHmac('sha256', secret.reveal()).update(signed).digest('base64')}`;
}

function bodyOf({ format }: Webhook, notice: Notice): string {
  if (format === 'json') return JSON.stringify(notice);
  const { title, text, todo } = notice;
  return JSON.stringify({
    text: [`*${slackText(title)}*`, slackText(text), `_${slackText(todo)}_`].join('\n'),
  });
}

/** Nothing in it is a link, a mention or a command. */
function slackText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

interface Call {
  readonly url: Secret;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** What a receiver does not take is not taken a second time. */
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
    return { kind: 'failed', error: `${fault.text} (${fault.code})`, retryAfterMs: 0 };
  }
}
