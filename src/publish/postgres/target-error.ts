import { type ErrorCode, type Recovery, SyncError } from '../../core/errors.ts';
import {
  codeOf,
  connectProblem,
  dropValues,
  failingOf,
  isServerError,
} from '../../sql/postgres/postgres-error.ts';
import { CertificateError } from '../../sql/postgres/tls.ts';

/**
 * Says what a failure of the server means for the target at `place`: `SyncError` TARGET_FAILED, or TARGET_INCOMPATIBLE
 * where a person must change something in the schema. Other errors of this program are given back as they came. No
 * statement and no value is in the message.
 */
export function toTargetError(error: unknown, place: string): unknown {
  const cause = error instanceof SyncError || error instanceof CertificateError ? error.cause : error;
  if (error instanceof SyncError && !error.code.startsWith('SINK_')) return error;
  const code = codeOf(cause);
  const failing = failingOf(cause);
  const said = cause instanceof Error ? cause.message : String(cause);
  const at = `PostgreSQL at ${place}`;
  const made = (text: string, recovery: Recovery, kind: ErrorCode = 'TARGET_FAILED'): SyncError => {
    const context = { place, cause: code === '' ? 'connection' : code };
    return new SyncError(`${at} ${text}`, { code: kind, recovery, context, cause });
  };
  if (!isServerError(cause) && failing === 'other') {
    const problem = connectProblem(code, said);
    return problem === null ? error : made(problem, 'stop');
  }
  // Of this error it names the objects, and no values.
  const dependents = isServerError(cause) && code === '2BP01' ? cause.detail?.split('\n') : [];
  dropValues(cause);
  if (code === '53100' || code === '53200') {
    const what = code === '53100' ? 'disk space' : 'memory';
    return made(
      `has no ${what} left; nothing of this publication is there. Free some and publish again.`,
      'retry',
    );
  }
  if (code === '55P03') {
    return made(
      'has a lock of another session on a table of the target (for longer than 5 s); nothing of this publication is there. Publish again when that transaction has ended.',
      'retry',
    );
  }
  if (code === '2BP01') {
    return made(
      `has views or other objects on a table, or on a column of it, that has to be replaced (${[said, ...(dependents ?? [])].join('; ')}). Drop them, publish again, and make them again.`,
      'stop',
      'TARGET_INCOMPATIBLE',
    );
  }
  if (failing !== 'other') {
    return made(
      `cannot be reached or is too busy (${said}). Check the server and the network, and publish again.`,
      'retry',
    );
  }
  return made(`refused (${code}: ${said}). ${adviceOf(code)}`, 'stop');
}

function adviceOf(code: string): string {
  if (code.startsWith('28')) return "Check the user and the password of the target's url.";
  if (code === '3D000') return 'Create the database, or correct its name in the url.';
  if (code === '42501') {
    return 'Let the user create the schema (GRANT CREATE ON DATABASE ... TO ...), or make it the owner of the schema and of its tables.';
  }
  if (code === '42809') return 'Rename or drop what stands in its place, and publish again.';
  if (code === '42P16') return 'Drop that view, and publish again.';
  if (code.startsWith('23')) {
    return 'If a constraint or an index was added to a table of the target, drop it, and publish again.';
  }
  if (code.startsWith('42')) {
    return 'If tables of the target were changed, undo that, or publish with --new-generation.';
  }
  return 'Check the server and its log.';
}

/** Runs `work`. What it fails with is thrown as `toTargetError` says, or the signal's reason once that is aborted. */
export async function asked<Result>(
  { place, signal }: { readonly place: string; readonly signal: AbortSignal },
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw toTargetError(error, place);
  }
}

export function incompatible(place: string, found: string, advice: string): SyncError {
  return new SyncError(`PostgreSQL at ${place} cannot be used as a target: ${found}. ${advice}`, {
    code: 'TARGET_INCOMPATIBLE',
    recovery: 'stop',
    context: { place },
  });
}
