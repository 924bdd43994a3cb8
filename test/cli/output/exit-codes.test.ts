import { describe, expect, it } from 'vitest';
import {
  exitCodeOfError,
  exitCodeOfReport,
  gravestExitCode,
  type ExitCode,
} from '../../../src/cli/output/exit-codes.ts';
import { SyncError, type ErrorCode } from '../../../src/core/errors.ts';
import type { RunOutcome } from '../../../src/sinks/run-report.ts';

describe('exit codes', () => {
  it.each<[RunOutcome, ExitCode]>([
    ['ok', 0],
    ['partial', 0],
    ['degraded', 3],
    ['failed', 1],
    ['interrupted', 130],
  ])('a run that is %s ends with %i', (outcome, code) => {
    expect(exitCodeOfReport({ outcome, error: null, resumeAt: null, entities: [] })).toBe(code);
  });

  it('a run that the service put off ends with 3: what is missing was not asked to be', () => {
    const resumeAt = '2026-03-01T10:15:00.000Z';
    expect(exitCodeOfReport({ outcome: 'partial', error: null, resumeAt, entities: [] })).toBe(3);
  });

  it.each<[ErrorCode, ExitCode]>([
    ['USAGE', 2],
    ['CONFIG_INVALID', 2],
    ['DEFINITION_INVALID', 2],
    ['IDENTITY_CHANGED', 2],
    ['CONNECTOR_AMBIGUOUS', 2],
    ['SINK_INCOMPATIBLE', 2],
    ['SEARCH_INVALID', 2],
    ['AUTH_FAILED', 4],
    ['CONNECTOR_BUSY', 5],
    ['INTERRUPTED', 130],
    ['THROTTLED', 3],
    ['CANCELLED', 130],
    ['CONNECTOR_UNKNOWN', 1],
    ['NETWORK', 1],
    ['SINK_FULL', 1],
    ['SEARCH_TOO_SLOW', 1],
  ])('%s ends with %i, thrown or reported', (code, expected) => {
    expect(exitCodeOfError(new SyncError('x', { code, recovery: 'stop' }))).toBe(expected);
    const error = { code, recovery: 'stop', message: 'x' } as const;
    expect(exitCodeOfReport({ outcome: 'failed', error, resumeAt: null, entities: [] })).toBe(expected);
  });

  it.each<[RunOutcome, ErrorCode | null, ExitCode]>([
    ['ok', null, 6],
    ['partial', null, 6],
    ['degraded', null, 6],
    ['interrupted', null, 6],
    ['failed', 'NETWORK', 1],
    ['failed', 'AUTH_FAILED', 4],
    ['failed', 'CONNECTOR_BUSY', 6],
  ])('a run that is %s (%s) and withheld deletes ends with %i, the gravest', (outcome, code, expected) => {
    const error = code === null ? null : ({ code, recovery: 'stop', message: 'x' } as const);
    const entities = [{ withheld: 0 }, { withheld: 1 }];
    expect(exitCodeOfReport({ outcome, error, resumeAt: null, entities })).toBe(expected);
  });

  it('an error of unknown origin is a failure', () => {
    expect(exitCodeOfError(new TypeError('x'))).toBe(1);
    expect(exitCodeOfError('x')).toBe(1);
  });

  it('several connectors end with the first of 2, 4, 1, 6, 5, 3, 130', () => {
    const order: readonly ExitCode[] = [2, 4, 1, 6, 5, 3, 130, 0];
    for (const [index, code] of order.entries()) {
      expect(gravestExitCode(order.slice(index).reverse())).toBe(code);
    }
    expect(gravestExitCode([])).toBe(0);
  });
});
