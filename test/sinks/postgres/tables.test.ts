import { describe, expect, it, afterAll, beforeAll } from 'vitest';
import { isConnectorName, isDeclaredName, maxNameLength } from '../../../src/core/names.ts';
import type { Column, EntityTable, FieldType } from '../../../src/core/records.ts';
import { openPostgresTarget } from '../../../src/publish/postgres-target.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import { tableName } from '../../../src/sinks/postgres/column-types.ts';
import { indexSuffixes } from '../../../src/sinks/records/own-names.ts';
import { openHistory, openExistingRecords, openSink } from '../../../src/sinks/registry.ts';
import {
  encodeArray,
  encodeRows,
  type BinaryType,
  type BinaryValue,
} from '../../../src/sql/postgres/encode-binary.ts';
import { openServer, type Server } from '../../../src/sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../../src/sql/postgres/session.ts';
import { quoted } from '../../../src/sql/database.ts';
import { sqliteKind } from '../../contracts/file-sink/file-sink-kind.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import { describeSink } from '../../contracts/sink-contract.ts';
import {
  type Bench,
  members,
  record,
  lists,
  listsTable,
  member,
  membersTable,
  partition,
  rootOf,
  news,
  type SinkKind,
} from '../../contracts/sink/fixture.ts';
import { benchOfTest, useBench } from '../../contracts/sink/use-bench.ts';
import { hostileValues } from '../../contracts/sink/records.ts';
import { RunInHand, param, type Shown } from '../../contracts/sink/run-in-hand.ts';
import { targetContract } from '../../contracts/target-contract.ts';
import { sharedPostgres, askPostgres, type PrivatePostgres } from '../../support/postgres.ts';
import { useMart } from '../../support/publish/mart.ts';
import { postgresTableRows } from '../../support/publish/read-tables.ts';
import { tableHow, tableOf } from '../../support/publish/stored-model.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { copyNews } from '../../support/sinks/copying.ts';
import { hostileText } from '../../support/sinks/hostile-texts.ts';
import { repeats, startSeed, isLong } from '../../support/trials.ts';
import type { PostgresConnection } from '../../../src/sql/postgres/place.ts';

/** Each changes what a statement means or what a value looks like, or how many rows it takes to be slow. */
const oddSettings = {
  array_nulls: 'off',
  backslash_quote: 'off',
  bytea_output: 'escape',
  client_encoding: 'LATIN1',
  DateStyle: 'German, DMY',
  default_transaction_deferrable: 'on',
  default_transaction_isolation: 'serializable',
  enable_indexscan: 'off',
  enable_nestloop: 'off',
  extra_float_digits: '-15',
  IntervalStyle: 'sql_standard',
  quote_all_identifiers: 'on',
  search_path: 'odd, pg_catalog',
  standard_conforming_strings: 'off',
  synchronous_commit: 'off',
  TimeZone: 'Asia/Kathmandu',
  transform_null_equals: 'on',
  xmlbinary: 'hex',
  xmloption: 'document',
};

/** The connection of a role of the server that has all of them. */
async function oddConnection({ url, connection }: PrivatePostgres): Promise<PostgresConnection> {
  const set = Object.entries(oddSettings).map(
    ([name, value]) => `ALTER ROLE odd SET ${name} = ${name === 'search_path' ? value : `'${value}'`}`,
  );
  await askPostgres(url, 'CREATE ROLE odd LOGIN SUPERUSER', ...set);
  return { ...connection, user: 'odd' };
}

const kind = await postgresSinkKind();
const key: readonly Column[] = [{ name: 'id', type: 'string' }];

function columns(count: number, type: FieldType): readonly Column[] {
  return Array.from({ length: count }, (_, n): Column => ({ name: `f${n}`, type }));
}

function wide(count: number, type: FieldType): EntityTable {
  return { entity: members, columns: [...key, ...columns(count, type)], key: ['id'] };
}

