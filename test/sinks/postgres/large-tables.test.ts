import { expect, it, onTestFinished } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { EntityTable } from '../../../src/core/records.ts';
import type { RunId } from '../../../src/core/names.ts';
import { deleteOrphans } from '../../../src/sinks/ledger/deletes/delete-orphans.ts';
import { deleteMissing } from '../../../src/sinks/ledger/deletes/delete-rows.ts';
import { candidates, judgeRows } from '../../../src/sinks/ledger/deletes/ledger-deletes.ts';
import { sweepRows } from '../../../src/sinks/ledger/deletes/sweep-rows.ts';
import type { Commit, HeldConnector } from '../../../src/sinks/ledger/ledger.ts';
import { openLedger } from '../../../src/sinks/postgres/open-ledger.ts';
import { postgresLedger } from '../../../src/sinks/postgres/postgres-sink.ts';
import { findPartitions, meetFound } from '../../../src/sinks/ledger/partitions/find-partitions.ts';
import { moveOn } from '../../../src/sinks/ledger/partitions/end-walk.ts';
import {
  isLeft,
  partitionsById,
  readLeftovers,
} from '../../../src/sinks/ledger/partitions/read-partitions.ts';
import { transitions } from '../../../src/sinks/ledger/partitions/transitions.ts';
import { openRecordTable } from '../../../src/sinks/postgres/records/open-record-table.ts';
import { plannedTable, type PlannedTable } from '../../../src/sinks/ledger/planned-table.ts';
import { openRawRows } from '../../../src/sinks/ledger/raw-rows.ts';
import { openCollisions } from '../../../src/sinks/decisions/meet-record.ts';
import { openSeenRows } from '../../../src/sinks/ledger/seen-rows.ts';
import { readStored, storeRows } from '../../../src/sinks/ledger/store-rows.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  dayMs,
  lists,
  listsTable,
  member,
  members,
  membersTable,
  news,
  opens,
  opensTable,
  partition,
  sealed,
} from '../../contracts/sink/fixture.ts';
import { lookingAt } from '../../support/sinks/looking-at.ts';
import { isLong } from '../../support/trials.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/** A quarter of them each is due, unswept, below a deleted record, idle. */
const partitions = isLong ? 1_000_000 : 40_000;
const atOnce = 500;

/*
 * The planner takes no hint which index to use, and what it chooses depends on what is stored: it must never go
 * through a whole table.
 */

it(
  'reads no more rows than a step is about, however many partitions and rows there are',
  async () => {
    const kind = await postgresSinkKind();
    const bench = benchOfTest(kind);
    const plan = { entities: [lists, members], tables: [listsTable, membersTable, opensTable] };
    await bench.begin(await bench.open(), 'r1', plan);
    await fill(bench);
    const options = kind.options(bench.folder);
    if (options.type !== 'postgres') throw new TypeError('The kind should be PostgreSQL');
    const opened = await openLedger(options, { durability: 'full', clock: bench.clock });
    const ledger = postgresLedger(opened);
    onTestFinished(async () => await ledger[Symbol.asyncDispose]());
    const { server } = opened;
    const tableOf = (table: EntityTable): PlannedTable =>
      plannedTable(openRecordTable({ connector: news, table, stored: table.columns }), table.columns.length);
    const now = instant(bench.clock.now());
    const before = instant(bench.clock.now() - 7 * dayMs);
    const held = { connector: news } as HeldConnector;
    const looks: { readonly step: string; readonly rows: number; readonly sql: string }[] = [];
    const during = async (step: string, work: (commit: Commit) => Promise<unknown>): Promise<void> => {
      const current = {
        ...bench.plan('r1', plan),
        origin: 1,
        chainStartedAt: now,
        isStalestFirst: false,
        reading: new Map(),
        entities: new Set(plan.entities),
        keeps: new Set<never>(),
        tables: new Map([
          [lists, tableOf(listsTable)],
          [members, tableOf(membersTable)],
          [opens, tableOf(opensTable)],
        ]),
        seen: openSeenRows(news, 1),
        raw: openRawRows(news, now),
        collisions: openCollisions(),
        purged: null,
        followed: new Map<string, number>(),
      };
      const stamp = { run: 'r1' as RunId, now, takeSeqs: async () => await Promise.resolve(1_000_000) };
      await server.transact(async (tx) => {
        const looking = lookingAt(tx, ({ sql, rows }) => looks.push({ step, rows, sql }));
        await work({ ledger, held, current, tx: looking.tx, stamp });
        await looking.looked();
      });
    };
    const numbers = Array.from({ length: atOnce }, (_, index) => index + 1);

    await during('store records', async (commit) => {
      const records = numbers.map((number) => ({
        ...member(String(number * 60), 'Ada'),
        raw: 'r'.repeat(16),
      }));
      const shown = [{ entity: members, records, owner: 5, isInsertOnly: false }];
      await storeRows(commit, shown, await readStored(commit, shown));
    });
    await during('find partitions', async ({ tx, current }) => {
      const founds = numbers.map((number) =>
        partition(
          members,
          { of: partitions - 250 + number },
          { parent: { entity: lists, keyText: `["${number}"]` } },
        ),
      );
      const finding = { connector: news, window: '', origin: 2, now, reading: current.reading };
      await findPartitions(tx, await meetFound(tx, founds, finding), finding);
    });
    await during('move on', async (commit) => {
      const due = numbers.map((number) => 4 * number);
      const rows = [...(await partitionsById(commit.tx, news, due)).values()];
      const page = { position: { kind: 'offset' } };
      await moveOn(
        commit,
        rows.map((row, index) => ({
          partition: row,
          page: { ...page, seal: index % 2 === 0 ? sealed : null },
        })),
      );
    });
    await during('leftovers', async ({ tx }) => {
      const after = partitions / 2;
      await readLeftovers(tx, { connector: news, window: '', entity: members, origin: 7, after });
    });
    await during('begin a chain', async ({ tx }) => {
      const scope = { connector: news, window: '', entities: plan.entities };
      await isLeft(tx, { ...scope, origin: 1 });
      await transitions.dropHalfRead(tx, scope);
      const span = { fullBefore: before, believedUntil: now };
      await transitions.age(tx, { connector: news, entity: members, ...span, now });
    });
    await during('sweep', async (commit) => await sweepRows(commit, atOnce));
    await during('empty partitions', async (commit) => await deleteOrphans(commit, atOnce));
    await during('confirm', async (commit) => {
      const asked = await candidates(commit, lists, atOnce);
      await judgeRows(
        commit,
        lists,
        asked.map(({ row }) => ({ row, verdict: 'gone' })),
      );
    });
    await during('delete', async (commit) => await deleteMissing(commit, lists, 'all', atOnce));

    expect(looks.length).toBeGreaterThan(30);
    expect(looks.filter(({ rows }) => rows > 4 * atOnce)).toEqual([]);
  },
  isLong ? 1_800_000 : 120_000,
);

