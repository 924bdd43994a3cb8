import pg from 'pg';
import { SyncError } from '../../core/errors.ts';
import { tlsProblem } from './tls.ts';

/** What a failed statement or connection means for the transaction that it was in. */
export type Failing = 'conflict' | 'connection' | 'other';

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
/** What `pg` says where it has no code. */
const lostTexts =
  /Connection terminated|connection timeout|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after|not queryable/i;

/** Of a `SyncError` that may pass: what it was made from. */
export function failingOf(error: unknown): Failing {
  if (error instanceof SyncError) {
    return error.recovery === 'retry' && error.cause !== undefined ? failingOf(error.cause) : 'other';
  }
  const code = codeOf(error);
  if (conflicts.has(code)) return 'conflict';
  if (lostConnections.test(code) || lostSockets.has(code)) return 'connection';
  return code === '' && error instanceof Error && lostTexts.test(error.message) ? 'connection' : 'other';
}

/** What a `SyncError` of `toSinkError` was made from. */
export function driverError(error: unknown): unknown {
  return error instanceof SyncError && error.cause !== undefined ? driverError(error.cause) : error;
}

/** Why a server cannot be used now, of an error whose `failingOf` is `connection`; to stand behind its name. */
export function awayText(error: unknown): string {
  const from = driverError(error);
  const said = from instanceof Error ? from.message : String(from);
  switch (codeOf(from)) {
    case '25006':
      return `is read-only (${said})`;
    case '53300':
      return `has no connection free (${said})`;
    case '57P03':
      return `is starting or stopping (${said})`;
    default:
      return `cannot be reached (${said})`;
  }
}

/** What is handled like a connection that broke. */
export function lostConnection(why: string): Error {
  return Object.assign(new Error(why), { code: '08006' });
}

/** SQLSTATE or the code of a system call; '' where there is none. */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

/** What keeps a connection from being made, where the driver says it in words of its own; null for any other error. */
export function connectProblem(code: string, said: string): string | null {
  if (said.startsWith('SASL: ') && said.includes('password must be')) {
    return 'asks for a password, and there is none. Set password, best as ${file:path} or ${VARIABLE}.';
  }
  if (/^Received unexpected \w+ message from backend/.test(said)) {
    return 'does not answer as PostgreSQL does. Check host and port: another program may listen there.';
  }
  return tlsProblem(code, said);
}

/**
 * Says what a failure of the server means for the sink at `place`. `SyncError`s and programming errors are given back as they came. A
 * statement's text and its values are never in the message: they hold records.
 */
export function toSinkError(error: unknown, place: string): unknown {
  if (error instanceof SyncError) return error;
  const code = codeOf(error);
  const failing = failingOf(error);
  const said = error instanceof Error ? error.message : String(error);
  const context = { place, cause: code === '' ? 'connection' : code };
  if (!(error instanceof pg.DatabaseError) && failing === 'other') {
    const problem = connectProblem(code, said);
    if (problem === null) return error;
    return new SyncError(`PostgreSQL at ${place} ${problem}`, {
      code: 'SINK_FAILED',
      recovery: 'stop',
      context,
      cause: error,
    });
  }
  if (error instanceof pg.DatabaseError) dropValues(error);
  if (code === '53100' || code === '53200') {
    return new SyncError(
      `PostgreSQL at ${place} has no ${code === '53100' ? 'disk space' : 'memory'} left; nothing of the last commit was stored. ` +
        'Free some and sync again.',
      { code: 'SINK_FULL', recovery: 'retry', context, cause: error },
    );
  }
  if (failing === 'connection') {
    return new SyncError(`PostgreSQL at ${place} ${awayText(error)}. ${awayAdvice(code)}`, {
      code: 'SINK_FAILED',
      recovery: 'retry',
      context,
      cause: error,
    });
  }
  if (failing === 'conflict' || code === '57014') {
    return new SyncError(
      `PostgreSQL at ${place} could not finish in time because of other transactions or load (${said}). Sync again.`,
      { code: 'SINK_FAILED', recovery: 'retry', context, cause: error },
    );
  }
  return new SyncError(`PostgreSQL at ${place} refused (${code}: ${said}). ${advice(code, said)}`, {
    code: 'SINK_FAILED',
    recovery: 'stop',
    context,
    cause: error,
  });
}

function awayAdvice(code: string): string {
  switch (code) {
    case '25006':
      return 'Name the primary in the url, promote the standby, or set default_transaction_read_only to off.';
    case '53300':
      return 'Raise max_connections or the limit of the user or database, or lower connections in the config.';
    case '57P03':
      return 'Try again when it accepts connections.';
    default:
      return 'Check the server and the network.';
  }
}

/** What the server adds to its message quotes the values that it is about. */
function dropValues(error: pg.DatabaseError): void {
  error.detail = undefined;
  error.where = undefined;
  error.internalQuery = undefined;
}

function advice(code: string, said: string): string {
  if (code === '28000' && /no (SSL )?encryption|SSL off/i.test(said)) {
    return 'If the server takes encrypted connections only, use sslmode=verify-full in the address; else let this machine in (pg_hba.conf).';
  }
  if (code.startsWith('28')) return "Check the user and the password of the sink's url.";
  if (code === '3D000') return 'Create the database, or correct its name in the url.';
  if (code === '42501') {
    return 'Let the user create the schema (GRANT CREATE ON DATABASE ... TO ...), or make it the owner of the schema.';
  }
  if (code === '2BP01') {
    return 'Views of your own are made of it: drop them, and make them again afterwards.';
  }
  if (code === '54000' && /row is too big/.test(said)) {
    return 'A record has more filled fields than fit in a row: declare fewer of them in the definition; fields that are not declared are kept in _extra.';
  }
  return 'Check the server and its log.';
}
