import { expect, it } from 'vitest';
import { SyncError, ThrottledError } from '../../src/core/errors.ts';
import type { RunResult } from '../../src/jobs/worker-context.ts';
import { settleRun, type Circumstances, type Ending } from '../../src/jobs/process-job.ts';
import { interrupted, ok } from '../support/jobs/worker-bench.ts';

const calm: Circumstances = {
  isLockLost: false,
  isStopping: false,
  nowMs: 1_000_000,
  busyDelayMs: 5000,
  heldDelayMs: 8000,
};
const ended = (end: RunResult, isDone = true): Ending => ({ kind: 'ended', end: { ...end, isDone } });
const thrown = (error: unknown): Ending => ({ kind: 'thrown', error });
const resumeAt = '2026-01-01T01:00:00.000Z';

it.each<[string, Ending, Partial<Circumstances>, object]>([
  ['an ok run', ended(ok), {}, { kind: 'complete', outcome: 'ok' }],
  ['an ok run of a stopping worker', ended(ok), { isStopping: true }, { kind: 'complete' }],
  [
    'a run that ended early because the service asked for a pause',
    ended({ ...ok, resumeAt }),
    {},
    { untilMs: Date.parse(resumeAt) },
  ],
  [
    'an interrupted run of a stopping worker',
    ended(interrupted),
    { isStopping: true },
    { kind: 'give-back' },
  ],
  ['an interrupted run that lost its lock', ended(interrupted), { isLockLost: true }, { kind: 'lost' }],
  [
    'an interrupted run that lost its lock in a stopping worker',
    ended(interrupted),
    { isLockLost: true, isStopping: true },
    { kind: 'lost' },
  ],
  ['a cancelled run', ended(interrupted), {}, { kind: 'complete', outcome: 'cancelled' }],
  [
    'a failed run without a reason',
    ended({ ...ok, outcome: 'failed' }),
    {},
    { kind: 'fail', code: 'INTERNAL', isFinal: false },
  ],
  ['an unfinished backfill', ended(ok, false), {}, { kind: 'delay', untilMs: 1_005_000, end: 'delayed' }],
  [
    'a connector that another process has locked',
    thrown(new SyncError('x', { code: 'CONNECTOR_BUSY', recovery: 'stop' })),
    {},
    { kind: 'delay', untilMs: 1_008_000, end: 'busy' },
  ],
  [
    'a run that was overtaken',
    thrown(new SyncError('x', { code: 'FENCED', recovery: 'retry' })),
    {},
    { kind: 'delay', untilMs: 1_005_000, end: 'busy' },
  ],
  [
    'a run that was overtaken and lost its lock',
    thrown(new SyncError('x', { code: 'FENCED', recovery: 'retry' })),
    { isLockLost: true },
    { kind: 'lost' },
  ],
  [
    'a run that reports that it was overtaken',
    ended({ ...ok, outcome: 'failed', error: { code: 'FENCED', recovery: 'retry' } }),
    {},
    { kind: 'delay', untilMs: 1_005_000, end: 'busy' },
  ],
  [
    'a run that writes with a lease that is not its own',
    thrown(new SyncError('x', { code: 'FENCED', recovery: 'stop' })),
    {},
    { kind: 'fail', code: 'FENCED', isFinal: true },
  ],
  ['a throttled start', thrown(new ThrottledError('later', 60_000)), {}, { untilMs: 1_060_000 }],
  ['a defect', thrown(new TypeError('x')), {}, { kind: 'fail', code: 'INTERNAL', isFinal: false }],
  [
    'an interrupted start',
    thrown(new SyncError('x', { code: 'INTERRUPTED', recovery: 'stop' })),
    { isStopping: true },
    { kind: 'give-back' },
  ],
])('%s', (_, ending, circumstances, settlement) => {
  expect(settleRun(ending, { ...calm, ...circumstances })).toMatchObject(settlement);
});
