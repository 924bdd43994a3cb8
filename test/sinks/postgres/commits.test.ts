import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { RunId } from '../../../src/core/names.ts';
import type { Stamp } from '../../../src/sinks/ledger/driver.ts';
import { fencedTransact, type OwnLease } from '../../../src/sinks/postgres/postgres-sink.ts';
import { openLedger } from '../../../src/sinks/postgres/postgres-schema.ts';
import { type Tx, quoted } from '../../../src/sql/database.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  counts,
  member,
  members,
  membersTable,
  partition,
  record,
  sealed,
  entityReport,
  identity,
  news,
  report,
  resetScope,
} from '../../contracts/sink/fixture.ts';
import { benchOfTest, useBench } from '../../contracts/sink/use-bench.ts';
import type { Passing } from '../../support/postgres-proxy.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { openBehindProxy, PagedRun, postgresOptions, rowsPerPage } from '../../support/sinks/paged-run.ts';
import { isLong, startSeed } from '../../support/trials.ts';

const kind = await postgresSinkKind();

describe('a commit to PostgreSQL', () => {
  const bench = useBench(kind);
  const begin = async () => {
    const walk = await bench().walking();
    await walk.commit([member('1')]);
    return walk;
  };

  /** The next write of the table fails, once: what takes a number of a sequence is not rolled back. */
  async function failOnce(table: string, code: string): Promise<void> {
    await bench().ledger(`CREATE SEQUENCE tries`);
    await bench().ledger(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval(TG_TABLE_SCHEMA || '.tries') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = '${code}'; END IF; RETURN NEW; END $$`);
    await bench().ledger(
      `CREATE TRIGGER watched BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION fail_once()`,
    );
  }

  const written = [
    'news__members',
    '_sync_tables',
    '_sync_counters',
    '_sync_counts',
    '_sync_seen',
    '_sync_drift',
    '_sync_quarantine',
    '_sync_partitions',
  ];

  it.each(written.flatMap((table) => ['40001', '40P01', '55P03'].map((code) => [table, code] as const)))(
    'that another transaction breaks off at %s (%s) runs again from its start, and counts once',
    async (table, code) => {
      const { sink, started, commit } = await begin();
      await failOnce(table, code);
      const committed = await commit([member('1', 'Eve'), member('2'), member('2')], {
        fetched: 4,
        refused: [{ entity: members, reason: 'key-missing', detail: 'no id', record: '{}' }],
        drift: [{ entity: members, field: 'nick', kind: 'undeclared', type: 'string' }],
        children: [partition(members, { n: 1 })],
        seal: sealed,
      });
      expect(await bench().ledger('SELECT last_value FROM tries')).not.toEqual([{ last_value: 1 }]);
      expect(committed).toEqual({
        counts: [
          {
            entity: members,
            counts: counts({ fetched: 4, quarantined: 1, inserted: 1, updated: 1, duplicate: 1 }),
          },
        ],
        newlyDue: 1,
      });
      expect(await bench().rows()).toMatchObject([
        { id: '1', name: 'Eve', _seq: 2 },
        { id: '2', _seq: 3 },
      ]);
      expect(await bench().ledger('SELECT rows, last_row FROM _sync_tables WHERE rows > 0')).toEqual([
        { rows: 2, last_row: 2 },
      ]);
      expect((await sink.nextPartitions(started.lease, 5)).map(({ params }) => params)).toEqual([{ n: 1 }]);
      expect((await sink.drift.known(started.lease.connector, [members])).get(members)?.fields).toEqual(
        new Set(['nick']),
      );
    },
  );

  it('that fails for another reason stores nothing, and the next one is stored', async () => {
    const { commit } = await begin();
    await failOnce('_sync_counts', '23514');
    const failed = { code: 'SINK_FAILED', recovery: 'stop' };
    await expect(commit([member('2')])).rejects.toMatchObject(failed);
    expect(await bench().rows()).toHaveLength(1);
    const committed = await commit([member('2')]);
    expect(committed.counts[0]?.counts).toEqual(counts({ fetched: 1, inserted: 1 }));
  });

  it('of a value that no column can hold breaks off its copy, and the connection stays usable', async () => {
    const { commit } = await begin();
    const unfit = record(membersTable, { list_id: 'a', id: '3', visits: 1.5 });
    const many = Array.from({ length: 3_000 }, (_, index) => member(`m${index}`));
    await expect(commit([...many, unfit])).rejects.toThrow(RangeError);
    const broken = record(membersTable, { list_id: 'a', id: '3', address: '{"city":' });
    const failed = commit([...many, broken]);
    await expect(failed).rejects.toMatchObject({ code: 'SINK_FAILED' });
    expect(await failed.catch((error: unknown) => inspect(error, { depth: 9 }))).not.toContain('city');
    const committed = await commit(many);
    expect(committed.counts[0]?.counts).toEqual(counts({ fetched: 3_000, inserted: 3_000 }));
  });
});

/* Each statement of a commit waits for its table, longer than a lock or a statement may take. */

const tables = [
  '_sync_partitions',
  'news__members',
  '_sync_tables',
  '_sync_seen',
  '_sync_counters',
  '_sync_meta',
  '_sync_counts',
];

/** What every transaction says of a timeout, and a shorter one of as many letters, so that a test need not wait. */
const timeouts = {
  lock: ["'lock_timeout', '10s'", "'lock_timeout', '9ms'"],
  statement: ["'statement_timeout', '120s'", "'statement_timeout', '90ms'"],
  slowStatement: ["'statement_timeout', '120s'", "'statement_timeout', '0.4s'"],
} as const;

/** A sink whose transactions have a shorter timeout while `shorten` says so. */
async function impatient(signal?: AbortSignal) {
  const bench = benchOfTest(kind);
  // The shorter timeout is not for making the sink.
  await (await bench.open())[Symbol.asyncDispose]();
  let short: keyof typeof timeouts | null = null;
  const rule = (): Passing => ({
    fromClient: (bytes) => {
      const [usual, shorter] = short === null ? ['', ''] : timeouts[short];
      const at = short === null ? -1 : bytes.indexOf(usual);
      if (at >= 0) bytes.write(shorter, at);
      return bytes.length;
    },
    fromServer: ({ length }) => length,
  });
  const { sink } = await openBehindProxy(bench, rule, signal);
  return { bench, sink, shorten: (name: keyof typeof timeouts | null) => void (short = name) };
}

/** A run of it that has stored a page. */
async function begun() {
  const { bench, sink, shorten } = await impatient();
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  /** Locks the table for all others; gives what ends that. */
  const lock = async (table: string): Promise<() => Promise<void>> => {
    const { url } = await sharedPostgres();
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { schema } = postgresOptions(bench);
    await client.query(`BEGIN; LOCK TABLE "${schema}".${table} IN ACCESS EXCLUSIVE MODE`);
    return async () => await client.end();
  };
  return { bench, run, shorten, lock };
}

it.each(tables)(
  'runs a commit again that waits too long for a lock of %s, and counts it once',
  async (table) => {
    const { run, shorten, lock } = await begun();
    shorten('lock');
    const unlock = await lock(table);
    let isStored = false;
    const storing = run.store().then(() => (isStored = true));
    await pause(100);
    expect(isStored).toBe(false);
    await unlock();
    await storing;
    shorten(null);
    await run.finish();
  },
);

it.each(tables)(
  'stores nothing of a commit whose statement takes too long at %s, and stores it later',
  async (table) => {
    const { bench, run, shorten, lock } = await begun();
    shorten('statement');
    const unlock = await lock(table);
    await expect(run.store()).rejects.toMatchObject({ code: 'SINK_FAILED', recovery: 'retry' });
    shorten(null);
    await unlock();
    expect(await bench.rows()).toHaveLength(rowsPerPage);
    await run.store();
    await run.finish();
  },
);

describe('long statements', () => {
  /* Statements of a large ledger, here slowed down by triggers, against a timeout that is as much shorter. */

  async function begin(signal?: AbortSignal) {
    const { bench, sink, shorten } = await impatient(signal);
    shorten('slowStatement');
    /** From now on each statement that writes to the table takes so long. */
    const slowDown = async (table: string, seconds = 0.6): Promise<void> => {
      await bench.ledger(`CREATE FUNCTION ${table}_slow() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM pg_catalog.pg_sleep(${seconds}); RETURN NULL; END $$`);
      await bench.ledger(`CREATE TRIGGER slow BEFORE INSERT OR UPDATE OR DELETE ON ${table}
        FOR EACH STATEMENT EXECUTE FUNCTION ${table}_slow()`);
    };
    return { bench, sink, slowDown };
  }

  const everything = resetScope({ withData: false });

  // Proves promise 1.2
  it('begins, sweeps and ends a run whose statements take longer than that', async () => {
    const { bench, sink, slowDown } = await begin();
    const lease = await sink.acquire(identity());
    await slowDown('_sync_runs');
    const { run } = await sink.startRun(lease, bench.plan('r1'));
    await slowDown('_sync_missing');
    await expect(sink.deletes.sweep(lease, run, 10)).resolves.toEqual({ isDone: true });
    const entities = [entityReport(members, {})];
    await sink.finish(lease, run, report({ lease, run }, { entities }));
    expect(await bench.ledger('SELECT state FROM _sync_runs')).toEqual([{ state: 'ok' }]);
  });

  it('resets a connector whose statements take longer than that', async () => {
    const { bench, sink, slowDown } = await begin();
    await bench.ledger(`INSERT INTO _sync_connectors VALUES ('news', 'u', 'c', 'd', 'h', 1, '{}')`);
    await slowDown('_sync_partitions');
    await expect(sink.repair.reset(news, everything)).resolves.toEqual({ partitions: 0, rows: 0 });
  });

  // Proves promise 1.2
  it('cancels in the server what takes that long when the process is to end', async () => {
    const aborting = new AbortController();
    const { bench, sink, slowDown } = await begin(aborting.signal);
    await bench.ledger(`INSERT INTO _sync_connectors VALUES ('news', 'u', 'c', 'd', 'h', 1, '{}')`);
    await slowDown('_sync_windows', 600);
    const sleeping = `FROM pg_catalog.pg_stat_activity WHERE wait_event = 'PgSleep'`;
    const resetting = sink.repair.reset(news, everything);
    const reason = new Error('the process is to end');
    await expect.poll(async () => await bench.count(`(SELECT 1 ${sleeping}) AS one`)).toBe(1);
    aborting.abort(reason);
    await expect(resetting).rejects.toBe(reason);
    expect(await bench.count(`(SELECT 1 ${sleeping}) AS one`)).toBe(0);
  });
});

it('waits twice for the server in a commit of pages: for what is stored, and for the end', async () => {
  const bench = benchOfTest(kind);
  /** How often each connection has spoken after the server had. */
  const turns: number[] = [];
  const { sink } = await openBehindProxy(bench, () => {
    const connection = turns.push(0) - 1;
    let isClients = false;
    return {
      fromClient: ({ length }) => {
        if (!isClients) turns[connection] = (turns[connection] ?? 0) + 1;
        isClients = true;
        return length;
      },
      fromServer: ({ length }) => {
        isClients = false;
        return length;
      },
    };
  });
  const run = await PagedRun.begin(bench, sink);
  await run.store();
  const before = [...turns];
  await run.store();
  expect(Math.max(...turns.map((count, index) => count - (before[index] ?? 0)))).toBe(2);
  await run.finish();
});

/*
 * Readers continue from the highest `_seq` that they have seen, in plain SQL: a lower one that becomes visible later is
 * lost to them.
 */

const writers = [0, 1, 2, 3];
const changes = isLong ? 1_000_000 : 20_000;
const timeoutMs = isLong ? 1_800_000 : 120_000;

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
  const bench = benchOfTest(kind);
  const place = postgresOptions(bench);
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
    const lease: OwnLease = {
      connector: news,
      holder: identity().holder,
      lockName: '',
      epoch,
      lockedIn: null,
      renewedMs: Infinity,
      tokens,
      isOvertaken: false,
      hasLost: false,
      isReleased: false,
    };
    const transact = fencedTransact(ledger, lease, epoch);
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
