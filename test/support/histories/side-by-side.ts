import { expect } from 'vitest';
import { SyncError } from '../../../src/core/errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { identity, type Bench } from '../../contracts/sink/fixture.ts';

/** A sink, and the lease on its connector. */
interface Side {
  readonly bench: Bench;
  readonly sink: Sink;
  lease: Lease;
  /** Of its partitions, after the last step. */
  names: ReadonlyMap<number, string>;
}

/** Several sinks that get the same calls. The first one's answers count; those of the others must be the same. */
export class SideBySide {
  readonly steps: string[];
  readonly #sides: readonly Side[];

  private constructor(sides: readonly Side[], steps: readonly string[]) {
    this.#sides = sides;
    this.steps = [...steps];
  }

  /** `steps`: what was done before. */
  static async open(benches: readonly Bench[], steps: readonly string[] = []): Promise<SideBySide> {
    const open = async (bench: Bench): Promise<Side> => {
      const sink = await bench.open();
      const lease = await sink.acquire(identity());
      return { bench, sink, lease, names: await partitionNames(bench) };
    };
    return new SideBySide(await Promise.all(benches.map(open)), steps);
  }

  get first(): Side {
    return (this.#sides as readonly [Side])[0];
  }

  advance(ms: number): void {
    for (const { bench } of this.#sides) bench.clock.advance(ms);
  }

  /** The process is gone in the middle of a run, and another one takes the connector. */
  async takeOver(): Promise<void> {
    await this.release();
    await this.acquire();
  }

  async release(): Promise<void> {
    for (const { lease } of this.#sides) await lease[Symbol.asyncDispose]();
  }

  async acquire(): Promise<void> {
    this.steps.push('take over');
    for (const side of this.#sides) side.lease = await side.sink.acquire(identity());
  }

  /** Does the same on every side; the answers must be equal once numbers of partitions stand for what they are of. */
  async same<Result>(
    step: string,
    work: (side: Side, translate: (id: number) => number) => Promise<Result>,
  ): Promise<Result> {
    this.steps.push(step);
    const [first, ...others] = this.#sides as readonly [Side, ...Side[]];
    const answer = await settled(async () => await work(first, (id) => id));
    const names = await namesAround(first);
    for (const other of others) {
      const idOf = new Map([...other.names].map(([id, name]) => [name, id]));
      const translate = (id: number): number => idOf.get(names.get(id) ?? '') ?? -1;
      const found = await settled(async () => await work(other, translate));
      const shown = named(found, await namesAround(other));
      expect(shown, `${step} after ${this.steps.slice(-12).join(', ')}`).toEqual(named(answer, names));
    }
    if (answer.error !== undefined) throw answer.error;
    return answer.value as Result;
  }
}

interface Settled {
  readonly value?: unknown;
  readonly error?: unknown;
}

/** A refusal is an answer: only its code is compared. Accounting errors are expected. */
async function settled(work: () => Promise<unknown>): Promise<Settled> {
  try {
    return { value: await work() };
  } catch (error) {
    const isAnswer = error instanceof SyncError && ['ACCOUNTING', 'FENCED', 'USAGE'].includes(error.code);
    if (isAnswer) return { value: error.code };
    return { error };
  }
}

/** Before the step and after it: a step may find partitions and forget others. */
async function namesAround(side: Side): Promise<ReadonlyMap<number, string>> {
  const before = side.names;
  side.names = await partitionNames(side.bench);
  return new Map([...before, ...side.names]);
}

async function partitionNames(bench: Bench): Promise<ReadonlyMap<number, string>> {
  const rows = await bench.ledger('SELECT id, connector, entity, params, backfill FROM _sync_partitions');
  return new Map(rows.map(({ id, ...name }) => [Number(id), JSON.stringify(Object.values(name))]));
}

/** `id` and `tree` of partitions by name, and walks that are due again in an order of their own. */
function named({ value, error }: Settled, names: ReadonlyMap<number, string>): unknown {
  if (error !== undefined) {
    return { failed: error instanceof Error ? error.message : 'something that is no error' };
  }
  return JSON.parse(
    JSON.stringify(value ?? null, (key, one: unknown) => {
      // Each sink has made its own.
      if (key === 'rawKey') return undefined;
      if (key === 'unsealed' && Array.isArray(one)) {
        return one.map((walk) => JSON.stringify(walk)).toSorted();
      }
      return (key === 'id' || key === 'tree') && typeof one === 'number'
        ? (names.get(one) ?? 'unknown')
        : one;
    }),
  );
}
