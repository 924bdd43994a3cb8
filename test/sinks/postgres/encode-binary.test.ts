import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  encodeArray,
  encodeRows,
  type BinaryType,
  type BinaryValue,
} from '../../../src/sql/postgres/encode-binary.ts';
import { openServer, type Server } from '../../../src/sql/postgres/server.ts';
import type { PostgresTx as Tx } from '../../../src/sql/postgres/session.ts';
import { sharedPostgres } from '../../support/postgres.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { repeats, startSeed } from '../../support/trials.ts';
import { hostileText } from '../../support/sinks/hostile-texts.ts';

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
const rowCount = repeats('TRIALS', { share: 3_000, full: 50_000 });

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
