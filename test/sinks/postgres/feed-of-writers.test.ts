import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import type { ConnectorName, RunId } from '../../../src/core/names.ts';
import { openLedger, type PostgresPlace } from '../../../src/sinks/postgres/open-ledger.ts';
import { tableName } from '../../../src/sinks/postgres/records/names.ts';
import { quoted } from '../../../src/sql/quoted.ts';
import type { Tx } from '../../../src/sql/database.ts';
import type { Stamp } from '../../../src/sinks/ledger/record-table.ts';
import { fencedTransact } from '../../../src/sinks/postgres/lease/leases.ts';
import type { Bench } from '../../contracts/sink/fixture.ts';
import { identity, member, members, news, onlyPartition, page } from '../../contracts/sink/fixture.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { isLong, startSeed } from '../../support/trials.ts';
import { benchOfTest } from '../../contracts/sink/use-bench.ts';

/*
 * Readers continue from the highest `_seq` that they have seen, in plain SQL: a lower one that becomes visible later is
 * lost to them.
 */

const writers = [0, 1, 2, 3];
const changes = isLong ? 1_000_000 : 20_000;
const timeoutMs = isLong ? 1_800_000 : 120_000;

async function open(): Promise<{ readonly bench: Bench; readonly place: PostgresPlace }> {
  const bench = benchOfTest(await postgresSinkKind());
  const place = bench.kind.options(bench.folder);
  if (place.type !== 'postgres') throw new TypeError('The kind should be PostgreSQL');
  return { bench, place };
}

/** Asks for what is new as often as it can, until `isOver` and nothing is new. */
async function read(
  sql: string,
  isOver: () => boolean,
  take: (row: Readonly<Record<string, string>>) => void,
): Promise<void> {
  const { url } = await sharedPostgres();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (let last = '0'; ;) {
    const isLast = isOver();
    const { rows } = await client.query<Record<string, string>>(sql, [last]);
    for (const row of rows) take(row);
    last = rows.at(-1)?.['seq'] ?? last;
    if (isLast && rows.length === 0) break;
    await pause(2);
  }
  await client.end();
}

/** Writers side by side know each other's commits. */
class TokensOfAll extends Set<string> {
  override clear(): void {
    // One writer's commit says nothing of those that are under way.
  }
}

/** How many of the changes that several writers of one connector store at a time a reader never sees. */
async function missed(
  insert: (tx: Tx, stamp: Stamp, count: number, at: string) => Promise<unknown>,
): Promise<number> {
  const { bench, place } = await open();
  const opened = await bench.open();
  const { epoch } = await opened.acquire(identity());
  const table = `${quoted(place.schema)}.changes`;
  await bench.ledger('CREATE SEQUENCE plain');
  await bench.ledger('CREATE TABLE changes (seq bigint PRIMARY KEY)');
  const [taken] = await bench.ledger('SELECT last_commit::text AS token FROM _sync_counters');
  const tokens = new TokensOfAll([String(taken?.['token'])]);
  let stored = 0;
  let isOver = false;
  const at = `${quoted(place.schema)}.`;
  const write = async (writer: number): Promise<void> => {
    const ledger = await openLedger(place, { durability: 'full', clock: bench.clock });
    const checkLease = async (): Promise<void> => await Promise.resolve();
    const { server, clock } = ledger;
    const overtaken = (): never => {
      throw new TypeError('No other process takes the connector');
    };
    const transact = fencedTransact({
      server,
      clock,
      connector: news,
      epoch,
      tokens,
      checkLease,
      overtaken,
    });
    const random = seededRandom(startSeed() + writer);
    while (stored < changes) {
      const count = Math.ceil(random() * (changes / 100));
      stored += count;
      await transact('r1' as RunId, async (tx, stamp) => {
        await pause(random() * 10);
        await insert(tx, stamp, count, at);
        await pause(random() * 10);
      });
    }
    await ledger.server[Symbol.asyncDispose]();
  };
  let seen = 0;
  const sql = `SELECT seq::text FROM ${table} WHERE seq > $1 ORDER BY changes.seq`;
  const readers = [0, 1].map(
    async () =>
      await read(
        sql,
        () => isOver,
        () => void (seen += 1),
      ),
  );
  await Promise.all(writers.map(write));
  isOver = true;
  await Promise.all(readers);
  return 2 * stored - seen;
}

// Proves promise 1.1
it(
  'gives changes of several writers numbers that readers meet in their order, where those of a sequence would get lost',
  async () => {
    const ofCounter = await missed(async (tx, stamp, count, at) => {
      const first = await stamp.takeSeqs(count);
      await tx.run(`INSERT INTO ${at}changes SELECT generate_series(:first::bigint, :last::bigint)`, {
        first,
        last: first + count - 1,
      });
    });
    expect(ofCounter).toBe(0);
    const ofSequence = await missed(
      async (tx, _, count, at) =>
        await tx.run(
          `INSERT INTO ${at}changes SELECT nextval('${at}plain') FROM generate_series(1, :count::bigint)`,
          { count },
        ),
    );
    expect(ofSequence).toBeGreaterThan(0);
  },
  timeoutMs,
);

it(
  'feeds a copy of each of four connectors that are written at a time, page by page of any size',
  async () => {
    const { bench, place } = await open();
    let over = 0;
    const write = async (writer: number): Promise<void> => {
      const connector = `news-${writer}` as ConnectorName;
      const sink = await bench.open();
      const lease = await sink.acquire(identity({ connector }));
      const plan = bench.plan(`r${writer}`);
      await sink.startRun(lease, plan);
      const { id } = await onlyPartition(sink, lease);
      const random = seededRandom(startSeed() + writer);
      for (let stored = 0; stored < changes / writers.length;) {
        const count = Math.ceil(random() ** 3 * 1_000);
        stored += count;
        const ids = new Set(Array.from({ length: count }, () => Math.floor(random() * 3_000)));
        const records = [...ids].map((one) => member(String(one), `Ada ${stored}`));
        await sink.commit(lease, [page({ lease, run: plan.run }, id, records)]);
        await pause(random() * 20);
      }
      over += 1;
    };
    const table = (writer: number): string => quoted(tableName(`news-${writer}`, members));
    const follow = async (writer: number): Promise<void> => {
      const copy = new Map<string, string>();
      await read(
        `SELECT _seq::text AS seq, id, name FROM ${quoted(place.schema)}.${table(writer)} WHERE _seq > $1 ORDER BY _seq`,
        () => over === writers.length,
        ({ id = '', name = '' }) => copy.set(id, name),
      );
      const rows = await bench.ledger(`SELECT id, name FROM ${table(writer)}`);
      expect(rows.length).toBeGreaterThan(100);
      expect(copy).toEqual(new Map(rows.map(({ id, name }) => [id, name])));
    };
    const writing = writers.map(write);
    await tablesThere(bench);
    await Promise.all([...writing, ...writers.map(follow)]);
  },
  timeoutMs,
);

async function tablesThere(bench: Bench): Promise<void> {
  const made = async (): Promise<number> => {
    const found = await bench.ledger(
      `SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'news%members'`,
    );
    return found.length;
  };
  while ((await made()) < writers.length) await pause(20);
}
