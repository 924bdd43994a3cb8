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
  const reason = error instanceof Error ? error.message : String(error);
  const failed = (
    text: string,
    recovery: SyncError['recovery'],
    ofCode: SyncError['code'] = 'SINK_FAILED',
  ): SyncError => {
    const context = { place, cause: code === '' ? 'connection' : code };
    return new SyncError(`PostgreSQL at ${place} ${text}`, { code: ofCode, recovery, context, cause: error });
  };
  if (!isServerError(error) && failing === 'other') {
    const problem = connectProblem(code, reason);
    return problem === null ? error : failed(problem, 'stop');
  }
  dropValues(error);
  if (code === '53100' || code === '53200') {
    const lacking = code === '53100' ? 'disk space' : 'memory';
    return failed(
      `has no ${lacking} left; nothing of the last commit was stored. Free some and sync again.`,
      'retry',
      'SINK_FULL',
    );
  }
  if (failing === 'connection') return failed(`${awayText(error)}. ${awayAdvice(code)}`, 'retry');
  if (failing === 'conflict' || code === '57014') {
    return failed(
      `could not finish in time because of other transactions or load (${reason}). Sync again.`,
      'retry',
    );
  }
  return failed(`refused (${code}: ${reason}). ${advice(code, reason)}`, 'stop');
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

function advice(code: string, reason: string): string {
  if (code === '28000' && /no (SSL )?encryption|SSL off/i.test(reason)) {
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
  if (code === '54000' && /row is too big/.test(reason)) {
    return 'A record has more filled fields than fit in a row: declare fewer of them in the definition; fields that are not declared are kept in _extra.';
  }
  return 'Check the server and its log.';
}
