import { expect } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import { addCounts, noCounts, type PageCounts } from '../../../src/core/records.ts';
import type { Candidate, Judgement } from '../../../src/sinks/deletes.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { RunOutcome } from '../../../src/sinks/run-report.ts';
import type { UndonePlace } from '../../../src/sinks/repair.ts';
import type { CommittedPage, PageCommit, RunPlan } from '../../../src/sinks/sink.ts';
import {
  blocksTable,
  entityReport,
  hourMs,
  listsTable,
  news,
  record,
  report,
  type Bench,
} from '../../contracts/sink/fixture.ts';
import { randomPage, randomPlan } from './random-work.ts';
import { SideBySide } from './side-by-side.ts';
import {
  blocks,
  change,
  lists,
  memberRecord,
  members,
  newWorld,
  opens,
  pick,
  tables,
  type Random,
  type SavedHistory,
  type World,
} from './world.ts';

/**
 * One random history on several sinks at once: runs that read a changing world, with kills, failures, guards and
 * repairs. The first sink's answers decide how it continues, and every answer of the others must be the same, but for
 * numbers of partitions.
 */
export class History {
  readonly #random: Random;
  #sides: SideBySide;
  readonly #world: World;
  #runs: number;
  readonly #finished: RunId[];

  private constructor(random: Random, sides: SideBySide, { world, runs, finished }: SavedHistory) {
    this.#random = random;
    this.#sides = sides;
    this.#world = world;
    this.#runs = runs;
    this.#finished = [...finished];
  }

  static async begin(random: Random, benches: readonly Bench[]): Promise<History> {
    return await History.resume(random, benches, { world: newWorld(), runs: 0, finished: [] });
  }

  /** Continues with sinks that were closed where `saved` was taken. */
  static async resume(random: Random, benches: readonly Bench[], saved: SavedHistory): Promise<History> {
    return new History(random, await SideBySide.open(benches), saved);
  }

