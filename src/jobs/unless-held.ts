import type { Settlement } from './settle-run.ts';
import type { SinkContext } from './worker-context.ts';

/**
 * During a deploy, a worker with the old config may get jobs of connectors and targets that only the new config has.
 */
const unknownForMs = 15 * 60 * 1000;

interface AskedWork {
  /** Of the connector or target. */
  readonly name: string;
  /** Whether the config has it, in this sink. */
  readonly isKnown: () => boolean;
  readonly askedMs: number;
  /** Names of those that this process works on. */
  readonly active: Set<string>;
}

/**
 * Does the work of a job, unless something holds it back: this worker stops, the sink is away, the config does not have
 * what the job names, or this process works on it already.
 */
export async function unlessHeld(
  context: SinkContext,
  { name, isKnown, askedMs, active }: AskedWork,
  work: () => Promise<Settlement>,
): Promise<Settlement> {
  // While BullMQ closes, it takes one more job, which may be the one just given back.
  if (context.closing.aborted) return { kind: 'give-back' };
  if (!isKnown()) {
    const isNew = context.clock.now() - askedMs < unknownForMs;
    return isNew ? later(context) : { kind: 'complete', outcome: 'unknown' };
  }
  // The queue of a lost sink is held within seconds; until then no job may start a run.
  if ((await context.ledger.lost(context.sinkName)) !== null || active.has(name)) return later(context);
  active.add(name);
  try {
    return await work();
  } finally {
    active.delete(name);
  }
}

export function later({ clock, timings }: SinkContext): Settlement {
  return { kind: 'delay', untilMs: clock.now() + timings.busyDelayMs, end: 'busy' };
}
