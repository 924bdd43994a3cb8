import { expect } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import {
  addCounts,
  noCounts,
  type PageCounts,
  type PreparedRecord,
  type RecordFile,
  type EntityTable,
} from '../../../src/core/records.ts';
import type { Candidate, Judgement } from '../../../src/sinks/deletes.ts';
import type { Partition, Seal, FoundPartition } from '../../../src/sinks/partition.ts';
import type { RunOutcome } from '../../../src/sinks/run-report.ts';
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
  identity,
  page,
  reading,
  type Started,
  blocks,
  lists,
  members,
  opens,
  opensTable,
  partition,
  type LedgerRow,
} from '../../contracts/sink/fixture.ts';
import { SyncError } from '../../../src/core/errors.ts';
import type { Lease } from '../../../src/sinks/lease.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';

/** Members may move from list to list: their key does not name one. */
const movingMembersTable: EntityTable = {
  entity: members,
  columns: [
    { name: 'id', type: 'string' },
    { name: 'list_id', type: 'string' },
    { name: 'name', type: 'string' },
    { name: 'visits', type: 'integer' },
    { name: 'score', type: 'number' },
    { name: 'vip', type: 'boolean' },
    { name: 'tags', type: 'array' },
  ],
  key: ['id'],
};

export const tables: readonly EntityTable[] = [listsTable, movingMembersTable, opensTable, blocksTable];
export const readEntities: readonly EntityName[] = [lists, members, blocks];
export const roots: readonly FoundPartition[] = [partition(lists, {})];

interface Member {
  list: string;
  version: number;
  opens: number;
}

/** What a service holds, as it changes between and during runs. */
export interface World {
  readonly lists: Map<string, { version: number; isHidden: boolean }>;
  readonly members: Map<string, Member>;
  /** By id: the block above, or null for those right below the list. */
  readonly blocks: Map<string, { list: string; parent: string | null; version: number }>;
}

/** What the next process has to know to continue a history. */
export interface SavedHistory {
  readonly world: World;
  readonly runs: number;
  readonly finished: readonly RunId[];
}

export type Random = () => number;

export function pick<One>(random: Random, ones: readonly One[]): One | undefined {
  return ones[Math.floor(random() * ones.length)];
}

export function newWorld(): World {
  return { lists: new Map(), members: new Map(), blocks: new Map() };
}

const ids = ['a', 'b', 'c', 'd', 'é', '\0nul', '\uE000mark', '"quoted"', "o'clock", 'ü'.repeat(40)];

/** One random change: something comes, goes, moves or is another than before. */
export function change(world: World, random: Random): void {
  const id = `${pick(random, ids) ?? ''}${Math.floor(random() * 4)}`;
  const list = pick(random, [...world.lists.keys()]);
  switch (Math.floor(random() * 10)) {
    case 0:
      world.lists.set(id, { version: 0, isHidden: false });
      return;
    case 1:
      if (list !== undefined && random() < 0.4) removeList(world, list);
      return;
    case 2:
      if (list !== undefined) {
        world.lists.set(list, { version: Math.floor(random() * 100), isHidden: random() < 0.1 });
      }
      return;
    case 3:
    case 4:
      if (list !== undefined) world.members.set(id, { list, version: 0, opens: Math.floor(random() * 3) });
      return;
    case 5:
      world.members.delete(pick(random, [...world.members.keys()]) ?? '');
      return;
    case 6:
    case 7: {
      const member = world.members.get(pick(random, [...world.members.keys()]) ?? '');
      if (member !== undefined && random() < 0.4 && list !== undefined) member.list = list;
      else if (member !== undefined) member.version += 1;
      return;
    }
    case 8:
      addBlock(world, `b${id}`, random);
      return;
    default:
      removeBlock(world, pick(random, [...world.blocks.keys()]) ?? '');
  }
}

function removeList(world: World, id: string): void {
  world.lists.delete(id);
  for (const [member, { list }] of world.members) if (list === id) world.members.delete(member);
  for (const [block, { list }] of world.blocks) if (list === id) world.blocks.delete(block);
}

