import { instant } from '../../../src/core/clock.ts';
import type { FoundPartition, Marker, Partition, Seal, WalkFailure } from '../../../src/sinks/partition.ts';
import type { RunOutcome } from '../../../src/sinks/run-report.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { EntityReading, RunPlan, StartedRun } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts, type PreparedRecord } from '../../../src/core/records.ts';
import {
  entityReport,
  hourMs,
  identity,
  lists,
  listsTable,
  members,
  membersTable,
  page,
  partition,
  reading,
  record,
  report,
  rootOf,
  sealed,
  type Bench,
} from './fixture.ts';

/** Lists that lead to members; both may be read incrementally. */
export function readingOf(
  change: { readonly [Entity in 'lists' | 'members']?: Partial<EntityReading> } = {},
): RunPlan['reading'] {
  return new Map([
    [lists, reading(change.lists)],
    [members, reading(change.members)],
  ]);
}

export const listsAndMembers: Partial<RunPlan> = {
  tables: [listsTable, membersTable],
  entities: [lists, members],
  roots: [rootOf(lists)],
  leaves: [members],
  reading: readingOf(),
};

export const list = (id: string): PreparedRecord => record(listsTable, { id });

export function membersOf(id: string, marker: Marker | null = null): FoundPartition {
  const parent = { entity: lists, keyText: JSON.stringify([id]) };
  return partition(members, { list_id: id }, { rank: 1, parent, marker });
}

export const settled = (value: string): Marker => ({ value, isSettled: true });

export const whole = (change: Partial<Seal> = {}): Seal => ({ ...sealed, ...change });

export interface Read {
  readonly records?: readonly PreparedRecord[];
  readonly children?: readonly FoundPartition[];
  readonly seal?: Seal | null;
}

/** One run over the contract, an hour after whatever came before. */
export class RunOfLists {
  readonly sink: Sink;
  readonly lease: Lease;
  readonly run: RunId;
  readonly started: StartedRun;
  readonly #countsByEntity = new Map<EntityName, PageCounts>();

  private constructor(sink: Sink, lease: Lease, started: StartedRun) {
    this.sink = sink;
    this.lease = lease;
    this.run = started.run;
    this.started = started;
  }

  static async start(
    bench: Bench,
    { sink, lease }: { readonly sink: Sink; readonly lease: Lease },
    run: string,
    change: Partial<RunPlan> = {},
  ): Promise<RunOfLists> {
    bench.clock.advance(hourMs);
    const plan = bench.plan(run, { ...listsAndMembers, ...change });
    return new RunOfLists(sink, lease, await sink.startRun(lease, plan));
  }

  ready(): Promise<readonly Partition[]> {
    return this.sink.nextPartitions(this.lease, 50);
  }

  /** What is ready, in short: its list (or the entity of a root) and how it is read. */
  async modes(): Promise<readonly string[]> {
    const ready = await this.ready();
    return ready.map(({ entity, params, mode }) => {
      const id = params['list_id'];
      return `${typeof id === 'string' ? id : entity} ${mode}`;
    });
  }

  /** The ready partition of this list, or of the lists themselves. */
  async partition(id: string | null): Promise<Partition> {
    const found = (await this.ready()).find(({ params }) => (params['list_id'] ?? null) === id);
    if (found === undefined) throw new Error(`Nothing is ready for ${id ?? 'the lists'}`);
    return found;
  }

  /** One page of a partition; the last one by default. Gives how many partitions it made due. */
  async read(id: string | null, { records = [], children = [], seal = sealed }: Read = {}): Promise<number> {
    const { id: at, entity } = await this.partition(id);
    const [stored] = await this.sink.commit(this.lease, [
      page({ lease: this.lease, run: this.run }, at, records, { entity, children, seal }),
    ]);
    for (const { entity: counted, counts } of stored?.counts ?? []) {
      const before = this.#countsByEntity.get(counted) ?? noCounts;
      this.#countsByEntity.set(counted, addCounts(before, counts));
    }
    return stored?.newlyDue ?? 0;
  }

  async setAside(bench: Bench, id: string | null, change: Partial<WalkFailure> = {}): Promise<void> {
    const { id: at } = await this.partition(id);
    await this.sink.setAside(
      this.lease,
      { partition: at, run: this.run },
      {
        code: 'UPSTREAM',
        recovery: 'retry',
        message: '500',
        at: instant(bench.clock.now()),
        dropPosition: false,
        dropWatermark: false,
        ...change,
      },
    );
  }

  leftovers(): Promise<number> {
    return this.sink.findLeftovers(this.lease);
  }

  async sweep(): Promise<void> {
    let isDone = false;
    while (!isDone) ({ isDone } = await this.sink.deletes.sweep(this.lease, this.run, 100));
  }

  async finish(outcome: RunOutcome = 'ok'): Promise<void> {
    const entities = [...this.#countsByEntity].map(([entity, counts]) => entityReport(entity, counts));
    const { lease, run } = this;
    await this.sink.finish(lease, run, report({ lease, run }, { outcome, entities }));
  }
}

export async function held(bench: Bench): Promise<{ readonly sink: Sink; readonly lease: Lease }> {
  const sink = await bench.open();
  return { sink, lease: await sink.acquire(identity()) };
}
