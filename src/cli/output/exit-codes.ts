import { type ErrorCode, SyncError } from '../../core/errors.ts';
import { ProblemsError } from '../../core/problems.ts';
import type { EntityReport, RunReport } from '../../sinks/run-report.ts';
import type { Terminal } from './terminal.ts';

/** Exit codes for scripts and schedulers. Documented: never renumber. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  degraded: 3,
  authentication: 4,
  busy: 5,
  /** Deletes were withheld by a guard. */
  guard: 6,
  /** Interrupted after a checkpoint. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Exit codes, gravest first: errors that a person must repair, then failures, then delays. */
const gravest: readonly ExitCode[] = [2, 4, 1, 6, 5, 3, 130];

/** Combines the codes of several connectors. */
export function gravestExitCode(codes: readonly ExitCode[]): ExitCode {
  return gravest.find((code) => codes.includes(code)) ?? exitCodes.ok;
}

export function exitCodeOfReport(report: EndedReport): ExitCode {
  const hasWithheld = report.entities.some(({ withheld }) => withheld > 0);
  return gravestExitCode([exitCodeOfOutcome(report), hasWithheld ? exitCodes.guard : exitCodes.ok]);
}

type EndedReport = Pick<RunReport, 'outcome' | 'error' | 'resumeAt'> & {
  readonly entities: readonly Pick<EntityReport, 'withheld'>[];
};

function exitCodeOfOutcome(report: Omit<EndedReport, 'entities'>): ExitCode {
  switch (report.outcome) {
    case 'ok':
      return exitCodes.ok;
    case 'partial':
      // The user set the budget that ended the run; records that the service put off are still missing.
      return report.resumeAt === null ? exitCodes.ok : exitCodes.degraded;
    case 'degraded':
      return exitCodes.degraded;
    case 'interrupted':
      return exitCodes.interrupted;
    case 'failed':
      return report.error === null ? exitCodes.failed : exitCodeOfErrorCode(report.error.code);
  }
}

export function exitCodeOfError(error: unknown): ExitCode {
  return error instanceof SyncError ? exitCodeOfErrorCode(error.code) : exitCodes.failed;
}

export function exitCodeOfErrorCode(code: ErrorCode): ExitCode {
  return codeByError[code] ?? exitCodes.failed;
}

/** Errors that a person must repair, or may retry; every other error is a failure. */
const codeByError: Partial<Record<ErrorCode, ExitCode>> = {
  USAGE: exitCodes.usage,
  CONFIG_INVALID: exitCodes.usage,
  DEFINITION_INVALID: exitCodes.usage,
  IDENTITY_CHANGED: exitCodes.usage,
  // The config names a workspace in place of an id.
  CONNECTOR_AMBIGUOUS: exitCodes.usage,
  // The config names a place that belongs to another sink or program.
  SINK_INCOMPATIBLE: exitCodes.usage,
  // The copy must be completed or removed first.
  COPY_UNFINISHED: exitCodes.usage,
  // The config names a sink that the connector has left.
  COPIED_AWAY: exitCodes.usage,
  // The config names a place that belongs to something else, or a sink that a target has overtaken.
  TARGET_INCOMPATIBLE: exitCodes.usage,
  TARGET_AHEAD: exitCodes.usage,
  // The query is invalid, as a person or a program wrote it.
  SEARCH_INVALID: exitCodes.usage,
  AUTH_FAILED: exitCodes.authentication,
  CONNECTOR_BUSY: exitCodes.busy,
  // The service put off the run before it began: records are missing, as after a run that it put off halfway.
  THROTTLED: exitCodes.degraded,
  CANCELLED: exitCodes.interrupted,
  INTERRUPTED: exitCodes.interrupted,
};

/**
 * Describes a failure for machines. An error that this program did not raise has the code INTERNAL and its message,
 * nothing more.
 */
export function errorDocument(error: unknown) {
  if (error instanceof ProblemsError) {
    return { code: error.code, message: error.message, problems: error.problems };
  }
  if (error instanceof SyncError) return { code: error.code, message: error.message, context: error.context };
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : String(error) };
}

/**
 * Prints the message on stderr, or one document on stdout with `--json`. The stack is printed only on request: it is
 * for developers.
 */
export function reportError(terminal: Terminal, error: unknown, isDebug: boolean): void {
  const document = errorDocument(error);
  terminal.printJson({ error: document });
  if (!terminal.isJson) terminal.note(`${lead(error, document)}${document.message}`);
  if (isDebug && error instanceof Error && error.stack !== undefined) terminal.note(error.stack);
}

function lead(error: unknown, { code, problems }: ReturnType<typeof errorDocument>): string {
  if (problems !== undefined) {
    const own = error instanceof ProblemsError ? error.subject : null;
    const what = own ?? (code === 'DEFINITION_INVALID' ? 'The definitions' : 'The config');
    return `${what} cannot be used (${problems.length} ${problems.length === 1 ? 'error' : 'errors'}):\n`;
  }
  return error instanceof SyncError ? 'Error: ' : 'Unexpected error: ';
}

/** Members of the documents, which the schema of the output names. */
interface FailureMarks {
  readonly kind?: string;
  readonly connector?: string;
  readonly target?: string;
}

/**
 * Reports the failure of one of several connectors or targets, which does not stop the others: the message below its
 * name, or a document with the marks. Returns its exit code.
 */
export function reportFailureOf(
  { terminal }: { readonly terminal: Terminal },
  name: string,
  error: unknown,
  marks: FailureMarks,
  remark = '',
): ExitCode {
  const document = errorDocument(error);
  terminal.printJson({ ...marks, error: document });
  if (!terminal.isJson) terminal.note(`${name}: ${document.message}${remark}`);
  return exitCodeOfError(error);
}

/**
 * Works on one connector or target after the other; a failed one does not stop the others. Throws the signal's reason
 * once it is aborted.
 */
export async function forEachOf<One extends { readonly name: string }>(
  context: { readonly terminal: Terminal; readonly signal: AbortSignal },
  all: readonly One[],
  marksOf: (name: string) => FailureMarks,
  work: (one: One) => Promise<ExitCode | void>,
): Promise<ExitCode> {
  const codes: ExitCode[] = [];
  for (const one of all) {
    context.signal.throwIfAborted();
    try {
      codes.push((await work(one)) ?? exitCodes.ok);
    } catch (error) {
      context.signal.throwIfAborted();
      codes.push(reportFailureOf(context, one.name, error, marksOf(one.name)));
    }
  }
  return gravestExitCode(codes);
}
