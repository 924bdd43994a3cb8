import { SyncError, type ErrorCode } from './errors.ts';

/** One thing wrong with a file a person wrote. `line` counts from 1; `path` is dotted (`connectors.wiki.schedule`). */
export interface Problem {
  readonly file: string;
  readonly line: number | null;
  readonly path: string;
  readonly message: string;
}

/** Everything wrong with the files, at once: a person should need one round, not five. */
export class ProblemsError extends SyncError {
  override readonly name = 'ProblemsError';
  readonly problems: readonly Problem[];

  constructor(
    code: Extract<ErrorCode, 'CONFIG_INVALID' | 'DEFINITION_INVALID'>,
    problems: readonly Problem[],
  ) {
    const inOrder = asRead(problems);
    super(inOrder.map(formatProblem).join('\n'), {
      code,
      recovery: 'stop',
      context: { problems: problems.length },
    });
    this.problems = inOrder;
  }
}

/** File by file as they were met, each from top to bottom. */
function asRead(problems: readonly Problem[]): readonly Problem[] {
  const files = [...new Set(problems.map(({ file }) => file))];
  return files.flatMap((file) =>
    problems
      .filter((problem) => problem.file === file)
      .toSorted((left, right) => (left.line ?? 0) - (right.line ?? 0)),
  );
}

export function formatProblem(problem: Problem): string {
  const place = problem.line === null ? problem.file : `${problem.file}:${problem.line}`;
  return problem.path === ''
    ? `${place}: ${problem.message}`
    : `${place}: ${problem.path}: ${problem.message}`;
}
