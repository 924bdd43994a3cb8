import { instant } from '../../../src/core/clock.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { Partition, Seal } from '../../../src/sinks/partition.ts';
import type { PageCommit, RunPlan } from '../../../src/sinks/sink.ts';
import { hourMs, page, reading, type Bench, type Started } from '../../contracts/sink/fixture.ts';
import {
  lists,
  members,
  opens,
  pick,
  readEntities,
  roots,
  show,
  tables,
  type Random,
  type World,
} from './world.ts';

export function randomPlan(bench: Bench, run: RunId, random: Random): RunPlan {
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
export function randomPage(started: Started, partition: Partition, { world, random, now }: Now): PageCommit {
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
