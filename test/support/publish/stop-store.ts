import type { ObjectStore } from '../../../src/publish/object-store.ts';

/** What a step that is never finished throws; everything after it throws it too, as after a death nothing runs. */
export class StoppedError extends Error {
  override readonly name = 'StoppedError';
}

/** Counts every call that a target makes of its store, before and after the call, and calls `stop` at step `stopAt`. */
export function stopStore(
  stopAt: number,
  stop: (step: string) => never = (step) => {
    throw new StoppedError(step);
  },
): { readonly wrap: (store: ObjectStore) => ObjectStore; readonly steps: () => number } {
  let steps = 0;
  const step = (name: string): void => {
    steps += 1;
    if (steps >= stopAt) stop(`step ${steps}, ${name}`);
  };
  const around = async <Result>(name: string, call: () => Promise<Result>): Promise<Result> => {
    step(`before ${name}`);
    const result = await call();
    step(`after ${name}`);
    return result;
  };
  return {
    steps: () => steps,
    wrap: (store) => ({
      list: (prefix, after) => store.list(prefix, after),
      sizes: (names) => store.sizes(names),
      read: (name) => store.read(name),
      stream: (name) => store.stream(name),
      stage: (name) => around(`stage ${name}`, () => store.stage(name)),
      put: (name, staged, facts) => around(`put ${name}`, () => store.put(name, staged, facts)),
      create: (name, text) => around(`create ${name}`, () => store.create(name, text)),
      replace: (name, text) => around(`replace ${name}`, () => store.replace(name, text)),
      remove: (names) => around(`remove ${names.join(' ')}`, () => store.remove(names)),
      leftovers: () => around('leftovers', () => store.leftovers()),
      [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    }),
  };
}