describe('tables of PostgreSQL with many columns', () => {
  const bench = useBench(kind);

  // Proves promise 1.2
  it('are refused with advice, and nothing is made', async () => {
    const { sink, lease } = await bench().hold();
    const start = async (table: EntityTable): Promise<unknown> =>
      await sink.startRun(lease, bench().plan('r1', { tables: [table] }));
    await expect(start(wide(1_590, 'boolean'))).rejects.toMatchObject({
      recovery: 'stop',
      message: expect.stringMatching(/at most 1600 columns.*declare fewer of them/) as string,
    });
    expect(await bench().count('_sync_tables')).toBe(0);
    await expect(start(wide(400, 'boolean'))).resolves.toMatchObject({ run: 'r1' });
  });

  it('say to declare fewer fields where a record fills more than fit in a row', async () => {
    const table = wide(1_200, 'integer');
    const { commit } = await bench().walking('r1', { tables: [table] });
    const values = Object.fromEntries(columns(1_200, 'integer').map(({ name }) => [name, 1]));
    await expect(commit([record(table, { id: 'a', ...values })])).rejects.toThrow(
      /in table news__members\)\. .*declare fewer of them/,
    );
    await commit([record(table, { id: 'b' })]);
    expect(await bench().rows()).toMatchObject([{ id: 'b' }]);
  });

  it('leave undeclared fields in _extra that a table of 400 columns has none for', async () => {
    const declared = wide(398, 'boolean');
    const { sink, lease, run, commit } = await bench().walking('r1', { tables: [declared] });
    const drift = ['more', 'most'].map((field) => ({
      entity: members,
      field,
      kind: 'undeclared' as const,
      type: 'boolean' as const,
    }));
    await commit([record(declared, { id: 'a' }, { extra: '{"more":true,"most":true}' })], { drift });
    const added = await sink.drift.evolve(lease, run, members);
    expect(added.map(({ name }) => name)).toEqual(['more']);
    expect(await bench().ledger('SELECT more, _extra::text AS extra FROM news__members')).toEqual([
      { more: true, extra: '{"most":true}' },
    ]);
    expect(await sink.drift.evolve(lease, run, members)).toEqual([]);
  });
});

const types = [
  'text',
  'json',
  'bigint',
  'double precision',
  'boolean',
  'bytea',
  'timestamptz',
] as const satisfies readonly BinaryType[];
const seed = startSeed();
const rowCount = repeats('TRIALS', { share: 1_000, full: 50_000 });

const integers = [
  0,
  -1,
  2 ** 31,
  -(2 ** 31) - 1,
  2 ** 53,
  -(2 ** 53) + 1,
  2 ** 60,
  -(2 ** 63),
  2n ** 63n - 1n,
  -(2n ** 63n),
];
const numbers = [0, -0, 0.1, -1.5, 5e-324, 1.797_693_134_862_315_7e308, 2 ** 53 + 2, 1e21, 123_456_789.123];
const instants = ['2026-03-01T10:00:00.000Z', '1999-12-31T23:59:59.999Z', '2000-01-01T00:00:00.001Z'];

function anyValue(type: (typeof types)[number], random: () => number): BinaryValue {
  const one = <Value>(list: readonly Value[]): Value | null =>
    list[Math.floor(random() * list.length)] ?? null;
  if (random() < 0.1) return null;
  switch (type) {
    case 'text':
      return hostileText(random);
    case 'json':
      return JSON.stringify({ [hostileText(random, 3)]: [hostileText(random), null, 1e300, '\uD800'] });
    case 'bigint':
      return random() < 0.5 ? one(integers) : Math.floor((random() - 0.5) * 2 ** 53);
    case 'double precision':
      return random() < 0.5 ? one(numbers) : (random() - 0.5) * 10 ** Math.floor(random() * 40);
    case 'boolean':
      return Math.floor(random() * 2);
    case 'bytea':
      return Buffer.from(Array.from({ length: Math.floor(random() * 5) }, () => Math.floor(random() * 256)));
    case 'timestamptz':
      return one(instants);
  }
}

/** As the server gives it back. */
function expected(type: BinaryType, value: BinaryValue): unknown {
  if (value === null) return null;
  if (type === 'boolean') return value === 1;
  if (type !== 'bigint' || Buffer.isBuffer(value)) return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value);
}

