/**
 * Action to take after a failure. The engine acts on this alone, never on a message or a status. `retry` and `throttle`
 * reach the engine only after the source has used up its own attempts. For the error that ended a run: `retry`: a later
 * run may succeed without help. `stop`: a person must fix something first.
 */
export type Recovery =
  'retry' | 'throttle' | 'smaller-page' | 'restart-walk' | 'skip-partition' | 'skip-entity' | 'stop';

/** Kind of a failure, for people and exit codes. A closed set: add here before use. */
export type ErrorCode =
  | 'USAGE'
  | 'CONFIG_INVALID'
  | 'DEFINITION_INVALID'
  | 'UNPROVEN'
  | 'AUTH_FAILED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'CONNECTOR_UNKNOWN'
  | 'CONNECTOR_AMBIGUOUS'
  | 'CONNECTOR_BUSY'
  | 'IDENTITY_CHANGED'
  | 'QUOTA_EXHAUSTED'
  | 'REQUEST_REFUSED'
  | 'REDIRECTED'
  | 'NETWORK'
  | 'TIMEOUT'
  | 'THROTTLED'
  | 'UPSTREAM'
  | 'BODY_INVALID'
  | 'BODY_TOO_LARGE'
  | 'TRUNCATED_VALUE'
  | 'TOKEN_EXPIRED'
  | 'PAGING_BROKEN'
  | 'SEAM_LOST'
  | 'QUARANTINE_LIMIT'
  | 'ACCOUNTING'
  | 'FENCED'
  | 'SINK_FULL'
  | 'SINK_DAMAGED'
  | 'SINK_INCOMPATIBLE'
  | 'SINK_FAILED'
  | 'SINK_MOVED'
  | 'COPY_UNFINISHED'
  | 'COPIED_AWAY'
  | 'SQLITE_UNUSABLE'
  | 'QUEUE_UNAVAILABLE'
  | 'POISON'
  | 'BUDGET_SPENT'
  | 'SCHEMA_CHANGED'
  | 'SEARCH_INVALID'
  | 'SEARCH_TOO_SLOW'
  | 'SEARCH_BUSY'
  | 'FILE_INVALID'
  | 'TARGET_FAILED'
  | 'TARGET_INCOMPATIBLE'
  | 'TARGET_AHEAD'
  | 'PACKAGE_MISSING'
  | 'CANCELLED'
  | 'INTERRUPTED'
  | 'INTERNAL';

export type ErrorContext = Readonly<Record<string, string | number | boolean | null>>;

/** The parts of an error that are stored or reported. */
export interface Failure {
  readonly code: ErrorCode;
  readonly recovery: Recovery;
  readonly message: string;
}

interface SyncErrorOptions extends Omit<Failure, 'message'> {
  /** Facts for logs and reports. Never a secret, a header, a body or a query string. */
  readonly context?: ErrorContext;
  readonly cause?: unknown;
}

/**
 * Root of every error that this program raises on purpose. The message says what was expected, what came, and what to
 * do.
 */
export class SyncError extends Error {
  override readonly name: string = 'SyncError';
  readonly code: ErrorCode;
  readonly recovery: Recovery;
  readonly context: ErrorContext;

  constructor(message: string, options: SyncErrorOptions) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = options.code;
    this.recovery = options.recovery;
    this.context = options.context ?? {};
  }
}

export function hasCode(error: unknown, code: ErrorCode): error is SyncError {
  return error instanceof SyncError && error.code === code;
}

const putOff = new Set<ErrorCode>(['CONNECTOR_BUSY', 'INTERRUPTED', 'CANCELLED', 'THROTTLED', 'SINK_MOVED']);

/** No run has failed: the job or the command comes again by itself, a person has ended it, or the sink is elsewhere. */
export function isPutOff(error: unknown): boolean {
  return error instanceof SyncError && putOff.has(error.code);
}

interface ThrottledErrorOptions extends Omit<SyncErrorOptions, 'code' | 'recovery'> {
  readonly because?: string | null;
}

/** Calls must pause for longer than one of them waits. */
export class ThrottledError extends SyncError {
  override readonly name = 'ThrottledError';
  readonly retryAfterMs: number;
  /**
   * The answer that led this program to pause although the API did not ask for it. Null: the API asked for the pause.
   */
  readonly because: string | null;

  constructor(
    message: string,
    retryAfterMs: number,
    { because = null, ...options }: ThrottledErrorOptions = {},
  ) {
    super(message, { ...options, code: 'THROTTLED', recovery: 'throttle' });
    this.retryAfterMs = retryAfterMs;
    this.because = because;
  }
}

/** Imports a package that is installed only where it is needed. Throws PACKAGE_MISSING where it cannot be loaded. */
export async function importOptional<Library>(
  user: string,
  name: string,
  load: () => Promise<Library>,
): Promise<Library> {
  try {
    return await load();
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ERR_MODULE_NOT_FOUND';
    const [why = ''] = (cause instanceof Error ? cause.message : String(cause)).split('\n');
    const state = isMissing ? 'is not installed' : `cannot be loaded (${why.slice(0, 200)})`;
    throw new SyncError(
      `${user} needs the package ${name}, which ${state}. Install it beside this program: npm install ${name}`,
      { code: 'PACKAGE_MISSING', recovery: 'stop' },
    );
  }
}

/** Error for a request of a user that cannot be carried out as given: exit code 2. */
export function usage(message: string): SyncError {
  return new SyncError(message, { code: 'USAGE', recovery: 'stop' });
}
