import { expect } from 'vitest';
import type { Instant } from '../../../src/core/clock.ts';
import type { EntityName } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts, type PreparedRecord } from '../../../src/core/records.ts';
import type { EntityMissing } from '../../../src/sinks/deletes.ts';
import type { Absence, FoundPartition, Partition } from '../../../src/sinks/partition.ts';
import type { RunOutcome, RunReport } from '../../../src/sinks/run-report.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { entityReport, hourMs, identity, page, proof, report, type Bench, type Started } from './fixture.ts';

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

/** A run over the contract as the engine makes one: walks, leftovers, sweep, tombstones, report. */
export class RunInHand {
  readonly sink: Sink;
  readonly started: Started;
  readonly #countsByEntity = new Map<EntityName, PageCounts>();

  private constructor(sink: Sink, started: Started) {
    this.sink = sink;
    this.started = started;
  }

  /** An hour after whatever came before. */
  static async begin(
    bench: Bench,
    sink: Sink,
    lease: Lease,
    run: string,
    change: Partial<RunPlan>,
  ): Promise<RunInHand> {
    bench.clock.advance(hourMs);
    const plan = bench.plan(run, change);
    await sink.startRun(lease, plan);
    return new RunInHand(sink, { lease, run: plan.run });
  }

  async walk(show: (partition: Partition) => Shown): Promise<void> {
    const { lease } = this.started;
    for (;;) {
      const [next] = await this.sink.nextPartitions(lease, 1);
      if (next === undefined) {
        if ((await this.sink.findLeftovers(lease)) === 0) return;
        continue;
      }
      await this.walkOne(next, show(next));
    }
  }

  async walkOne(partition: Partition, shown: Shown): Promise<void> {
    const { records, children = [], absence = 'nothing', watermark = null } = shown;
    const seal = { proof, watermark, absence: partition.mode === 'full' ? absence : null };
    const change = { entity: partition.entity, children, seal };
    const [committed] = await this.sink.commit(this.started.lease, [
      page(this.started, partition.id, records, change),
    ]);
    for (const { entity, counts } of committed?.counts ?? []) this.#add(entity, counts);
  }

  async sweep(limit = 2): Promise<void> {
    const { lease, run } = this.started;
    for (let round = 0; !(await this.sink.deletes.sweep(lease, run, limit)).isDone; round += 1) {
      expect(round, 'a sweep comes to an end').toBeLessThan(1_000);
    }
  }

  async missing(entity: EntityName): Promise<EntityMissing | undefined> {
    const { lease, run } = this.started;
    return (await this.sink.deletes.missing(lease, run)).find((one) => one.entity === entity);
  }

  /** Everything that needs nothing more, and what lies below it; gives the rows per entity. */
  async tombstone(entities: readonly EntityName[], limit = 2): Promise<Readonly<Record<string, number>>> {
    const { lease, run } = this.started;
    const deleted: Record<string, number> = {};
    for (const entity of entities) {
      for (let rows = -1; rows !== 0;) {
        rows = await this.sink.deletes.tombstone(lease, run, entity, 'all', limit);
        deleted[entity] = (deleted[entity] ?? 0) + rows;
      }
    }
    for (;;) {
      const batch = await this.sink.deletes.tombstoneBelow(lease, run, limit);
      if (batch.length === 0) return deleted;
      for (const { entity, rows } of batch) deleted[entity] = (deleted[entity] ?? 0) + rows;
    }
  }

  count(entity: EntityName, counts: PageCounts): void {
    this.#add(entity, counts);
  }

  async finish(outcome: RunOutcome = 'ok', more: Partial<RunReport> = {}): Promise<void> {
    const entities = [...this.#countsByEntity].map(([entity, counts]) => entityReport(entity, counts));
    await this.sink.finish(
      this.started.lease,
      this.started.run,
      report(this.started, { outcome, entities, ...more }),
    );
  }

  #add(entity: EntityName, counts: PageCounts): void {
    this.#countsByEntity.set(entity, addCounts(this.#countsByEntity.get(entity) ?? noCounts, counts));
  }
}

/** Whole runs after each other over one lease. */
export async function useRuns(bench: Bench, plan: Partial<RunPlan>) {
  const sink = await bench.open();
  const lease = await sink.acquire(identity());
  const begin = async (run: string, change: Partial<RunPlan> = {}): Promise<RunInHand> =>
    RunInHand.begin(bench, sink, lease, run, { ...plan, ...change });
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