function addBlock(world: World, id: string, random: Random): void {
  const above = pick(random, [...world.blocks]);
  const list = pick(random, [...world.lists.keys()]);
  if (random() < 0.5 && above !== undefined && above[0] !== id) {
    if (!world.blocks.has(id)) world.blocks.set(id, { list: above[1].list, parent: above[0], version: 0 });
  } else if (list !== undefined && !world.blocks.has(id)) {
    world.blocks.set(id, { list, parent: null, version: 0 });
  }
}

function removeBlock(world: World, id: string): void {
  world.blocks.delete(id);
  for (const [below, { parent }] of world.blocks) if (parent === id) removeBlock(world, below);
}

export interface Shown {
  readonly record: PreparedRecord;
  readonly exploded: readonly PreparedRecord[];
  readonly children: readonly FoundPartition[];
}

export function memberRecord(id: string, { list, version, opens: count }: Member): PreparedRecord {
  const file: RecordFile | null =
    version % 3 === 0
      ? null
      : {
          params: { id },
          version: String(version).padStart(32, '0'),
          name: `${id}.txt`,
          contentType: 'text/plain',
          size: count,
        };
  return record(
    movingMembersTable,
    {
      id,
      list_id: list,
      name: `${id} ${version}`,
      visits: version % 5 === 4 ? 9_007_199_254_740_993n : version,
      score: version / 3,
      vip: version % 2,
      tags: JSON.stringify([id, '\u0000', version]),
    },
    {
      file,
      ...(version % 4 === 3 ? { extra: JSON.stringify({ later: version, wide: `w\u0000${id}` }) } : {}),
    },
  );
}

/** What a partition shows now. */
export function show(
  world: World,
  { entity, params, id, tree }: Pick<Partition, 'entity' | 'params' | 'id' | 'tree'>,
): readonly Shown[] {
  if (entity === lists) return [...world.lists].filter(([, { isHidden }]) => !isHidden).map(showList);
  const list = params['list_id'];
  if (entity === members) {
    return [...world.members]
      .filter(([, member]) => member.list === list)
      .map(([member, what]) => ({
        record: memberRecord(member, what),
        exploded: Array.from({ length: what.opens }, (_, index) =>
          record(opensTable, { id: member, at: `t${index}` }),
        ),
        children: [],
      }));
  }
  return [...world.blocks]
    .filter(([, block]) =>
      typeof list === 'string'
        ? block.list === list && block.parent === null
        : block.parent === params['block_id'],
    )
    .map(([block, { version }]) => ({
      record: record(blocksTable, { id: block, text: `${block} ${version}` }),
      exploded: [],
      children: [partition(blocks, { block_id: block }, { rank: 3, tree: tree ?? id, treeDepth: 1 })],
    }));
}

function showList([list, { version }]: readonly [string, { readonly version: number }]): Shown {
  const parent = { entity: lists, keyText: JSON.stringify([list]) };
  const marker = { value: `m${version}`, isSettled: version % 3 !== 0 };
  return {
    record: record(listsTable, { id: list }),
    exploded: [],
    children: [
      partition(members, { list_id: list }, { rank: 1, parent, marker }),
      partition(blocks, { list_id: list }, { rank: 2, treeDepth: 0, parent }),
    ],
  };
}

