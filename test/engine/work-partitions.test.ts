import { describe, expect, it } from 'vitest';
import type { EntityName } from '../../src/core/names.ts';
import { newWake, workPartitions, type WorkOptions } from '../../src/engine/work-partitions.ts';
import type { WalkEnd } from '../../src/engine/walk-partition.ts';
import type { Partition } from '../../src/sinks/partition.ts';
import type { Lease, Sink } from '../../src/sinks/sink.ts';

const users = 'users' as EntityName;
const partition = (id: number): Partition => ({
  id,
  entity: users,
  params: {},
  inject: {},
  rank: 0,
  treeDepth: null,
  tree: null,
  position: null,
  mode: 'full',
  storedRows: 0,
  clockDifferences: [],
  watermark: null,
});
const sealed: WalkEnd = { kind: 'sealed', proof: { kind: 'single', isOrdered: true } };

/** Works off `due` (ids); a walk takes its id out when it ends. */
function pool(due: Set<number>, options: Partial<WorkOptions> & Pick<WorkOptions, 'walk'>) {
  const sink = {
    nextPartitions: (_: Lease, limit: number) => Promise.resolve([...due].slice(0, limit).map(partition)),
  };
  return {
    sink: sink as unknown as Sink,
    lease: { connector: 'test', epoch: 1 } as unknown as Lease,
    concurrency: 3,
    signal: new AbortController().signal,
    setAside: () => Promise.resolve(),
    onFatal: (error: unknown) => {
      throw error;
    },
    ...options,
  };
}

describe('workPartitions', () => {
  it('walks everything that is due, never more at a time than allowed, and none twice', async () => {
    const due = new Set(Array.from({ length: 50 }, (_, index) => index + 1));
    const walked: number[] = [];
    let [open, most] = [0, 0];
    const walk = async ({ id }: Partition): Promise<WalkEnd> => {
      open += 1;
      most = Math.max(most, open);
      walked.push(id);
      await new Promise(setImmediate);
      due.delete(id);
      open -= 1;
      return sealed;
    };
    await workPartitions(pool(due, { walk }), newWake());
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
    const walk = async ({ id }: Partition): Promise<WalkEnd> => {
      if (id === 1) {
        due.add(2);
        wake.wake();
        await first;
      } else endFirst();
      due.delete(id);
      return sealed;
    };
    await workPartitions(pool(due, { walk }), wake);
    expect(due.size).toBe(0);
  });

  it('tells of what must end the run and waits for the walks that are open', async () => {
    const due = new Set([1, 2]);
    const stop = new AbortController();
    const errors: unknown[] = [];
    let hasEnded = false;
    const walk = async ({ id }: Partition): Promise<WalkEnd> => {
      if (id === 1) throw new Error('disk full');
      await new Promise(setImmediate);
      hasEnded = true;
      return sealed;
    };
    const onFatal = (error: unknown): void => {
      errors.push(error);
      stop.abort();
    };
    await workPartitions(pool(due, { walk, onFatal, signal: stop.signal }), newWake());
    expect({ errors: errors.map(String), hasEnded }).toEqual({
      errors: ['Error: disk full'],
      hasEnded: true,
    });
  });

  it('starts nothing more once it is closing, and lets what is open come to its end', async () => {
    const due = new Set([1, 2, 3, 4, 5]);
    const walked: number[] = [];
    const walk = async ({ id }: Partition): Promise<WalkEnd> => {
      await new Promise(setImmediate);
      due.delete(id);
      walked.push(id);
      return sealed;
    };
    await workPartitions(pool(due, { walk, isClosing: () => walked.length > 0 }), newWake());
    expect(walked).toEqual([1, 2, 3]);
  });
});