describe('values in the binary format of PostgreSQL', () => {
  let server: Server;

  beforeAll(async () => {
    const { connection } = await sharedPostgres();
    server = openServer({
      connection,
      direct: null,
      schema: 'public',
      connections: 2,
      durability: 'full',
      explain: (error) => error,
    });
  });

  afterAll(async () => {
    await server[Symbol.asyncDispose]();
  });

  const columns = types.map((type, index) => `c${index} ${type}`).join(', ');
  const inTable = async <Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> =>
    await server.transact(async (tx) => {
      await tx.run(`CREATE TEMP TABLE stored (n bigint, ${columns}) ON COMMIT DROP`);
      return await work(tx);
    });
  const copy = 'COPY stored FROM STDIN (FORMAT binary)';

  it(`are stored by a copy as they are (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    const rows = Array.from({ length: rowCount }, (_, index) => [
      index,
      ...types.map((type) => anyValue(type, random)),
    ]);
    const stored = await inTable(async (tx) => {
      tx.put(copy, {}, encodeRows(['bigint', ...types], rows));
      return await tx.arrays('SELECT * FROM stored ORDER BY n');
    });
    expect(stored).toEqual(
      rows.map(([n, ...values]) => [n, ...types.map((type, index) => expected(type, values[index] ?? null))]),
    );
  });

  it.each(types)(`are bound as an array as they are: %s (seed ${seed})`, async (type) => {
    const random = seededRandom(seed);
    const values = Array.from({ length: 500 }, () => anyValue(type, random));
    const stored = await server.transact(
      async (tx) =>
        await tx.arrays(
          `SELECT v.value FROM unnest(:values::${type}[]) WITH ORDINALITY AS v(value, n) ORDER BY v.n`,
          { values: encodeArray(type, values) },
        ),
    );
    expect(stored.map(([value]) => value)).toEqual(values.map((value) => expected(type, value)));
  });

  it('may be none, and may be larger than a chunk', async () => {
    const large = `${'é'.repeat(300_000)}\0`;
    const stored = await inTable(async (tx) => {
      tx.put(copy, {}, encodeRows(['bigint', ...types], []));
      tx.put(copy, {}, encodeRows(['bigint', ...types], [[1, large, `"${large.slice(0, -1)}"`]]));
      return await tx.arrays('SELECT n, c0, length(c1::text) FROM stored');
    });
    expect(stored).toEqual([[1, large, 300_002]]);
    expect([...encodeRows(['text'], [[large], [large]])].length).toBeGreaterThan(1);
    const none = await server.transact(
      async (tx) => await tx.arrays('SELECT unnest(:none::text[])', { none: encodeArray('text', []) }),
    );
    expect(none).toEqual([]);
  });

  it('replace a lone surrogate in a text, which UTF-8 cannot hold, and keep it escaped in JSON', async () => {
    const [row] = await inTable(async (tx) => {
      tx.put(copy, {}, encodeRows(['bigint', ...types], [[1, 'a\uD800b', '"\\ud800\\u0000"']]));
      return await tx.arrays('SELECT c0, c1 FROM stored');
    });
    expect(row).toEqual(['a\uFFFDb', '"\\ud800\\u0000"']);
  });

  it.each<BinaryValue>([1.5, 2n ** 63n, -(2n ** 63n) - 1n, Number.NaN, Infinity, 2 ** 63])(
    'are refused where a column of integers could not hold them: %s',
    (value) => {
      expect(() => [...encodeRows(['bigint'], [[value]])]).toThrow(RangeError);
    },
  );
});

const trials = repeats('TRIALS', { share: 800, full: 100_000 });

/** A name of few different letters, so that two are often alike at their beginning. */
function anyName(random: () => number, separators: readonly string[]): string {
  const most = 1 + Math.floor(random() * maxNameLength);
  let name = 'a';
  while (name.length < most) {
    const isWord = random() < 0.9 || name.length + 2 > most;
    name += isWord
      ? (['a', 'b', '1'][Math.floor(random() * 3)] ?? '')
      : `${separators[Math.floor(random() * separators.length)]}a`;
  }
  return name.slice(0, maxNameLength);
}

describe('the name of an entity in PostgreSQL', () => {
  it('is that of the file sinks where it is short enough', () => {
    expect(tableName('my-news', 'list_members')).toBe('my_news__list_members');
  });

  it(`fits with every suffix, and is no other's (seed ${seed})`, () => {
    const random = seededRandom(seed);
    const owners = new Map<string, string>();
    for (let trial = 0; trial < trials; trial += 1) {
      const connector = anyName(random, ['_', '-']);
      const entity = anyName(random, ['_']);
      expect(isConnectorName(connector) && isDeclaredName(entity), `${connector} ${entity}`).toBe(true);
      const name = tableName(connector, entity);
      for (const suffix of Object.values(indexSuffixes)) {
        expect(Buffer.byteLength(`${name}${suffix}`)).toBeLessThanOrEqual(63);
      }
      expect(name).toMatch(/^[a-z]/);
      // A config has no two connectors that differ in this alone.
      const owner = `${connector.replaceAll('-', '_')} ${entity}`;
      expect(owners.get(name) ?? owner).toBe(owner);
      owners.set(name, owner);
    }
  });

  it('is quoted, so that it is a name whatever is in it', () => {
    expect(quoted('a"b; DROP')).toBe('"a""b; DROP"');
  });
});

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
  const bench = useBench(kind);

  const reads = async (): Promise<readonly Reads[]> =>
    (await bench()
      .ledger(`SELECT relname AS name, seq_tup_read AS rows FROM pg_stat_user_tables WHERE schemaname = current_schema()
      UNION ALL SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = current_schema()`)) as unknown as readonly Reads[];

  /**
   * A run of its own process, as it were: the server counts what a connection has read when that is closed at the
   * latest.
   */
  async function run(name: string, gone: number): Promise<void> {
    const held = await bench().hold();
    const hand = await RunInHand.begin(bench(), held, name, plan);
    await hand.walk(showing(name, gone));
    await hand.sweep(100);
    await hand.missing(members);
    await hand.tombstone([lists, members], 100);
    await hand.finish();
    await held.lease[Symbol.asyncDispose]();
    await bench().closeSinks();
  }

  const times = [
    ['with statistics of a time when nothing was due', 'VACUUM ANALYZE'],
    ['without statistics', 'SELECT 1'],
  ] as const;

  it.each(times.slice(0, isLong ? 2 : 1))(
    'is of no table and no index more than a few times what is stored, %s',
    async (_, between) => {
      await run('r1', 0);
      await bench().ledger(between);
      await run('r2', 0);
      await run('r3', 1);
      const stored = listCount * (membersOfList + 1);
      // A statement for each page that looked through all partitions of the connector would read 22,500 in the first
      // run alone.
      expect((await reads()).filter(({ rows }) => rows > 12 * stored)).toEqual([]);
    },
  );
});

