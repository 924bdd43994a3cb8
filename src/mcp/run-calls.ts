import PQueue from 'p-queue';
import { SyncError } from '../core/errors.ts';
import { otherTurn } from '../core/other-turn.ts';
import { orAborted } from '../http/or-aborted.ts';
import { takeSlot } from '../http/take-slot.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import type { Clock } from '../core/clock.ts';
import { jsonOf, type Answer } from './answer.ts';

/** Calls that are answered at a time, of those that may take long and of the others; more of them wait. */
const [slowAtATime, atATime] = [2, 4];
/** Further ones are refused. */
const mostWaiting = 100;

/** How a call ended, for the log and the metrics: no values of it. */
export interface EndedCall {
  readonly tool: string;
  readonly result: 'ok' | 'refused' | 'failed' | 'cancelled';
  readonly ms: number;
  readonly rows: number;
  readonly chars: number;
}

export type RunCall = (
  of: { readonly name: string; readonly isSlow: boolean },
  run: (signal: AbortSignal) => Promise<Answer>,
  signal: AbortSignal,
) => Promise<{ readonly text: string; readonly isError: boolean }>;

interface RunCallsOptions {
  readonly clock: Clock;
  readonly log: JobLog;
  /** Resolves when the client takes another answer: until then no call is begun. */
  readonly ready?: (() => Promise<void>) | undefined;
  readonly onCall?: ((call: EndedCall) => void) | undefined;
}

/** Runs calls, a few at a time, and logs each. What a call rejects with becomes its answer. */
export function runCalls(options: RunCallsOptions): RunCall {
  const { clock, log, ready = async () => undefined, onCall = () => undefined } = options;
  const quick = new PQueue({ concurrency: atATime });
  const slow = new PQueue({ concurrency: slowAtATime });
  return async ({ name: tool, isSlow }, run, signal) => {
    const slots = isSlow ? slow : quick;
    const startMs = clock.now();
    const ended = (result: EndedCall['result'], rows: number, text: string) => {
      const call = { tool, result, ms: clock.now() - startMs, rows, chars: text.length };
      log.info(call, 'call ended');
      onCall(call);
      return { text, isError: result !== 'ok' };
    };
    try {
      if (slots.size >= mostWaiting) throw busy();
      const freeSlot = await takeSlot(slots, signal);
      try {
        // Reads of files keep the process busy: between two calls it hears of others, and of cancelled ones.
        await otherTurn();
        await orAborted(ready(), signal);
        const { text, rows } = await run(signal);
        return ended('ok', rows, text);
      } finally {
        freeSlot();
      }
    } catch (error) {
      if (signal.aborted) return ended('cancelled', 0, 'cancelled');
      if (error instanceof SyncError) {
        return ended('refused', 0, jsonOf({ error: error.code, message: error.message }));
      }
      log.error({ err: error, tool }, 'a call failed');
      return ended('failed', 0, jsonOf({ error: 'INTERNAL', message: 'The call failed; the log says why.' }));
    }
  };
}

function busy(): SyncError {
  return new SyncError(`${mostWaiting} calls are waiting. Call again in a moment.`, {
    code: 'SEARCH_BUSY',
    recovery: 'throttle',
  });
}
