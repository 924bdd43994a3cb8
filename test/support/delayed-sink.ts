import type { SinkAccess } from '../../src/sinks/sink-access.ts';
import { seededRandom } from './seeded-random.ts';

/** Lets a random number of other tasks run; some waits are shorter than a turn of the event loop. */
export function randomTurns(seed: number): () => Promise<void> {
  const random = seededRandom(seed);
  return async () => {
    for (let left = Math.floor(random() * 3); left > 0; left -= 1) {
      const kind = random();
      if (kind < 0.4) await Promise.resolve();
      else if (kind < 0.9) await new Promise((resolve) => setImmediate(resolve));
      else await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
}

/**
 * The same sink as if it were far away: each call, also of what it opens, takes some turns before it begins and before
 * it answers. Other calls come in between, so what relies on an answer at once, or on two answers being of one state,
 * is found out.
 */
export function delayedAccess(access: SinkAccess, turns: () => Promise<void>): SinkAccess {
  return delayed(access, turns);
}

/** Methods that give batches; all others give a promise. */
const givesBatches: ReadonlySet<unknown> = new Set(['changes', 'keys', 'records', 'facts']);
/** Of what is opened, parts without calls. */
const isData: ReadonlySet<PropertyKey> = new Set(['connector', 'progress']);
/** What an answer has calls of its own. */
const opens = /^(open|acquire)/;
/** Wrapped object -> what it stands for: a lease is known by its identity. */
const plain = new WeakMap<object, unknown>();

function delayed<Target extends object>(target: Target, turns: () => Promise<void>): Target {
  const known = new Map<PropertyKey, unknown>();
  const wrapped = new Proxy(target, {
    get(of, name) {
      const value: unknown = Reflect.get(of, name, of);
      if (typeof value !== 'function') {
        return isPart(value) && !isData.has(name) ? partOf(name, value) : value;
      }
      const call = (given: readonly unknown[]): unknown => Reflect.apply(value, of, given.map(unwrapped));
      return givesBatches.has(name)
        ? (...given: readonly unknown[]) => delayedBatches(() => call(given), turns)
        : async (...given: readonly unknown[]): Promise<unknown> => {
            await turns();
            const answer = await call(given);
            await turns();
            return isPart(answer) && opens.test(String(name)) ? delayed(answer, turns) : answer;
          };
    },
  });
  /** The same object each time, as it is where nothing is delayed. */
  const partOf = (name: PropertyKey, part: object): unknown => {
    if (!known.has(name)) known.set(name, delayed(part, turns));
    return known.get(name);
  };
  plain.set(wrapped, target);
  return wrapped;
}

async function* delayedBatches(read: () => unknown, turns: () => Promise<void>): AsyncGenerator {
  await turns();
  for await (const batch of read() as AsyncIterable<unknown>) {
    await turns();
    yield batch;
  }
}

function isPart(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function unwrapped(given: unknown): unknown {
  return isPart(given) && plain.has(given) ? plain.get(given) : given;
}