export { blocks, lists, members, opens };

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
    // What is found and deleted does not depend on it.
    const limitOf = ({ deletes }: Sink): number => (deletes.batchRows > 1_000 ? 11 - limit : limit);
    const confirmable = random() < 0.7 ? [lists, members] : [];
    await this.#sides.same(
      'suspect parents',
      async ({ sink, lease }) => await sink.deletes.suspectParents(lease, run, confirmable),
    );
    // How many steps a call takes is a sink's own affair.
    await this.#sides.same('sweep', async ({ sink, lease }) => {
      await untilDone(async () => (await sink.deletes.sweep(lease, run, limitOf(sink))).isDone);
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
          const rows = await sink.deletes.tombstone(lease, run, entity, which, limitOf(sink));
          sum += rows;
          return rows === 0;
        });
        return sum;
      });
    }
    await this.#sides.same('orphans', async ({ sink, lease }) => {
      const sums = new Map<EntityName, number>();
      await untilDone(async () => {
        const batch = await sink.deletes.tombstoneBelow(lease, run, limitOf(sink));
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
    return { row, verdict: 'there', record: hasRecord ? found : null, isUnlisted, isRefused: false };
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
          const place: Parameters<Sink['repair']['undo']>[3] = { entity, after, limit: 3 };
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

/** A sink, and the lease on its connector. */
interface Side {
  readonly bench: Bench;
  readonly sink: Sink;
  lease: Lease;
  /** Of its partitions, after the last step. */
  names: ReadonlyMap<number, string>;
}

/** Several sinks that get the same calls. The first one's answers count; those of the others must be the same. */
class SideBySide {
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

function randomPlan(bench: Bench, run: RunId, random: Random): RunPlan {
  const now = bench.clock.now();
  const isBackfill = random() < 0.12;
  const entities = random() < 0.8 ? readEntities : [lists, members];
  const readings = entities.map((entity) => {
    const fullBefore = instant(now - Math.floor(random() * 6) * hourMs);
    const mayMove = entity === members && random() < 0.5;
    return [entity, reading({ isIncremental: entity === members, fullBefore, mayMove })] as const;
  });
  return bench.plan(run, {
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
    reading: new Map(readings),
    keepPartitionsSince: instant(now - (random() < 0.2 ? 4 : 500) * hourMs),
    continueAfter: instant(now - Math.floor(random() * 20) * hourMs),
  });
}

interface Now {
  readonly world: World;
  readonly random: Random;
  /** Milliseconds. */
  readonly now: number;
}

/** A walk's next page. Now and then a record is left out, or shown twice, or cannot be stored. */
function randomPage(started: Started, partition: Partition, { world, random, now }: Now): PageCommit {
  const { entity, position } = partition;
  const from = typeof position?.['offset'] === 'number' ? position['offset'] : 0;
  const all = show(world, partition).filter(() => random() < 0.96);
  const size = 1 + Math.floor(random() * 6);
  const shown = all.slice(from, from + size);
  const [first] = shown;
  if (first !== undefined && random() < 0.1) shown.push(first);
  const isLast = from + size >= all.length;
  const records = shown.map((each) => each.record);
  const exploded = { entity: opens, records: shown.flatMap((one) => one.exploded) };
  const broken = {
    entity,
    reason: 'key-missing',
    detail: 'no key \0',
    record: `{"n":${Math.floor(random() * 3)}}`,
  } as const;
  const drift = { entity, field: 'later', kind: 'undeclared', type: 'integer' } as const;
  return page(started, partition.id, records, {
    entity,
    children: shown.flatMap((each) => each.children),
    position: { kind: 'offset', offset: from + size },
    rows: [{ entity, records }, ...(entity === members ? [exploded] : [])],
    seal: isLast ? randomSeal(partition, { size, records: shown.length }, random, now) : null,
    ...(random() < 0.03 ? { followed: { size, records: 1 + Math.floor(random() * size) } } : {}),
    ...(random() < 0.1 ? { drift: [drift] } : {}),
    ...(random() < 0.05 ? { fetched: shown.length + 1, refused: [broken] } : {}),
  });
}

function randomSeal(
  { entity, mode }: Partition,
  lastPage: { readonly size: number; readonly records: number },
  random: Random,
  now: number,
): Seal {
  return {
    proof: { kind: pick(random, ['single', 'seam', 'keyset'] as const) ?? 'seam', isOrdered: random() < 0.9 },
    watermark: entity === members && random() < 0.8 ? instant(now - hourMs / 2) : null,
    absence:
      mode === 'full' ? (pick(random, ['nothing', 'nothing', 'get', 'walk', null] as const) ?? null) : null,
    ...(random() < 0.5 ? { lastPage } : {}),
    ...(random() < 0.3 ? { clockDifferences: [1, Math.floor(random() * 100)] } : {}),
  };
}

const partitionColumns = `entity, params, backfill, base, inject, rank, tree, tree_depth, parent_entity, parent_key, origin, found_at, due_since,
  ready, listed, mode, position, midway, watermark, marker, found_marker, sealed_at, sealed_run, sealed_scope, proof, absence, full_at,
  full_origin, sweep_origin, swept_to, gone, set_aside_run, failure, failed_at`;

/** Ledger tables and the columns of them that mean the same in every sink. */
const ledgerTables: Readonly<Record<string, string>> = {
  _sync_also: 'entity, row, partition, origin',
  _sync_missing:
    'entity, row, partition, origin, missed, since, needs, is_allowed, asked_run, asked_at, is_vouched_for, gone_run',
  _sync_tables:
    'entity, key, stored, declared, rows, as_of, taken_over, deleted, evolved, adopted_at, first_origin',
  _sync_runs:
    'run, number, origin, scope, continues, can_continue, state, started_at, finished_at, report, kind, chain, is_full',
  _sync_counts: 'run, entity, fetched, filtered, quarantined, inserted, updated, duplicate, unchanged',
  _sync_hours: 'entity, hour, added, deleted',
  _sync_masks: 'entity, mask, key_id, since, read_at',
  _sync_conditions: 'kind, subject, since, detail',
  _sync_drift: 'entity, field, kind, type, first_seen_at, first_run, is_refused',
  _sync_windows: 'backfill, run, finished_at',
  _sync_quarantine: 'entity, content_hash, reason, detail, record, first_seen_at, last_seen_at, last_run',
  _sync_downloads:
    'entity, key, params, version, name, content_type, size, gone, is_wanted, stored_version, failure',
};

/** They hold numbers of runs, which a sink may give again after a reset of the connector, or not. */
const runNumbers = ['number', 'origin', 'full_origin', 'sweep_origin', 'taken_over', 'first_origin'];

const ofNews = `WHERE connector = '${news}'`;

/** All that a sink stores of the connector of histories, with partitions and runs by name, in an order of its own. */
export async function storedState(bench: Bench): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const partitions = await bench.ledger(`SELECT id, ${partitionColumns} FROM _sync_partitions ${ofNews}`);
  const names = new Map(
    partitions.map(({ id, entity, params, backfill }) => [id, JSON.stringify([entity, params, backfill])]),
  );
  const nameOf = (id: unknown): unknown => (id === null ? null : (names.get(id) ?? 'forgotten'));
  const runs = new Map<unknown, unknown>([
    [0, 0],
    [null, null],
    ...(await bench.ledger(`SELECT number, run FROM _sync_runs ${ofNews}`)).map(
      ({ number, run }) => [number, run] as const,
    ),
  ]);
  const byRun = (row: LedgerRow): LedgerRow =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        runNumbers.includes(name) ? ((runs.get(value) ?? 'forgotten') as LedgerRow[string]) : value,
      ]),
    );
  const state: Record<string, readonly unknown[]> = {
    _sync_partitions: ordered(
      partitions.map(({ id: _id, ...row }) => ({
        ...byRun(row),
        base: nameOf(row['base']),
        tree: nameOf(row['tree']),
      })),
    ),
  };
  for (const [table, columns] of Object.entries(ledgerTables)) {
    const rows = await bench.ledger(
      `SELECT ${columns} FROM ${table} ${table === '_sync_counts' ? `WHERE run IN (SELECT run FROM _sync_runs ${ofNews})` : ofNews}`,
    );
    state[table] = ordered(
      rows
        .map(byRun)
        .map((row) => ('partition' in row ? { ...row, partition: nameOf(row['partition']) } : row)),
    );
  }
  const declared = new Set((state['_sync_tables'] as readonly LedgerRow[]).map(({ entity }) => entity));
  for (const { entity, columns } of tables) {
    if (!declared.has(entity)) continue;
    // As text: a number of JavaScript would round the long ones.
    const names = columns
      .map(({ name, type }) => (type === 'integer' ? `CAST("${name}" AS TEXT) AS "${name}"` : `"${name}"`))
      .join(', ');
    const rows = await bench.ledger(
      `SELECT _row, ${names}, _extra, _first_seen_at, _changed_at, _run_id, _hash, _deleted_at, _partition FROM news__${entity}`,
    );
    state[entity] = ordered(rows.map((row) => plain({ ...row, _partition: nameOf(row['_partition']) })));
  }
  return state;
}

/** SQLite keeps booleans as 0 and 1, and JSON as text. */
function plain(row: LedgerRow): LedgerRow {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (typeof value === 'boolean') return [name, Number(value)];
      if (typeof value === 'bigint') return [name, String(value)];
      return [
        name,
        (name === 'tags' || name === '_extra') && typeof value === 'object' && value !== null
          ? JSON.stringify(value)
          : value,
      ];
    }),
  );
}

function ordered(rows: readonly LedgerRow[]): readonly LedgerRow[] {
  return rows.toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1));
}
