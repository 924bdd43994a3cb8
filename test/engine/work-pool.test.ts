import { describe, expect, it } from 'vitest';
import { newWake, workPool, type Pool } from '../../src/engine/work-pool.ts';

interface Item {
  readonly id: number;
}

/** Works off `due` (ids); work takes its id out when it ends. */
function pool(due: Set<number>, options: Partial<Pool<Item>> & Pick<Pool<Item>, 'work'>): Pool<Item> {
  return {
    concurrency: 3,
    isOver: () => false,
    next: (limit) => Promise.resolve([...due].slice(0, limit).map((id) => ({ id }))),
    onError: (error) => {
      throw error;
    },
    ...options,
  };
}

describe('workPool', () => {
  it('walks everything that is due, never more at a time than allowed, and none twice', async () => {
    const due = new Set(Array.from({ length: 50 }, (_, index) => index + 1));
    const walked: number[] = [];
    let [open, most] = [0, 0];
    const work = async ({ id }: Item): Promise<void> => {
      open += 1;
      most = Math.max(most, open);
      walked.push(id);
      await new Promise(setImmediate);
      due.delete(id);
      open -= 1;
    };
    await workPool(pool(due, { work }));
    expect({ walked: new Set(walked).size, times: walked.length, most }).toEqual({
      walked: 50,
      times: 50,
      most: 3,
    });
  });

  it('starts what a commit makes due while other walks are still open', async () => {
    const due = new Set([1]);
    const wake = newWake();
    let endFirst = (): void => undefined;
    const first = new Promise<void>((resolve) => (endFirst = resolve));
    const work = async ({ id }: Item): Promise<void> => {
      if (id === 1) {
        due.add(2);
        wake.wake();
        await first;
      } else endFirst();
      due.delete(id);
    };
    await workPool(pool(due, { work }), wake);
    expect(due.size).toBe(0);
  });

  it('trusts no answer that is older than the end of a walk: neither what it repeats nor what it leaves out', async () => {
    const due = new Set([1]);
    const wake = newWake();
    const walked: number[] = [];
    const work = async ({ id }: Item): Promise<void> => {
      walked.push(id);
      await new Promise(setImmediate);
      // A page was stored: the pool looks for more while this walk comes to its end.
      wake.wake();
      await new Promise(setImmediate);
      if (id < 5) due.add(id + 1);
      due.delete(id);
    };
    const next = async (limit: number): Promise<readonly Item[]> => {
      const found = [...due].slice(0, limit).map((id) => ({ id }));
      for (let turn = 0; turn < 3; turn += 1) await new Promise(setImmediate);
      return found;
    };
    await workPool(pool(due, { work, next }), wake);
    expect(walked).toEqual([1, 2, 3, 4, 5]);
  });

  it('reports an error that must end the run, and waits for the open walks', async () => {
    const due = new Set([1, 2]);
    const stop = new AbortController();
    const errors: unknown[] = [];
    let hasEnded = false;
    const work = async ({ id }: Item): Promise<void> => {
      if (id === 1) throw new Error('disk full');
      await new Promise(setImmediate);
      hasEnded = true;
    };
    const onError = (error: unknown): void => {
      errors.push(error);
      stop.abort();
    };
    await workPool(pool(due, { work, onError, isOver: () => stop.signal.aborted }));
    expect({ errors: errors.map(String), hasEnded }).toEqual({
      errors: ['Error: disk full'],
      hasEnded: true,
    });
  });

  it('starts nothing more once it is closing, and lets open walks end', async () => {
    const due = new Set([1, 2, 3, 4, 5]);
    const walked: number[] = [];
    const work = async ({ id }: Item): Promise<void> => {
      await new Promise(setImmediate);
      due.delete(id);
      walked.push(id);
    };
    await workPool(pool(due, { work, isOver: () => walked.length > 0 }));
    expect(walked).toEqual([1, 2, 3]);
  });
});
