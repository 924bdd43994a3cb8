import { exitCodeOfError, exitCodes, type ExitCode } from './exit-codes.ts';
import { errorDocument } from './report-error.ts';

/** One line of `check`. A warning says what may bite later and changes no exit code. */
export interface CheckResult {
  readonly what: string;
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly detail: string;
  readonly exitCode: ExitCode;
}

export const marks = { ok: '✓', warning: '!', failed: '✗', skipped: '-' } as const;

export async function attempt(what: string, check: () => Promise<string>): Promise<CheckResult> {
  try {
    return passed(what, await check());
  } catch (error) {
    return failed(what, error);
  }
}

export function failed(what: string, error: unknown): CheckResult {
  return { what, state: 'failed', detail: errorDocument(error).message, exitCode: exitCodeOfError(error) };
}

export function skipped(what: string, detail: string): CheckResult {
  return { what, state: 'skipped', detail, exitCode: exitCodes.ok };
}

export function passed(what: string, detail: string): CheckResult {
  return { what, state: 'ok', detail, exitCode: exitCodes.ok };
}
