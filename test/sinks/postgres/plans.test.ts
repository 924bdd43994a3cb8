import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Partition } from '../../../src/sinks/partition.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  identity,
  lists,
  listsTable,
  member,
  members,
  membersTable,
  partition,
  record,
  rootOf,
} from '../../contracts/sink/fixture.ts';
import { RunInHand, param, type Shown } from '../../contracts/sink/run-in-hand.ts';
import { isLong } from '../../support/trials.ts';

const kind = await postgresSinkKind();
const listCount = 150;
const membersOfList = 5;
const plan = { tables: [listsTable, membersTable], entities: [lists, members], roots: [rootOf(lists)] };

/** What is read of a table or an index, as the server counts it. */
interface Reads {
  readonly name: string;
  readonly rows: number;
}

/**
 * Lists but for the first `gone` ones, each with members whose names change with every run; of those too the first ones
 * are missing.
 */
function showing(run: string, gone: number): (one: Partition) => Shown {
  const ids = Array.from({ length: listCount }, (_, index) => `l${index}`).slice(gone);
  return (one) => {
    const list = param(one, 'list_id');
    if (one.entity !== lists) {
      const some = Array.from({ length: membersOfList }, (_, index) => member(`${list}-${index}`, run));
      return { records: some.slice(gone) };
    }
    return {
      records: ids.map((id) => record(listsTable, { id })),
      children: ids.map((id) => {
        const parent = { entity: lists, keyText: JSON.stringify([id]) };
        return partition(members, { list_id: id }, { rank: 1, parent });
      }),
    };
  };
}

describe('what a run reads of PostgreSQL', () => {
  let bench: Bench;

  beforeEach(() => {
    bench = new Bench(kind);
  });

  afterEach(async () => {
    await bench.close();
  });

  const reads = async (): Promise<readonly Reads[]> =>
    (await bench.ledger(`SELECT relname AS name, seq_tup_read AS rows FROM pg_stat_user_tables WHERE schemaname = current_schema()
      UNION ALL SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = current_schema()`)) as unknown as readonly Reads[];

  /**
   * A run of its own process, as it were: the server counts what a connection has read when that is closed at the
   * latest.
   */
  async function run(name: string, gone: number): Promise<void> {
    const sink = await bench.open();
    const lease = await sink.acquire(identity());
    const hand = await RunInHand.begin(bench, { sink, lease }, name, plan);
    await hand.walk(showing(name, gone));
    await hand.sweep(100);
    await hand.missing(members);
    await hand.tombstone([lists, members], 100);
    await hand.finish();
    await lease[Symbol.asyncDispose]();
    await bench.closeSinks();
  }

  const times = [
    ['with statistics of a time when nothing was due', 'VACUUM ANALYZE'],
    ['without statistics', 'SELECT 1'],
  ] as const;

  it.each(times.slice(0, isLong ? 2 : 1))(
    'is of no table and no index more than a few times what is stored, %s',
    async (_, between) => {
      await run('r1', 0);
      await bench.ledger(between);
      await run('r2', 0);
      await run('r3', 1);
      const stored = listCount * (membersOfList + 1);
      // A statement for each page that looked through all partitions of the connector would read 22,500 in the first
      // run alone.
      expect((await reads()).filter(({ rows }) => rows > 12 * stored)).toEqual([]);
    },
  );
});
