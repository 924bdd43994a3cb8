import type { Sink } from '../../src/sinks/sink-access.ts';
import type { Source } from '../../src/source/source.ts';

/** What a step that is never finished throws; everything after it throws it too, as after a death nothing runs. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

/**
 * Counts every call that the engine makes of its source and its sink, before and after the call, and stops the world at
 * step `stopAt`: what was done before it stays, nothing is done after it, not even the end of the run.
 */
export function stopAtStep(stopAt: number): {
  readonly wrapSource: (source: Source) => Source;
  readonly wrapSink: (sink: Sink) => Sink;
  /** Steps so far, and the name of the last one. */
  readonly reached: () => { readonly steps: number; readonly last: string };
} {
  let steps = 0;
  let last = '';

  function step(name: string): void {
    if (steps >= stopAt) throw new StoppedError(`stopped at step ${steps}, ${last}`);
    steps += 1;
    last = name;
    if (steps >= stopAt) throw new StoppedError(`stopped at step ${steps}, ${name}`);
  }

  async function around<T>(name: string, call: () => Promise<T>): Promise<T> {
    step(`before ${name}`);
    const result = await call();
    step(`after ${name}`);
    return result;
  }

  return {
    wrapSource: (source) => ({
      connect: (signal) => around('connect', () => source.connect(signal)),
      list: (request, signal) => around('list', () => source.list(request, signal)),
      get: (request, signal) => around('get', () => source.get(request, signal)),
      stats: () => source.stats(),
      [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
    }),
    wrapSink: (sink) => ({
      ...sink,
      acquire: (identity) => around('acquire', () => sink.acquire(identity)),
      startRun: (lease, plan) => around('startRun', () => sink.startRun(lease, plan)),
      nextPartitions: (lease, limit) => around('nextPartitions', () => sink.nextPartitions(lease, limit)),
      commit: (lease, pages) => around('commit', () => sink.commit(lease, pages)),
      setAside: (lease, walk, why) => around('setAside', () => sink.setAside(lease, walk, why)),
      findLeftovers: (lease) => around('findLeftovers', () => sink.findLeftovers(lease)),
      left: (lease) => around('left', () => sink.left(lease)),
      deletes: stoppableDeletes(sink.deletes, around),
      finish: (lease, run, report) => around('finish', () => sink.finish(lease, run, report)),
    }),
    reached: () => ({ steps, last }),
  };
}

function stoppableDeletes(
  deletes: Sink['deletes'],
  around: <T>(name: string, call: () => Promise<T>) => Promise<T>,
): Sink['deletes'] {
  return {
    batchRows: deletes.batchRows,
    sweep: (lease, run, limit) => around('sweep', () => deletes.sweep(lease, run, limit)),
    suspectParents: (lease, run, confirmable) =>
      around('suspectParents', () => deletes.suspectParents(lease, run, confirmable)),
    endedBelow: (lease, run) => around('endedBelow', () => deletes.endedBelow(lease, run)),
    missing: (lease, run) => around('missing', () => deletes.missing(lease, run)),
    allow: (lease, run, entity) => around('allow', () => deletes.allow(lease, run, entity)),
    toConfirm: (lease, run, entity, limit) =>
      around('toConfirm', () => deletes.toConfirm(lease, run, entity, limit)),
    judge: (lease, run, entity, judgements) =>
      around('judge', () => deletes.judge(lease, run, entity, judgements)),
    tombstone: (lease, run, entity, which, limit) =>
      around('tombstone', () => deletes.tombstone(lease, run, entity, which, limit)),
    tombstoneBelow: (lease, run, limit) =>
      around('tombstoneBelow', () => deletes.tombstoneBelow(lease, run, limit)),
  };
}
