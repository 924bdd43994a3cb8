import { SyncError } from '../../core/errors.ts';
import { ProblemsError, type Problem } from '../../core/problems.ts';
import { exitCodeOfError, type ExitCode } from './exit-codes.ts';
import type { Terminal } from './terminal.ts';

interface ErrorDocument {
  readonly code: string;
  readonly message: string;
  readonly context?: SyncError['context'];
  readonly problems?: readonly Problem[];
}

/**
 * What a failure says, for machines. Errors we did not raise have the code INTERNAL and their message, nothing more.
 */
export function errorDocument(error: unknown): ErrorDocument {
  if (error instanceof ProblemsError) {
    return { code: error.code, message: error.message, problems: error.problems };
  }
  if (error instanceof SyncError) return { code: error.code, message: error.message, context: error.context };
  return { code: 'INTERNAL', message: error instanceof Error ? error.message : String(error) };
}

/**
 * The message on stderr, or one document on stdout with `--json`. The stack only on request: it is for us, not for
 * users.
 */
export function reportError(terminal: Terminal, error: unknown, isDebug: boolean): void {
  const document = errorDocument(error);
  terminal.printJson({ error: document });
  if (!terminal.isJson) terminal.note(`${lead(error, document)}${document.message}`);
  if (isDebug && error instanceof Error && error.stack !== undefined) terminal.note(error.stack);
}

function lead(error: unknown, { code, problems }: ErrorDocument): string {
  if (problems !== undefined) {
    const what = code === 'DEFINITION_INVALID' ? 'definitions' : 'config';
    return `The ${what} cannot be used (${problems.length} ${problems.length === 1 ? 'error' : 'errors'}):\n`;
  }
  return error instanceof SyncError ? 'Error: ' : 'Unexpected error: ';
}

/**
 * The failure of one of several connectors or targets, which does not keep the others from their turn: the message
 * below its name, or a document with the marks. Gives its exit code.
 */
export function reportFailureOf(
  { terminal }: { readonly terminal: Terminal },
  name: string,
  error: unknown,
  marks: object,
  remark = '',
): ExitCode {
  const document = errorDocument(error);
  terminal.printJson({ ...marks, error: document });
  if (!terminal.isJson) terminal.note(`${name}: ${document.message}${remark}`);
  return exitCodeOfError(error);
}
