import type { Job, Queue } from 'bullmq';
import * as z from 'zod';
import { instant, type Clock } from '../core/clock.ts';
import type { RunEvent } from '../core/events.ts';

interface ProgressOptions {
  /** Over a connection that fails fast, so that reporting never delays a run. */
  readonly queue: Queue;
  readonly clock: Clock;
  readonly onError: (error: Error) => void;
}

const writeEveryMs = 1000;
/** Bounds the memory for log lines while Redis hangs. */
const maxPendingLines = 50;
const keptLines = 200;

const stored = z.object({ starts: z.number().int().min(0) });

/** Consecutive starts of this job whose process crashed before a page was stored. */
export function startsInARow(job: Job): number {
  const parsed = stored.safeParse(job.progress);
  return parsed.success ? parsed.data.starts : 0;
}

export type ProgressReport = ReturnType<typeof reportProgress>;

/**
 * Writes a run's progress to its job at most once a second, as the board shows it, and log lines for its main events:
 * numbers and names only, never data of records or API responses.
 */
export function reportProgress(job: Job, options: ProgressOptions) {
  const { queue, clock, onError } = options;
  const jobId = job.id ?? '';
  const pending = new Set<Promise<unknown>>();
  /** `starts`: consecutive ones that neither stored a page nor ended, as after a crash. */
  let state = { starts: startsInARow(job), pages: 0, records: 0, written: 0, entity: null as string | null };
  let writtenAtMs = 0;

  const track = (write: Promise<unknown>): Promise<void> => {
    const settled = write.then(() => undefined, onError).finally(() => pending.delete(settled));
    pending.add(settled);
    return settled;
  };
  const writeState = (): Promise<void> => {
    writtenAtMs = clock.now();
    return track(queue.updateJobProgress(jobId, { ...state, at: instant(writtenAtMs) }));
  };

  return {
    /** Counts this start; resolves when the write to Redis has succeeded or failed. */
    begin(): Promise<void> {
      state = { ...state, starts: state.starts + 1 };
      return writeState();
    },
    onEvent(event: RunEvent): void {
      const line = lineOf(event);
      if (line !== null && pending.size < maxPendingLines) {
        track(queue.addJobLog(jobId, `${instant(clock.now())} ${line}`, keptLines)).catch(onError);
      }
      if (event.kind !== 'page-committed') return;
      const { fetched, inserted, updated } = event.counts;
      const isFirst = state.starts > 0;
      state = {
        starts: 0,
        pages: state.pages + 1,
        records: state.records + fetched,
        written: state.written + inserted + updated,
        entity: event.entity,
      };
      if (isFirst || clock.now() - writtenAtMs >= writeEveryMs) writeState().catch(onError);
    },
    /** Resets the starts, because the run ended without a crash. Resolves when all writes are done. */
    async end(): Promise<void> {
      state = { ...state, starts: 0 };
      await writeState();
      await Promise.all(pending);
    },
  };
}

/** Names, codes and numbers only: parameters and messages may contain data of the API. */
function lineOf(event: RunEvent): string | null {
  switch (event.kind) {
    case 'run-started':
      return event.continues === null
        ? `run ${event.run} started`
        : `run ${event.run} started, resumes ${event.continues}`;
    case 'walk-set-aside':
      return `${event.entity}: a partition was set aside (${event.code})`;
    case 'part-missing':
      return `${event.entity}: part missing in ${event.listings} of its listings`;
    case 'rate-stated':
      return `the API states ${event.requestsPerSecond} calls a second`;
    case 'throttled':
      return `throttled for ${event.waitMs} ms`;
    case 'sink-away':
      return `the sink cannot be written to; tried again for ${Math.ceil(event.leftMs / 1000)} s`;
    case 'sink-made':
      return `made the sink ${event.sink} at ${event.place}`;
    case 'sink-back':
      return 'the sink can be written to again';
    case 'deletes-withheld':
      return `${event.entity}: ${event.rows} deletes were withheld (${event.because})`;
    case 'retention-withheld':
      return `${event.entity}: ${event.count} of ${event.of} ${event.what} are too old, and a guard keeps them`;
    case 'files-started':
      return event.files === 0 ? null : `fetching ${event.files} files`;
    case 'file-set-aside':
      return `${event.entity}: a file was set aside (${event.code})`;
    case 'run-finished':
      return `run ${event.run} finished: ${event.outcome}`;
    case 'walk-started':
    case 'page-requested':
    case 'page-fetched':
    case 'page-dropped':
    case 'listings-found':
    case 'listing-counted':
    case 'commit-started':
    case 'page-committed':
    case 'commit-finished':
    case 'walk-restarted':
    case 'walk-sealed':
    case 'call-ended':
    case 'call-retried':
    case 'sweep-started':
    case 'record-confirmed':
    case 'rows-deleted':
    case 'file-stored':
      return null;
  }
}
