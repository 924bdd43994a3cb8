import { connect, isIP, type Socket } from 'node:net';
import { SyncError } from '../core/errors.ts';
import { guardedLookup, judgePublic } from '../http/guard-address.ts';
import type { MessageChannel, Notice } from './notice.ts';
import { mostNoticeMs, type Sent } from './sent.ts';

type Email = Extract<MessageChannel, { readonly type: 'email' }>;

/** What is used of nodemailer, which is loaded by the first message: most configs send no mail. */
interface Mailer {
  sendMail(message: object): Promise<unknown>;
}

/**
 * Sends one message by SMTP, with TLS; without it only to a host of `allowHosts`, which may be at a private address
 * too. Throws `SyncError` PACKAGE_MISSING.
 */
export async function sendMail(
  channel: Email,
  notice: Notice,
  allowHosts: readonly string[],
  signal: AbortSignal,
): Promise<Sent> {
  const { createTransport } = await loadNodemailer();
  const server = new URL(channel.server);
  const host = server.hostname.replace(/^\[|\]$/g, '');
  const isSecure = server.protocol === 'smtps:';
  const port = Number(server.port === '' ? (isSecure ? 465 : 587) : server.port);
  const isAllowed = allowHosts.includes(server.hostname) || allowHosts.includes(`${server.hostname}:${port}`);
  const { user, password, from, to } = channel;
  let connection: Socket | null = null;
  const onAbort = (): void => void connection?.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
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
      text: [notice.text, `Since: ${notice.since}`, `What to do: ${notice.todo}`].join('\n\n'),
      // Of a message that comes twice it is the same.
      messageId: `<${notice.id}@connector-sync>`,
      headers: { 'Auto-Submitted': 'auto-generated' },
    });
    return { kind: 'delivered' };
  } catch (error) {
    signal.throwIfAborted();
    return failureOf(error);
  } finally {
    signal.removeEventListener('abort', onAbort);
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
  const facts = error as {
    readonly code?: unknown;
    readonly responseCode?: unknown;
    readonly message?: unknown;
  };
  const code = typeof facts.code === 'string' ? facts.code : 'unknown';
  const reply = typeof facts.responseCode === 'number' ? facts.responseCode : null;
  if (code === 'ERR_ADDRESS_REFUSED') {
    return { kind: 'failed', error: `${String(facts.message)} (${code})`, retryAfterMs: 0 };
  }
  if (/certificate/i.test(String(facts.message)) && reply === null) {
    const error = `the mail server has a TLS certificate that is not trusted: name its CA in NODE_EXTRA_CA_CERTS (${code})`;
    return { kind: 'failed', error, retryAfterMs: 0 };
  }
  const text =
    reply === null
      ? `the mail server was not reached (${code})`
      : `the mail server answered with ${reply} (${code})`;
  const isFinal = reply !== null && reply >= 500 && ['EENVELOPE', 'EMESSAGE'].includes(code);
  return isFinal ? { kind: 'refused', error: text } : { kind: 'failed', error: text, retryAfterMs: 0 };
}

interface Library {
  readonly createTransport: (options: object) => Mailer;
}

/** No literal: the program is checked and built where this optional package is not installed. */
const library: string = 'nodemailer';

async function loadNodemailer(): Promise<Library> {
  try {
    // `as`: what is used of it is above.
    return (await import(library)) as Library;
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
    if (!isMissing) throw cause;
    throw new SyncError(
      'A channel of type email needs the package nodemailer, which is not installed. Install it beside this program: `npm install nodemailer`.',
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
}
