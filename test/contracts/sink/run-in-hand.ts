import { beforeEach, expect } from 'vitest';
import { instant, type Instant } from '../../../src/core/clock.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts, type PreparedRecord } from '../../../src/core/records.ts';
import type {
  Absence,
  FoundPartition,
  Marker,
  Partition,
  Seal,
  WalkFailure,
} from '../../../src/sinks/partition.ts';
import type { RunOutcome, RunReport } from '../../../src/sinks/run-report.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { EntityReading, RunPlan } from '../../../src/sinks/sink.ts';
import type { EntityMissing, Sink } from '../../../src/sinks/sink-access.ts';
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
  proof,
  reading,
  record,
  report,
  rootOf,
  sealed,
  walkFailure,
  type Bench,
  type Started,
} from './fixture.ts';

/** What one partition shows when it is walked; its walk is one page. */
export interface Shown {
  readonly records: readonly PreparedRecord[];
  readonly children?: readonly FoundPartition[];
  readonly absence?: Absence;
  readonly watermark?: Instant;
}

/** A parameter of a partition, '' where it has none. */
export function param({ params }: Pick<Partition, 'params'>, name: string): string {
  const value = params[name];
  return typeof value === 'string' ? value : '';
}

/** One page of a partition of lists or members; the last one by default. */
export interface Read {
  readonly records?: readonly PreparedRecord[];
  readonly children?: readonly FoundPartition[];
  readonly seal?: Seal | null;
}

/** A run over the contract as the engine makes one: walks, leftovers, sweep, tombstones, report. */
export class RunInHand {
  readonly sink: Sink;
  readonly started: Awaited<ReturnType<Sink['startRun']>> & Started;
  readonly #countsByEntity = new Map<EntityName, PageCounts>();

  private constructor(sink: Sink, started: RunInHand['started']) {
    this.sink = sink;
    this.started = started;
  }

  /** An hour after whatever came before. */
  static async begin(
    bench: Bench,
    { sink, lease }: Held,
    run: string,
    change: Partial<RunPlan>,
  ): Promise<RunInHand> {
    bench.clock.advance(hourMs);
    return new RunInHand(sink, { ...(await sink.startRun(lease, bench.plan(run, change))), lease });
  }

  get run() {
    return this.started.run;
  }

  get lease(): Lease {
    return this.started.lease;
  }

  ready(): Promise<readonly Partition[]> {
    return this.sink.nextPartitions(this.lease, 50);
  }

  /** What is ready, in short: its list (or the entity of a root) and how it is read. */
  async modes(): Promise<readonly string[]> {
    return (await this.ready()).map((one) => `${param(one, 'list_id') || one.entity} ${one.mode}`);
  }

  /** The ready partition of this list, or of the lists themselves. */
  async partition(id: string | null): Promise<Partition> {
    const found = (await this.ready()).find(({ params }) => (params['list_id'] ?? null) === id);
    if (found === undefined) throw new Error(`Nothing is ready for ${id ?? 'the lists'}`);
    return found;
  }

  /** Gives how many partitions the page made due. */
  async read(id: string | null, { records = [], children = [], seal = sealed }: Read = {}): Promise<number> {
    return await this.#commit(await this.partition(id), records, { children, seal });
  }

  async walk(show: (partition: Partition) => Shown): Promise<void> {
    for (;;) {
      const [next] = await this.sink.nextPartitions(this.lease, 1);
      if (next === undefined) {
        if ((await this.leftovers()) === 0) return;
        continue;
      }
      await this.walkOne(next, show(next));
    }
  }

  async walkOne(partition: Partition, shown: Shown): Promise<void> {
    const { records, children = [], absence = 'nothing', watermark = null } = shown;
    const seal = { proof, watermark, absence: partition.mode === 'full' ? absence : null };
    await this.#commit(partition, records, { children, seal });
  }

