import type { PreparedRecord, RecordFile, EntityTable } from '../../../src/core/records.ts';
import type { EntityName, RunId } from '../../../src/core/names.ts';
import type { FoundPartition, Partition } from '../../../src/sinks/partition.ts';
import {
  blocks,
  blocksTable,
  lists,
  listsTable,
  members,
  opens,
  opensTable,
  partition,
  record,
} from '../../contracts/sink/fixture.ts';

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
      volatileHash: String(count).padStart(32, '0'),
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
