import { SyncError, type ErrorCode } from './errors.ts';
import { grouped } from './grouped.ts';

/**
 * One thing wrong with a file a person wrote. `line` and `column` count from 1; `path` is dotted
 * (`connectors.wiki.schedule`).
 */
export interface Problem {
  readonly file: string;
  readonly line: number | null;
  /** Absent: not known. */
  readonly column?: number;
  readonly path: string;
  readonly message: string;
}

/** Everything wrong with the files, at once: a person should need one round, not five. */
export class ProblemsError extends SyncError {
  override readonly name = 'ProblemsError';
  readonly problems: readonly Problem[];
  /** Name of the files, for the beginning of a sentence; null: the usual name for the code. */
  readonly subject: string | null;

  constructor(
    code: Extract<ErrorCode, 'CONFIG_INVALID' | 'DEFINITION_INVALID'>,
    problems: readonly Problem[],
    subject: string | null = null,
  ) {
    const inOrder = asRead(problems);
    super(inOrder.map(formatProblem).join('\n'), {
      code,
      recovery: 'stop',
      context: { problems: problems.length },
    });
    this.problems = inOrder;
    this.subject = subject;
  }
}

/** File by file as they were met, each from top to bottom. */
export function asRead(problems: readonly Problem[]): readonly Problem[] {
  return [...grouped(problems, ({ file }) => file).values()].flatMap((ofFile) =>
    ofFile.toSorted((left, right) => (left.line ?? 0) - (right.line ?? 0)),
  );
}

export function formatProblem({ line, ...problem }: Problem): string {
  return formatAt(problem, line === null ? [] : [line]);
}

/** Formats a problem so that editors can jump to it: `file:line:column: path: message`. */
export function formatWithColumn({ line, column, ...problem }: Problem): string {
  return formatAt(problem, line === null ? [] : column === undefined ? [line] : [line, column]);
}

function formatAt({ file, path, message }: Omit<Problem, 'line'>, at: readonly number[]): string {
  return [[file, ...at].join(':'), ...(path === '' ? [] : [path]), message].join(': ');
}
