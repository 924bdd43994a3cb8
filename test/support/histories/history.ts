import { expect } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import { SyncError } from '../../../src/core/errors.ts';
import { addCounts, noCounts, type PageCounts } from '../../../src/core/records.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { Candidate, Judgement } from '../../../src/sinks/deletes.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Partition, Seal } from '../../../src/sinks/partition.ts';
import type { RunOutcome } from '../../../src/sinks/run-report.ts';
import type { CommittedPage, PageCommit, RunPlan, Sink } from '../../../src/sinks/sink.ts';
import {
  dayMs,
  entityReport,
  hourMs,
  identity,
  news,
  page,
  reading,
  record,
  report,
  listsTable,
  blocksTable,
  type Bench,
} from '../../contracts/sink/fixture.ts';
import {
  blocks,
  change,
  lists,
  memberRecord,
  members,
  newWorld,
  opens,
  pick,
  readEntities,
  roots,
  show,
  tables,
  type Random,
  type World,
} from './world.ts';

/** One side of a comparison: a sink, its lease, and what stands for its numbers. */
interface Side {
  readonly bench: Bench;
  sink: Sink;
  lease: Lease;
}

/**
 * One random history on several sinks at once: runs that read a changing world, with kills, failures, guards and repairs. The first sink's
 * answers decide how it goes on, and every answer of the others must be the same, but for numbers of partitions.
 */
export class History {
  readonly #random: Random;
  readonly #sides: readonly Side[];
  readonly #world: World = newWorld();
  readonly #steps: string[] = [];
  #runs = 0;
  #finished: RunId[] = [];

  private constructor(random: Random, sides: readonly Side[]) {
    this.#random = random;
    this.#sides = sides;
  }

  static async begin(random: Random, benches: readonly Bench[]): Promise<History> {
    const sides = await Promise.all(
      benches.map(async (bench) => {
        const sink = await bench.open();
        return { bench, sink, lease: await sink.acquire(identity()) };
      }),
    );
    return new History(random, sides);
  }

  /** What was done, for a failure's message. */
  get steps(): readonly string[] {
    return this.#steps;
  }