describe('odd settings', async () => {
  /* A role whose settings turn around what statements mean and what values look like. */

  const connection = await oddConnection(await sharedPostgres());
  const plain = await postgresSinkKind();
  const kind: SinkKind = {
    ...plain,
    options: (folder) => {
      const options = plain.options(folder);
      return options.type === 'postgres' ? { ...options, connection } : options;
    },
    open: async (folder, how) => await openSink(kind.options(folder), how),
    openHistory: async (folder) => await openHistory(kind.options(folder)),
  };

  if (isLong) {
    describeSink('PostgreSQL with odd settings', kind);
  } else {
    describe('a sink in PostgreSQL with odd settings', () => {
      describe('values', () => hostileValues(kind));
    });
  }

  const numbers = [0.1 + 0.2, 5e-324, 1.797e308, 1e21, 123_456_789.123_456_79];

  // Proves promise 1.1
  it('reads and copies numbers to the last digit, whatever the settings of the role', async () => {
    const [from, to] = [benchOfTest(kind), benchOfTest(sqliteKind)];
    const [source, target] = [await from.open(), await to.open()];
    const records = numbers.map((score, index) =>
      record(membersTable, { list_id: 'a', id: String(index), score }),
    );
    await from.read('r1', records, { sink: source });
    expect(await scoresOf(from)).toEqual(numbers);
    await copyNews(source, target);
    expect(await scoresOf(to)).toEqual(numbers);
  });

  /** As `export` and `publish` read them. */
  async function scoresOf({ kind: { options }, folder }: Bench): Promise<readonly unknown[]> {
    await using reader = await openExistingRecords(options(folder));
    const table = await reader?.table(news, members);
    if (reader === null || table === null || table === undefined) {
      throw new Error('the table should be there');
    }
    const at = table.columns.findIndex(({ name }) => name === 'score');
    const scores: unknown[] = [];
    for await (const batch of reader.changes(news, table, 0)) {
      scores.push(...batch.map(({ values }) => values[at]));
    }
    return scores;
  }

  const { client, placeOf, schemaOf } = useMart();

  describe('a target in PostgreSQL with odd settings', () => {
    targetContract({
      open: async (folder) => openPostgresTarget({ ...placeOf(folder), connection }, tableHow),
      rows: async (folder, entity) =>
        await postgresTableRows(client(), schemaOf(folder), {
          connector: entity.connector,
          table: tableOf(entity),
        }),
    });
  });
});