  /** What the next process has to know to continue. */
  saved(): SavedHistory {
    return { world: this.#world, runs: this.#runs, finished: this.#finished };
  }

  /** What was done, for a failure's message. */
  get steps(): readonly string[] {
    return this.#sides.steps;
  }

  /** Gives the connector back, in the middle of whatever a run has left. */
  async release(): Promise<void> {
    await this.#sides.release();
  }

  /** From now on on these sinks, which hold the same. */
  async goOnWith(benches: readonly Bench[]): Promise<void> {
    this.#sides = await SideBySide.open(benches, this.#sides.steps);
  }

  async run(): Promise<void> {
    for (let count = Math.floor(this.#random() * 12); count >= 0; count -= 1) {
      change(this.#world, this.#random);
    }
    this.#sides.advance(hourMs);
    const { run, plan } = this.#plan();
    await this.#sides.same(
      `start ${run} full=${String(plan.isFull)} window=${plan.window}`,
      async ({ sink, lease }) => await sink.startRun(lease, plan),
    );
    const counts = new Map<EntityName, PageCounts>();
    const isKilled = this.#random() < 0.2;
    if (!(await this.#walk(run, counts, isKilled ? Math.floor(this.#random() * 8) : Infinity))) {
      return await this.#sides.takeOver();
    }
    const isWhole = this.#random() < 0.85;
    if (plan.window === '' && isWhole) await this.#sweep(run, counts);
    if (this.#random() < 0.08) return await this.#sides.takeOver();
    await this.#finish(run, counts, isWhole);
    if (this.#random() < 0.25) await this.#repair();
  }

  #plan(): { readonly run: RunId; readonly plan: RunPlan } {
    this.#runs += 1;
    const run = `r${String(this.#runs).padStart(3, '0')}` as RunId;
    const { bench } = this.#sides.first;
    return { run, plan: randomPlan(bench, run, this.#random) };
  }

  /** False: the run is to be killed. */
  async #walk(run: RunId, counts: Map<EntityName, PageCounts>, steps: number): Promise<boolean> {
    const random = this.#random;
    for (let step = 0; step < 400; step += 1) {
      if (step >= steps) return false;
      const limit = 1 + Math.floor(random() * 4);
      const ready = await this.#sides.same(
        'next',
        async ({ sink, lease }) => await sink.nextPartitions(lease, limit),
      );
      if (ready.length === 0) {
        const found = await this.#sides.same(
          'leftovers',
          async ({ sink, lease }) => await sink.findLeftovers(lease),
        );
        if (found === 0) return true;
        continue;
      }
      const chosen = ready.filter(() => random() < 0.8);
      if (chosen.length === 0) continue;
      if (random() < 0.08) await this.#setAside(run, chosen[0] as Partition);
      else await this.#commit(run, chosen, counts);
      if (random() < 0.05) change(this.#world, random);
    }
    return true;
  }

  async #setAside(run: RunId, { id }: Partition): Promise<void> {
    const random = this.#random;
    const why = {
      code: random() < 0.4 ? ('NOT_FOUND' as const) : ('UPSTREAM' as const),
      recovery: 'retry' as const,
      message: 'it did not work \0',
      dropPosition: random() < 0.3,
      dropWatermark: random() < 0.2,
    };
    await this.#sides.same(
      'set aside',
      async ({ sink, lease, bench }, translate) =>
        await sink.setAside(
          lease,
          { partition: translate(id), run },
          { ...why, at: instant(bench.clock.now()) },
        ),
    );
  }

  async #commit(
    run: RunId,
    chosen: readonly Partition[],
    counts: Map<EntityName, PageCounts>,
  ): Promise<void> {
    const random = this.#random;
    const { bench, lease: own } = this.#sides.first;
    const now = bench.clock.now();
    const pages = chosen.map((partition) =>
      randomPage({ lease: own, run }, partition, { world: this.#world, random, now }),
    );
    const stored = await this.#sides.same(
      `commit ${pages.length} pages`,
      async ({ sink, lease }, translate) =>
        await sink.commit(
          lease,
          pages.map((one) => ({
            ...one,
            walk: { ...one.walk, partition: translate(one.walk.partition) },
            children: one.children.map((child) => ({
              ...child,
              tree: child.tree === null ? null : translate(child.tree),
            })),
          })),
        ),
    );
    for (const { counts: ofPage } of stored) addAll(counts, ofPage);
    if (random() < 0.03) await this.#commitAgain(pages.slice(0, 1), counts);
  }

  /** A page whose answer was lost: the engine asks for it again. Its listing may be done and forgotten by then. */
  async #commitAgain(pages: readonly PageCommit[], counts: Map<EntityName, PageCounts>): Promise<void> {
    const again: unknown = await this.#sides.same('commit again', async ({ sink, lease }, translate) => {
      const repeated = pages.map((one) => ({
        ...one,
        children: [],
        walk: { ...one.walk, partition: translate(one.walk.partition) },
      }));
      return await sink.commit(lease, repeated);
    });
    if (!Array.isArray(again)) return;
    for (const { counts: ofPage } of again as readonly CommittedPage[]) addAll(counts, ofPage);
  }

  async #sweep(run: RunId, counts: Map<EntityName, PageCounts>): Promise<void> {
    const random = this.#random;
    const limit = 1 + Math.floor(random() * 10);
    const confirmable = random() < 0.7 ? [lists, members] : [];
    await this.#sides.same(
      'suspect parents',
      async ({ sink, lease }) => await sink.deletes.suspectParents(lease, run, confirmable),
    );
    // How many steps a call takes is a sink's own affair.
    await this.#sides.same('sweep', async ({ sink, lease }) => {
      await untilDone(async () => (await sink.deletes.sweep(lease, run, limit)).isDone);
    });
    const missing = await this.#sides.same(
      'missing',
      async ({ sink, lease }) => await sink.deletes.missing(lease, run),
    );
    for (const { entity } of missing) {
      if (random() < 0.2) {
        await this.#sides.same(
          `allow ${entity}`,
          async ({ sink, lease }) => await sink.deletes.allow(lease, run, entity),
        );
      }
      if (random() < 0.8) await this.#judge(run, entity, counts);
    }
    await this.#sides.same('missing', async ({ sink, lease }) => await sink.deletes.missing(lease, run));
    for (const entity of [lists, members, opens, blocks]) {
      const which = pick(random, ['allowed', 'missed-twice', 'all', 'all'] as const) ?? 'all';
      await this.#sides.same(`tombstone ${entity} ${which}`, async ({ sink, lease }) => {
        let sum = 0;
        await untilDone(async () => {
          const rows = await sink.deletes.tombstone(lease, run, entity, which, limit);
          sum += rows;
          return rows === 0;
        });
        return sum;
      });
    }
    await this.#sides.same('orphans', async ({ sink, lease }) => {
      const sums = new Map<EntityName, number>();
      await untilDone(async () => {
        const batch = await sink.deletes.tombstoneBelow(lease, run, limit);
        for (const { entity, rows } of batch) sums.set(entity, (sums.get(entity) ?? 0) + rows);
        return batch.length === 0;
      });
      return Object.fromEntries([...sums].filter(([, rows]) => rows > 0));
    });
    await this.#sides.same(
      'ended below',
      async ({ sink, lease }) => await sink.deletes.endedBelow(lease, run),
    );
  }

  async #judge(run: RunId, entity: EntityName, counts: Map<EntityName, PageCounts>): Promise<void> {
    const random = this.#random;
    const candidates = await this.#sides.same(
      `to confirm ${entity}`,
      async ({ sink, lease }) => await sink.deletes.toConfirm(lease, run, entity, 5),
    );
    if (candidates.length === 0) return;
    const judgements = candidates.map((candidate) =>
      this.#judgement(candidate, random() < 0.7, random() < 0.3),
    );
    const stored = await this.#sides.same(
      `judge ${entity}`,
      async ({ sink, lease }) => await sink.deletes.judge(lease, run, entity, judgements),
    );
    counts.set(entity, addCounts(counts.get(entity) ?? noCounts, stored));
  }

  #judgement({ entity, row, keyText }: Candidate, hasRecord: boolean, isUnlisted: boolean): Judgement {
    const [id = ''] = JSON.parse(keyText) as readonly string[];
    const { lists: ofLists, members: ofMembers, blocks: ofBlocks } = this.#world;
    const member = ofMembers.get(id);
    const isThere =
      entity === lists ? ofLists.has(id) : entity === members ? member !== undefined : ofBlocks.has(id);
    if (!isThere) return { row, verdict: 'gone' };
    const found =
      member !== undefined && entity === members
        ? memberRecord(id, member)
        : record(entity === lists ? listsTable : blocksTable, { id });
    return { row, verdict: 'there', record: hasRecord ? found : null, isUnlisted };
  }

  async #finish(run: RunId, counts: ReadonlyMap<EntityName, PageCounts>, isWhole: boolean): Promise<void> {
    const random = this.#random;
    const outcome: RunOutcome = isWhole
      ? (pick(random, ['ok', 'ok', 'ok', 'degraded', 'partial', 'failed'] as const) ?? 'ok')
      : 'partial';
    const isWrong = random() < 0.03;
    const entities = [...counts].map(([entity, one]) => {
      const wrong = isWrong ? { fetched: one.fetched + 1 } : {};
      return { ...entityReport(entity, { ...one, ...wrong }), isWhole: random() < 0.9 };
    });
    await this.#sides.same('left', async ({ sink, lease }) => await sink.left(lease));
    await this.#sides.same(
      `finish ${outcome}`,
      async ({ sink, lease, bench }) =>
        await sink.finish(
          lease,
          run,
          report(
            { lease, run },
            {
              outcome,
              entities,
              finishedAt: instant(bench.clock.now()),
              resumeAt: outcome === 'partial' && isWrong ? instant(bench.clock.now() + hourMs) : null,
            },
          ),
        ),
    );
    this.#finished.push(run);
  }

  async #repair(): Promise<void> {
    const random = this.#random;
    const chance = random();
    if (chance < 0.3) {
      const entity = pick(random, [null, lists, members, blocks]) ?? null;
      const withData = random() < 0.4;
      await this.#sides.release();
      await this.#sides.same(`reset ${String(entity)} data=${String(withData)}`, async ({ sink, bench }) => {
        const own = tables.filter(
          (table) => table.entity === entity || (entity === members && table.entity === opens),
        );
        return await sink.repair.reset(news, {
          entity,
          tables: entity === null ? [] : own,
          withData,
          now: instant(bench.clock.now()),
        });
      });
      await this.#sides.acquire();
      return;
    }
    if (chance < 0.5) {
      await this.#sides.takeOver();
      return;
    }
    await this.#byHand();
  }

  /** Undoes runs, and stores and deletes single records, in a run of its own. */
  async #byHand(): Promise<void> {
    const random = this.#random;
    const of = pick(random, this.#finished) ?? ('none' as RunId);
    const { run, plan } = this.#plan();
    await this.#sides.same(
      `start ${run} by hand`,
      async ({ sink, lease }) =>
        await sink.startRun(lease, {
          ...plan,
          kind: 'refetch',
          window: `hand ${run}`,
          backfill: '',
          roots: [],
        }),
    );
    const counts = new Map<EntityName, PageCounts>();
    if (random() < 0.5) {
      for (const { entity } of plan.tables) {
        for (let after: number | null = 0; after !== null;) {
          const place: UndonePlace = { entity, after, limit: 3 };
          const undone = await this.#sides.same(
            `undo ${of} ${entity}`,
            async ({ sink, lease }) => await sink.repair.undo(lease, run, of, place),
          );
          after = undone.next;
        }
      }
    } else {
      const [id, what] = pick(random, [...this.#world.members]) ?? [];
      if (id !== undefined && what !== undefined) {
        const stored = await this.#sides.same(
          'store one',
          async ({ sink, lease }) =>
            await sink.repair.storeRecord(lease, run, members, memberRecord(id, what)),
        );
        counts.set(members, stored);
      }
      const list = pick(random, [...this.#world.lists.keys()]);
      if (list !== undefined && random() < 0.3) {
        await this.#sides.same(
          'delete one',
          async ({ sink, lease }) =>
            await sink.repair.tombstoneRecord(lease, run, lists, JSON.stringify([list])),
        );
      }
    }
    await this.#finish(run, counts, true);
  }
}

async function untilDone(step: () => Promise<boolean>): Promise<void> {
  for (let rounds = 0; !(await step()); rounds += 1) expect(rounds, 'it comes to an end').toBeLessThan(2_000);
}

function addAll(counts: Map<EntityName, PageCounts>, added: CommittedPage['counts']): void {
  for (const one of added) counts.set(one.entity, addCounts(counts.get(one.entity) ?? noCounts, one.counts));
}
