import { SyncError } from '../../core/errors.ts';
import {
  awayText,
  codeOf,
  connectProblem,
  dropValues,
  failingOf,
  isServerError,
} from '../../sql/postgres/postgres-error.ts';
import { CertificateError } from '../../sql/postgres/tls.ts';

/**
 * Says what a failure of the server means for the sink at `place`. `SyncError`s and programming errors are given back
 * as they came. A statement's text and its values are never in the message: they hold records.
 */
export function toSinkError(error: unknown, place: string): unknown {
  if (error instanceof SyncError) return error;
  if (error instanceof CertificateError) {
    const { file, message, cause } = error;
    return new SyncError(message, { code: 'SINK_FAILED', recovery: 'stop', context: { file }, cause });
  }
  const code = codeOf(error);
  const failing = failingOf(error);
  const said = error instanceof Error ? error.message : String(error);
  const context = { place, cause: code === '' ? 'connection' : code };
  if (!isServerError(error) && failing === 'other') {
    const problem = connectProblem(code, said);
    if (problem === null) return error;
    return new SyncError(`PostgreSQL at ${place} ${problem}`, {
      code: 'SINK_FAILED',
      recovery: 'stop',
      context,
      cause: error,
    });
  }
  dropValues(error);
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
