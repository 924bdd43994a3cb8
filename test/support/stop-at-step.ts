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
export function stopAtStep(stopAt: number) {
  let steps = 0;
  let last = '';
  function step(name: string): void {
    if (steps >= stopAt) throw new StoppedError(`stopped at step ${steps}, ${last}`);
    steps += 1;
    last = name;
    if (steps >= stopAt) throw new StoppedError(`stopped at step ${steps}, ${name}`);
  }
  /** The same, with a step on both sides of each of these calls. */
  function around<Target extends object>(target: Target, names: readonly (keyof Target & string)[]): Target {
    const wrapped = names.map((name) => {
      // `as`: each name is one of a method.
      const call = target[name] as (...given: unknown[]) => unknown;
      const stepped = async (...given: unknown[]): Promise<unknown> => {
        step(`before ${name}`);
        const result = await call.apply(target, given);
        step(`after ${name}`);
        return result;
      };
      return [name, stepped] as const;
    });
    return { ...target, ...Object.fromEntries(wrapped) };
  }

  return {
    /** Without more than a source has to have. */
    wrapSource: (source: Source): Source => {
      const plain: Source = {
        connect: (signal) => source.connect(signal),
        list: (request, signal) => source.list(request, signal),
        get: (request, signal) => source.get(request, signal),
        stats: () => source.stats(),
        [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
      };
      return around(plain, ['connect', 'list', 'get']);
    },
    wrapSink: (sink: Sink): Sink => ({
      ...around(sink, [
        ...(['acquire', 'startRun', 'nextPartitions', 'commit', 'setAside'] as const),
        ...(['findLeftovers', 'left', 'finish'] as const),
      ]),
      deletes: around(sink.deletes, [
        ...(['sweep', 'suspectParents', 'endedBelow', 'missing', 'allow', 'toConfirm'] as const),
        ...(['judge', 'tombstone', 'tombstoneBelow'] as const),
      ]),
    }),
    /** Steps so far, and the name of the last one. */
    reached: () => ({ steps, last }),
  };
}