  async #commit(
    { id, entity }: Partition,
    records: readonly PreparedRecord[],
    change: Pick<Required<Read>, 'children' | 'seal'>,
  ): Promise<number> {
    const [stored] = await this.sink.commit(this.lease, [
      page(this.started, id, records, { entity, ...change }),
    ]);
    for (const one of stored?.counts ?? []) this.count(one.entity, one.counts);
    return stored?.newlyDue ?? 0;
  }

  async setAside(bench: Bench, id: string | null, change: Partial<WalkFailure> = {}): Promise<void> {
    const walk = { partition: (await this.partition(id)).id, run: this.run };
    await this.sink.setAside(this.lease, walk, walkFailure({ at: instant(bench.clock.now()), ...change }));
  }

  leftovers(): Promise<number> {
    return this.sink.findLeftovers(this.lease);
  }

  async sweep(limit = 2): Promise<void> {
    for (let round = 0; !(await this.sink.deletes.sweep(this.lease, this.run, limit)).isDone; round += 1) {
      expect(round, 'a sweep comes to an end').toBeLessThan(1_000);
    }
  }

  async missing(entity: EntityName): Promise<EntityMissing | undefined> {
    return (await this.sink.deletes.missing(this.lease, this.run)).find((one) => one.entity === entity);
  }

  /** Everything that needs nothing more, and what lies below it; gives the rows per entity. */
  async tombstone(entities: readonly EntityName[], limit = 2): Promise<Readonly<Record<string, number>>> {
    const { deletes } = this.sink;
    const deleted: Record<string, number> = {};
    for (const entity of entities) {
      for (let rows = -1; rows !== 0;) {
        rows = await deletes.tombstone(this.lease, this.run, entity, 'all', limit);
        deleted[entity] = (deleted[entity] ?? 0) + rows;
      }
    }
    for (;;) {
      const batch = await deletes.tombstoneBelow(this.lease, this.run, limit);
      if (batch.length === 0) return deleted;
      for (const { entity, rows } of batch) deleted[entity] = (deleted[entity] ?? 0) + rows;
    }
  }

  count(entity: EntityName, counts: PageCounts): void {
    this.#countsByEntity.set(entity, addCounts(this.#countsByEntity.get(entity) ?? noCounts, counts));
  }

  async finish(outcome: RunOutcome = 'ok', more: Partial<RunReport> = {}): Promise<void> {
    const entities = [...this.#countsByEntity].map(([entity, counts]) => entityReport(entity, counts));
    await this.sink.finish(this.lease, this.run, report(this.started, { outcome, entities, ...more }));
  }
}

export interface Held {
  readonly sink: Sink;
  readonly lease: Lease;
}

/** Gives each test a sink of its bench that holds the connector. */
export function useHeld(bench: () => Bench): () => Held {
  let held: Held | null = null;
  beforeEach(async () => {
    held = await bench().hold();
  });
  return () => {
    if (held === null) throw new Error('Only inside a test');
    return held;
  };
}

/** Whole runs after each other over one lease. */
export async function useRuns(bench: Bench, plan: Partial<RunPlan>, on: Partial<Held> = {}) {
  const { sink = await bench.open(), lease = await sink.acquire(identity()) } = on;
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    RunInHand.begin(bench, { sink, lease }, run, { ...plan, ...change });
  /** Walks and sweeps; ends there. */
  const sweep = async (
    run: string,
    show: (partition: Partition) => Shown,
    change: Partial<RunPlan> = {},
  ): Promise<RunInHand> => {
    const hand = await begin(run, change);
    await hand.walk(show);
    await hand.sweep();
    return hand;
  };
  return { sink, lease, begin, sweep };
}

/** Lists that lead to members; both may be read incrementally. */
export function readingOf(
  change: { readonly [Entity in 'lists' | 'members']?: Partial<EntityReading> } = {},
): RunPlan['reading'] {
  return new Map([
    [lists, reading(change.lists)],
    [members, reading(change.members)],
  ]);
}

/** A run of lists that lead to members. */
export async function beginLists(
  bench: Bench,
  held: Held,
  run: string,
  change: Partial<RunPlan> = {},
): Promise<RunInHand> {
  return await RunInHand.begin(bench, held, run, {
    tables: [listsTable, membersTable],
    entities: [lists, members],
    roots: [rootOf(lists)],
    leaves: [members],
    reading: readingOf(),
    ...change,
  });
}

export const list = (id: string): PreparedRecord => record(listsTable, { id });

export function membersOf(id: string, marker: Marker | null = null): FoundPartition {
  const parent = { entity: lists, keyText: JSON.stringify([id]) };
  return partition(members, { list_id: id }, { rank: 1, parent, marker });
}

export const settled = (value: string): Marker => ({ value, isSettled: true });

export const whole = (change: Partial<Seal> = {}): Seal => ({ ...sealed, ...change });
