import { connect as connectSocket } from 'node:net';
import { SyncError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { RedisRefusal } from './check-redis-rights.ts';

const greetingWithinMs = 300;

/** `what`: why Redis cannot be used, to stand behind its name. */
export function unavailable(url: Secret, what: string, cause: unknown): SyncError {
  const { host, port } = addressOf(url);
  const place = `${host}:${port}`;
  return new SyncError(`Redis at ${place} ${what}.`, {
    code: 'QUEUE_UNAVAILABLE',
    recovery: 'stop',
    context: { place },
    cause,
  });
}

function addressOf(url: Secret): { readonly host: string; readonly port: number } {
  const { hostname, port } = new URL(url.reveal());
  return { host: hostname, port: port === '' ? 6379 : Number(port) };
}

/** What a server that answers refuses. */
export function refusalText(refusal: RedisRefusal, user: string, prefix: string): string {
  switch (refusal.kind) {
    case 'loading':
      return 'is still loading its data. Start again when it has finished';
    case 'replica':
      return 'is a read-only replica. Set redis.url to the primary';
    case 'keys':
      return `does not let its user "${user}" use keys that begin with "${prefix}:". Allow them (ACL SETUSER ${user} ~${prefix}:*), or set redis.prefix to a prefix that the user may use`;
    case 'commands': {
      const shown = refusal.commands.slice(0, 5).join(', ');
      const more = refusal.commands.length > 5 ? ` and ${refusal.commands.length - 5} more` : '';
      return `does not let its user "${user}" run ${shown}${more}. Allow them (ACL SETUSER ${user} +@all -@dangerous +info)`;
    }
  }
}

/** `greeting`: what the server sends before the first command. */
export function failureText(error: unknown, url: Secret, greeting: string): string {
  const reason = reasonOf(error);
  const isTls = url.reveal().startsWith('rediss:');
  if (/max number of clients/.test(`${greeting} ${reason}`)) {
    return 'accepts no more connections (maxclients). Raise maxclients, or close connections of other clients';
  }
  if (/^(WRONGPASS|NOAUTH|ERR AUTH)\b/.test(reason)) {
    return `rejects the user name or password of redis.url: ${reason}. Correct them in redis.url`;
  }
  if (/^NOPERM\b/.test(reason)) {
    return `denies a command: ${reason}. Grant the user of redis.url more rights`;
  }
  if (reason.startsWith('LOADING')) return refusalText({ kind: 'loading' }, '', '');
  if (reason.startsWith('Unknown RESP type')) {
    return 'is not a Redis server: another program answers there. Set redis.url to the address of Redis';
  }
  if (/certificate/i.test(reason)) {
    return `has a TLS certificate that is not trusted: ${reason}. Name its CA in NODE_EXTRA_CA_CERTS`;
  }
  if (isTls && /no answer within|wrong version number|packet length|EPROTO/.test(reason)) {
    return `does not answer over TLS: ${reason}. If it does not use TLS, begin redis.url with redis:// instead of rediss://`;
  }
  if (!isTls && /Connection is closed|ECONNRESET|EPIPE/.test(reason)) {
    return 'closes the connection without an answer. If it expects TLS, begin redis.url with rediss:// instead of redis://';
  }
  return `does not answer: ${reason}. Start it, or correct redis.url`;
}

/** At maxclients the server sends an error and closes the connection; the client reports only the closed connection. */
export async function readGreeting(url: Secret, error: unknown): Promise<string> {
  if (!/Connection is closed|ECONNRESET|EPIPE/.test(reasonOf(error))) return '';
  const { host, port } = addressOf(url);
  return await new Promise((resolve) => {
    const socket = connectSocket({ host, port, timeout: greetingWithinMs });
    socket.once('data', (data: Buffer) => {
      resolve(data.toString('latin1', 0, 200));
      socket.destroy();
    });
    socket.once('timeout', () => socket.destroy());
    socket.once('error', () => socket.destroy());
    socket.once('close', () => resolve(''));
  });
}

/** In the words of the client, with its code. */
export function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (code === 'ECONNREFUSED') return 'it refused the connection (ECONNREFUSED)';
  const text = message.replace(/[.\s]+$/, '');
  return code === '' || text.includes(code) ? text : `${text} (${code})`;
}