  async run(): Promise<void> {
    for (let count = Math.floor(this.#random() * 12); count >= 0; count -= 1)
      change(this.#world, this.#random);
    for (const { bench } of this.#sides)
      bench.clock.advance(hourMs + Math.floor(this.#random() * 3) * dayMs * 0);
    const { run, plan } = this.#plan();
    await this.#same(
      `start ${run} full=${String(plan.isFull)} window=${plan.window}`,
      async ({ sink, lease }) => await sink.startRun(lease, plan),
    );
    const counts = new Map<EntityName, PageCounts>();
    const isKilled = this.#random() < 0.2;
    if (!(await this.#walk(run, counts, isKilled ? Math.floor(this.#random() * 8) : Infinity)))
      return await this.#kill();
    const isWhole = this.#random() < 0.85;
    if (plan.window === '' && isWhole) await this.#sweep(run, counts);
    if (this.#random() < 0.08) return await this.#kill();
    await this.#finish(run, counts, isWhole);
    if (this.#random() < 0.25) await this.#repair();
  }

  #plan(): { readonly run: RunId; readonly plan: RunPlan } {
    const random = this.#random;
    this.#runs += 1;
    const run = `r${String(this.#runs).padStart(3, '0')}` as RunId;
    const isBackfill = random() < 0.12;
    const entities = random() < 0.8 ? readEntities : [lists, members];
    const [{ bench }] = this.#sides as readonly [Side];
    const now = bench.clock.now();
    const plan = bench.plan(run, {
      kind: isBackfill ? 'backfill' : 'sync',
      window: isBackfill ? 'w1' : '',
      backfill: isBackfill ? 'b1' : '',
      isFull: random() < 0.3,
      isBudgeted: random() < 0.2,
      tables: entities.length === 3 ? tables : tables.slice(0, 3),
      entities,
      roots,
      keeps: random() < 0.1 ? [members] : [],
      leaves: [members],
      choices: random() < 0.9 ? '' : 'other',
      reading: new Map(
        entities.map((entity) => [
          entity,
          reading({
            isIncremental: entity === members,
            fullBefore: instant(now - Math.floor(random() * 6) * hourMs),
            mayMove: entity === members && random() < 0.5,
          }),
        ]),
      ),
      keepPartitionsSince: instant(now - (random() < 0.2 ? 4 : 500) * hourMs),
      continueAfter: instant(now - Math.floor(random() * 20) * hourMs),
    });
    return { run, plan };
  }

  /** False: the run is to be killed. */
  async #walk(run: RunId, counts: Map<EntityName, PageCounts>, steps: number): Promise<boolean> {
    const random = this.#random;
    for (let step = 0; step < 400; step += 1) {
      if (step >= steps) return false;
      const limit = 1 + Math.floor(random() * 4);
      const ready = await this.#same(
        'next',
        async ({ sink, lease }) => await sink.nextPartitions(lease, limit),
      );
      if (ready.length === 0) {
        const found = await this.#same(
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
    await this.#same(
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
    const pages = chosen.flatMap((partition) => this.#pages(run, partition));
    const stored = await this.#same(
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
    const again: unknown = await this.#same('commit again', async ({ sink, lease }, translate) => {
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

  /** A walk's next pages: one, or two in one commit. Now and then a record is left out, or shown twice. */
  #pages(run: RunId, partition: Partition): readonly PageCommit[] {
    const random = this.#random;
    const from = typeof partition.position?.['offset'] === 'number' ? partition.position['offset'] : 0;
    const all = show(this.#world, partition).filter(() => random() < 0.96);
    const size = 1 + Math.floor(random() * 6);
    const shown = all.slice(from, from + size);
    if (shown[0] !== undefined && random() < 0.1) (shown as (typeof shown)[number][]).push(shown[0]);
    const isLast = from + size >= all.length;
    const exploded = shown.flatMap((one) => one.exploded);
    const one = page(
      { lease: this.#sides[0]?.lease as Lease, run },
      partition.id,
      shown.map((each) => each.record),
      {
        entity: partition.entity,
        children: shown.flatMap((each) => each.children),
        position: { kind: 'offset', offset: from + size },
        rows: [
          { entity: partition.entity, records: shown.map((each) => each.record) },
          ...(partition.entity === members ? [{ entity: opens, records: exploded }] : []),
        ],
        seal: isLast ? this.#seal(partition, size, shown.length) : null,
        ...(random() < 0.03 ? { followed: { size, records: 1 + Math.floor(random() * size) } } : {}),
        ...(random() < 0.1
          ? { drift: [{ entity: partition.entity, field: 'later', kind: 'undeclared', type: 'integer' }] }
          : {}),
        ...(random() < 0.05
          ? {
              fetched: shown.length + 1,
              refused: [
                {
                  entity: partition.entity,
                  reason: 'key-missing',
                  detail: 'no key \0',
                  record: `{"n":${Math.floor(random() * 3)}}`,
                },
              ],
            }
          : {}),
      },
    );
    return [one];
  }

  #seal(partition: Partition, size: number, records: number): Seal {
    const random = this.#random;
    const [{ bench }] = this.#sides as readonly [Side];
    const isFull = partition.mode === 'full';
    return {
      proof: {
        kind: pick(random, ['single', 'seam', 'keyset'] as const) ?? 'seam',
        isOrdered: random() < 0.9,
      },
      watermark:
        partition.entity === members && random() < 0.8 ? instant(bench.clock.now() - hourMs / 2) : null,
      absence: isFull ? (pick(random, ['nothing', 'nothing', 'get', 'walk', null] as const) ?? null) : null,
      ...(random() < 0.5 ? { lastPage: { size, records } } : {}),
      ...(random() < 0.3 ? { clockDifferences: [1, Math.floor(random() * 100)] } : {}),
    };
  }

  async #sweep(run: RunId, counts: Map<EntityName, PageCounts>): Promise<void> {
    const random = this.#random;
    const limit = 1 + Math.floor(random() * 10);
    const confirmable = random() < 0.7 ? [lists, members] : [];
    await this.#same(
      'suspect parents',
      async ({ sink, lease }) => await sink.deletes.suspectParents(lease, run, confirmable),
    );
    for (let isDone = false, rounds = 0; !isDone; rounds += 1) {
      ({ isDone } = await this.#same(
        'sweep',
        async ({ sink, lease }) => await sink.deletes.sweep(lease, run, limit),
      ));
      expect(rounds, 'a sweep comes to an end').toBeLessThan(2_000);
    }
    const missing = await this.#same(
      'missing',
      async ({ sink, lease }) => await sink.deletes.missing(lease, run),
    );
    for (const { entity } of missing) {
      if (random() < 0.2)
        await this.#same(
          `allow ${entity}`,
          async ({ sink, lease }) => await sink.deletes.allow(lease, run, entity),
        );
      if (random() < 0.8) await this.#judge(run, entity, counts);
    }
    await this.#same('missing', async ({ sink, lease }) => await sink.deletes.missing(lease, run));
    for (const entity of [lists, members, opens, blocks]) {
      const which = pick(random, ['allowed', 'missed-twice', 'all', 'all'] as const) ?? 'all';
      for (let rows = -1; rows !== 0;) {
        rows = await this.#same(
          `tombstone ${entity} ${which}`,
          async ({ sink, lease }) => await sink.deletes.tombstone(lease, run, entity, which, limit),
        );
      }
    }
    for (let rounds = 0; ; rounds += 1) {
      const batch = await this.#same(
        'orphans',
        async ({ sink, lease }) => await sink.deletes.tombstoneOrphans(lease, run, limit),
      );
      if (batch.length === 0) break;
      expect(rounds, 'orphans come to an end').toBeLessThan(2_000);
    }
    await this.#same('ended below', async ({ sink, lease }) => await sink.deletes.endedBelow(lease, run));
  }

  async #judge(run: RunId, entity: EntityName, counts: Map<EntityName, PageCounts>): Promise<void> {
    const random = this.#random;
    const candidates = await this.#same(
      `to confirm ${entity}`,
      async ({ sink, lease }) => await sink.deletes.toConfirm(lease, run, entity, 5),
    );
    if (candidates.length === 0) return;
    const judgements = candidates.map((candidate) =>
      this.#judgement(candidate, random() < 0.7, random() < 0.3),
    );
    const stored = await this.#same(
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
    await this.#same('left', async ({ sink, lease }) => await sink.left(lease));
    await this.#same(
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
      await this.#release();
      await this.#same(`reset ${String(entity)} data=${String(withData)}`, async ({ sink, bench }) => {
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
      await this.#acquire();
      return;
    }
    if (chance < 0.5) {
      await this.#kill();
      return;
    }
    await this.#byHand();
  }

