import { DelayedError, UnrecoverableError, WaitingError, type Job } from 'bullmq';
import type { Settlement } from './settle-run.ts';

/** What Redis keeps of a completed job. */
export interface JobResult {
  /**
   * A run's outcome, or `paused`, `unknown`, `cancelled`, `made-up-for` if the job started no run; of a publication how
   * it ended.
   */
  readonly outcome: string;
}

/**
 * Does with a job what was settled: by returning, or by throwing what the queue understands. `name` begins the text of
 * a failure.
 */
export async function carryOut(
  job: Job,
  token: string | undefined,
  name: string,
  settlement: Settlement,
): Promise<JobResult> {
  switch (settlement.kind) {
    case 'complete':
      return { outcome: settlement.outcome };
    case 'give-back':
      await job.moveToWait(token);
      throw new WaitingError();
    case 'delay':
      await job.moveToDelayed(settlement.untilMs, token);
      throw new DelayedError();
    case 'fail': {
      // Only the code: Redis stores this text unencrypted, and a message may quote an API response.
      const text = `${name}: ${settlement.code}`;
      throw settlement.isFinal ? new UnrecoverableError(text) : new Error(text);
    }
    case 'lost':
      throw new Error(`${name}: lock lost; another worker takes over`);
  }
}

export function factsOf(settlement: Settlement): object {
  if (settlement.kind === 'complete') return { outcome: settlement.outcome };
  if (settlement.kind === 'fail') return { code: settlement.code };
  return settlement.kind === 'delay' ? { until: new Date(settlement.untilMs).toISOString() } : {};
}

/** A failure of this attempt is final. */
export function isLastAttempt(job: Job): boolean {
  return job.attemptsMade + 1 >= (job.opts.attempts ?? 1);
}
