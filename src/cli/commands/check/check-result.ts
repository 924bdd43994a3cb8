import { count } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';
import type { Terminal } from '../../output/terminal.ts';
import { errorDocument, type ExitCode, exitCodeOfError, exitCodes } from '../../output/exit-codes.ts';

/** What checks need; a program has no terminal, and is shown nothing. */
export interface CheckContext extends Pick<CommandContext, 'clock' | 'signal' | 'program'> {
  readonly terminal: Pick<Terminal, 'addLine' | 'note' | 'redraw' | 'style'>;
}

/** One line of `check`. A warning says what may bite later and changes no exit code. */
export interface CheckResult {
  readonly what: string;
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly detail: string;
  readonly exitCode: ExitCode;
  /** Of a failure: problems of one code are of one kind. */
  readonly code?: string;
}

/** Of one kind of problem, and of things that are right, so many are named. */
const mostNamed = 20;

export const marks = { ok: '✓', warning: '!', failed: '✗', skipped: '-' } as const;

export async function attempt(what: string, check: () => Promise<string>): Promise<CheckResult> {
  try {
    return passed(what, await check());
  } catch (error) {
    return failed(what, error);
  }
}

export function failed(what: string, error: unknown): CheckResult {
  const { code, message } = errorDocument(error);
  return { what, state: 'failed', detail: message, exitCode: exitCodeOfError(error), code };
}

/** What another room has found out. */
export function found({ what, state, detail }: Omit<CheckResult, 'exitCode'>): CheckResult {
  return { what, state, detail, exitCode: state === 'failed' ? exitCodes.failed : exitCodes.ok };
}

export const passed = resultOf('ok');
export const warning = resultOf('warning');
export const skipped = resultOf('skipped');

function resultOf(state: CheckResult['state']) {
  return (what: string, detail: string): CheckResult => found({ what, state, detail });
}

/**
 * The results of many like things (`many` names them), so that a person can read them: of what is right a number where
 * there are many, of each kind of problem the first ones and a count of the rest. Few things are listed one by one.
 */
export function summarize(results: readonly CheckResult[], many: string): readonly CheckResult[] {
  if (results.length <= mostNamed) return results;
  const of = (state: CheckResult['state']): readonly CheckResult[] =>
    results.filter((result) => result.state === state);
  const sound = of('ok').length;
  return [
    ...(sound === 0 ? [] : [passed(many, `${count(sound)} of ${count(results.length)} are right`)]),
    ...firstOfEachKind(of('skipped'), many, 'left out'),
    ...firstOfEachKind(of('warning'), many, 'warnings of this kind'),
    ...firstOfEachKind(of('failed'), many, 'problems of this kind'),
  ];
}

function firstOfEachKind(all: readonly CheckResult[], many: string, what: string): readonly CheckResult[] {
  const codes = new Set(all.map(({ code }) => code));
  return [...codes].flatMap((code) =>
    firstOf(
      all.filter((one) => one.code === code),
      many,
      what,
    ),
  );
}

function firstOf(kind: readonly CheckResult[], many: string, what: string): readonly CheckResult[] {
  const [first] = kind;
  const more = kind.length - mostNamed;
  if (first === undefined || more <= 0) return kind;
  const code = first.code === undefined ? '' : ` (${first.code})`;
  return [
    ...kind.slice(0, mostNamed),
    { ...first, what: many, detail: `${count(more)} more ${what}${code}` },
  ];
}

const firstMs = 1_000;
const redrawMs = 100;
const lineMs = 10_000;

/**
 * What takes minutes is shown: after a second, redrawn in place on a terminal, and elsewhere a line every ten seconds.
 */
export function openCheckProgress({ terminal, clock }: Pick<CheckContext, 'terminal' | 'clock'>) {
  const isLive = terminal.style !== null;
  let nextMs = clock.now() + firstMs;
  return {
    tell(line: () => string): void {
      if (clock.now() < nextMs) return;
      nextMs = clock.now() + (isLive ? redrawMs : lineMs);
      if (isLive) terminal.redraw([line()]);
      else terminal.addLine(line());
    },
    [Symbol.dispose]: () => {
      if (isLive) terminal.redraw([]);
    },
  };
}