  /** Undeletes, and stores and deletes single records, in a run of its own. */
  async #byHand(): Promise<void> {
    const random = this.#random;
    const of = pick(random, this.#finished) ?? ('none' as RunId);
    const { run, plan } = this.#plan();
    await this.#same(
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
      for (let isDone = false; !isDone;) {
        ({ isDone } = await this.#same(
          `undelete ${of}`,
          async ({ sink, lease }) => await sink.repair.undelete(lease, run, of, 3),
        ));
      }
    } else {
      const [id, what] = pick(random, [...this.#world.members]) ?? [];
      if (id !== undefined && what !== undefined) {
        const stored = await this.#same(
          'store one',
          async ({ sink, lease }) =>
            await sink.repair.storeRecord(lease, run, members, memberRecord(id, what)),
        );
        counts.set(members, stored);
      }
      const list = pick(random, [...this.#world.lists.keys()]);
      if (list !== undefined && random() < 0.3) {
        await this.#same(
          'delete one',
          async ({ sink, lease }) =>
            await sink.repair.tombstoneRecord(lease, run, lists, JSON.stringify([list])),
        );
      }
    }
    await this.#finish(run, counts, true);
  }

  /** The process is gone in the middle of a run, and another one takes the connector. */
  async #kill(): Promise<void> {
    await this.#release();
    await this.#acquire();
  }

  async #release(): Promise<void> {
    for (const { lease } of this.#sides) await lease[Symbol.asyncDispose]();
  }

  async #acquire(): Promise<void> {
    this.#steps.push('take over');
    for (const side of this.#sides) side.lease = await side.sink.acquire(identity());
  }

  /** Does the same on every side; the answers must be equal once numbers of partitions stand for what they are of. */
  async #same<Result>(
    step: string,
    work: (side: Side, translate: (id: number) => number) => Promise<Result>,
  ): Promise<Result> {
    this.#steps.push(step);
    const [first, ...others] = this.#sides as readonly [Side, ...Side[]];
    const before = await partitionNames(first);
    const answer = await settled(async () => await work(first, (id) => id));
    // A step may find partitions and forget others.
    const names = new Map([...before, ...(await partitionNames(first))]);
    for (const other of others) {
      const theirs = await partitionNames(other);
      const idOf = new Map([...theirs].map(([id, name]) => [name, id]));
      const translate = (id: number): number => idOf.get(names.get(id) ?? '') ?? -1;
      const found = await settled(async () => await work(other, translate));
      const after = new Map([...theirs, ...(await partitionNames(other))]);
      const shown = named(found, after);
      expect(shown, `${step} after ${this.#steps.slice(-12).join(', ')}`).toEqual(named(answer, names));
    }
    if (answer.error !== undefined) throw answer.error;
    return answer.value as Result;
  }
}

function addAll(counts: Map<EntityName, PageCounts>, added: CommittedPage['counts']): void {
  for (const one of added) counts.set(one.entity, addCounts(counts.get(one.entity) ?? noCounts, one.counts));
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

async function partitionNames({ bench }: Side): Promise<ReadonlyMap<number, string>> {
  const rows = await bench.ledger('SELECT id, connector, entity, params, backfill FROM _sync_partitions');
  return new Map(rows.map(({ id, ...name }) => [Number(id), JSON.stringify(Object.values(name))]));
}

/** `id` and `tree` of partitions by name. */
function named({ value, error }: Settled, names: ReadonlyMap<number, string>): unknown {
  if (error !== undefined) return { failed: error instanceof Error ? error.message : String(error) };
  return JSON.parse(
    JSON.stringify(value ?? null, (key, one: unknown) =>
      (key === 'id' || key === 'tree') && typeof one === 'number' ? (names.get(one) ?? 'unknown') : one,
    ),
  );
}