async function fill(bench: Bench): Promise<void> {
  const hash = (text: string): string => `substr(sha256(convert_to(${text}, 'UTF8')), 1, 16)`;
  const params = `'{"of":' || g || '}'`;
  const key = `'["' || g || '"]'`;
  const at = "'2026-01-01T00:00:00.000Z'";
  const numbers = (count: number): string => `FROM generate_series(1, ${count}) AS g`;
  await bench.ledger(
    `INSERT INTO _sync_partitions (connector, entity, params, params_hash, inject, rank, parent_entity, parent_key, parent_hash, origin,
       found_at, due_since, ready, listed, mode, full_at, full_origin, sweep_origin, gone, absence)
     SELECT 'news', 'members', ${params}, ${hash(params)}, '{}', 1, 'lists', ${key}, ${hash(key)}, 1, ${at},
       CASE WHEN g % 4 = 3 THEN ${at} END, CASE WHEN g % 4 = 3 THEN 1 ELSE 0 END, 0, 'full', '2026-03-01T00:00:00.000Z', 1, CASE WHEN g % 4 = 1 THEN 1 END,
       CASE WHEN g % 4 = 2 THEN 1 ELSE 0 END, 'nothing' ${numbers(partitions)}`,
  );
  const marks = '_first_seen_at, _changed_at, _run_id, _seq, _hash, _partition';
  const marked = `${at}::timestamptz, ${at}::timestamptz, 'r0', g, 'h'`;
  const memberKey = `'["a","' || g || '"]'`;
  await bench.ledger(
    `INSERT INTO news__members (_row, _key, list_id, id, ${marks})
     SELECT g, ${hash(memberKey)}, 'a', g::text, ${marked}, 1 + g % ${partitions} ${numbers(partitions * 2)}`,
  );
  await bench.ledger(
    `INSERT INTO news__lists (_row, _key, id, ${marks}) SELECT g, ${hash(key)}, g::text, ${marked}, 4 ${numbers(partitions)}`,
  );
  await bench.ledger(
    `INSERT INTO _sync_also SELECT 'news', 'members', g, 1 + (g * 7) % ${partitions}, 1 ${numbers(partitions)}`,
  );
  await bench.ledger(
    `INSERT INTO _sync_missing (connector, entity, row, partition, origin, missed, since, needs, is_allowed, is_vouched_for)
     SELECT 'news', 'lists', g, 1, 1, 1, ${at}, 'get', 0, 0 ${numbers(partitions / 2)}`,
  );
  await bench.ledger(
    `INSERT INTO _sync_raw SELECT 'news', 'members', g - 1, sha256('x') || decode(repeat('00', 2016), 'hex') ${numbers(partitions / 64)}`,
  );
  await bench.ledger('ANALYZE');
}
