import pg from 'pg';
import { SyncError } from '../../core/errors.ts';

/** Effect of a failed statement or connection on its transaction. */
type Failing = 'conflict' | 'connection' | 'other';

const conflicts: ReadonlySet<string> = new Set(['40001', '40P01', '55P03']);
/** The server shuts down, was killed, is starting, or has become a standby (25006: read-only). */
const lostConnections = /^(08...|57P0[1-5]|25006|25P0[34]|53300)$/;
const lostSockets: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
]);
/** Messages of `pg` for lost connections without an error code. */
const lostTexts =
  /Connection terminated|connection timeout|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after|not queryable/i;

/** Classifies an error; a `SyncError` with recovery `retry` is classified by its cause. */
export function failingOf(error: unknown): Failing {
  if (error instanceof SyncError) {
    return error.recovery === 'retry' && error.cause !== undefined ? failingOf(error.cause) : 'other';
  }
  const code = codeOf(error);
  if (conflicts.has(code)) return 'conflict';
  if (lostConnections.test(code) || lostSockets.has(code)) return 'connection';
  return code === '' && error instanceof Error && lostTexts.test(error.message) ? 'connection' : 'other';
}

/** Innermost cause of a `SyncError`; any other error itself. */
export function driverError(error: unknown): unknown {
  return error instanceof SyncError && error.cause !== undefined ? driverError(error.cause) : error;
}

/**
 * Explains why a server cannot be used now, for an error whose `failingOf` is `connection`; follows the server's name.
 */
export function awayText(error: unknown): string {
  const from = driverError(error);
  const reason = from instanceof Error ? from.message : String(from);
  return `${awayWords[codeOf(from)] ?? 'cannot be reached'} (${reason})`;
}

const awayWords: Readonly<Record<string, string>> = {
  '25006': 'is read-only',
  '53300': 'has no connection free',
  '57P03': 'is starting or stopping',
};

/** Error that is handled like a broken connection. */
export function lostConnection(why: string): Error {
  return Object.assign(new Error(why), { code: '08006' });
}

/** SQLSTATE or the code of a system call; '' where there is none. */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

/** Explains a failed connection attempt where the driver has a text for it; null for any other error. */
export function connectProblem(code: string, reason: string): string | null {
  if (reason.startsWith('SASL: ') && reason.includes('password must be')) {
    return 'asks for a password, and there is none. Set password, best as ${file:path} or ${VARIABLE}.';
  }
  if (/^Received unexpected \w+ message from backend/.test(reason)) {
    return 'does not answer as PostgreSQL does. Check host and port: another program may listen there.';
  }
  return tlsProblem(code, reason);
}

/**
 * Error codes of Node.js for certificates that are not accepted, and for failed handshakes: in those of alerts
 * (CERTIFICATE_REQUIRED) the server speaks of a client's.
 */
const certificate =
  /CERT(?!IFICATE)|UNABLE_TO_VERIFY_LEAF_SIGNATURE|^(INVALID_(CA|PURPOSE)|PATH_LENGTH_EXCEEDED)$/;
const handshake = /^(EPROTO|ERR_(SSL|TLS|OSSL)_)/;
/** Messages of `pg`, without a code, when a server declines TLS. */
const withoutTls = /does not support SSL|error establishing an SSL connection/;
/** A certificate may list hundreds of names. */
const mostLetters = 300;

/** Explains a TLS failure of a connection and its remedy; null for any other failure. `code`: code of the error. */
export function tlsProblem(code: string, message: string): string | null {
  if (code === '' && withoutTls.test(message)) {
    return 'offers no TLS, and sslmode demands it. Set ssl = on in the server; sslmode=disable sends passwords and records unencrypted.';
  }
  const reason = `${code}: ${message.slice(0, mostLetters)}`;
  if (certificate.test(code)) {
    return `has a certificate that is not accepted (${reason}). sslrootcert in the address names the file of its authority; the host of the address must stand in it, unless sslmode is verify-ca, and the clock of this machine must be right.`;
  }
  return handshake.test(code)
    ? `could not agree on TLS (${reason}). Check the server's TLS settings and what is between.`
    : null;
}

/** Removes the parts of a server's error that may quote stored values. */
export function dropValues(error: unknown): void {
  if (!isServerError(error)) return;
  error.detail = undefined;
  error.where = undefined;
  error.internalQuery = undefined;
}

/** Whether the server itself has refused something. */
export function isServerError(error: unknown): error is pg.DatabaseError {
  return error instanceof pg.DatabaseError;
}
