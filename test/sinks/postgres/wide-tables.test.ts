import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Column, EntityTable, FieldType } from '../../../src/core/records.ts';
import { columnsThatFit } from '../../../src/sinks/postgres/records/record-tables.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  identity,
  members,
  onlyPartition,
  page,
  record,
  type Started,
} from '../../contracts/sink/fixture.ts';

const kind = await postgresSinkKind();
const key: readonly Column[] = [{ name: 'id', type: 'string' }];

function columns(count: number, type: FieldType): readonly Column[] {
  return Array.from({ length: count }, (_, n): Column => ({ name: `f${n}`, type }));
}

function wide(count: number, type: FieldType): EntityTable {
  return { entity: members, columns: [...key, ...columns(count, type)], key: ['id'] };
}

/** Nothing in such a column is shorter, once it is stored apart. */
const long = 'not to be compressed: 0123456789 abcdefghijklmnopqrstuvwxyz';
const filled: Partial<Record<FieldType, string | number>> = { integer: 1, boolean: 1, string: long };

describe('tables of PostgreSQL with many columns', () => {
  let bench: Bench;
  let sink: Sink;

  beforeEach(async () => {
    bench = new Bench(kind);
    sink = await bench.open();
  });

  afterEach(async () => {
    await bench.close();
  });

  const begin = async (table: EntityTable): Promise<Started> =>
    await bench.begin(sink, 'r1', { tables: [table] });

  // Proves promise 1.2
  it.each(['integer', 'boolean', 'string'] as const)(
    'hold rows of as many %s fields as they are made for, and are refused for more',
    async (type) => {
      const most = columnsThatFit([], [...key, ...columns(1_600, type)], 0).length - key.length;
      const table = wide(most, type);
      const started = await begin(table);
      const { id } = await onlyPartition(sink, started.lease);
      const values = Object.fromEntries(columns(most, type).map(({ name }) => [name, filled[type] ?? null]));
      const full = record(table, { id: 'x'.repeat(60), ...values });
      await sink.commit(started.lease, [page(started, id, [full])]);
      await sink.commit(started.lease, [page(started, id, [{ ...full, hash: 'changed' }])]);
      expect(await bench.count('news__members', `f${most - 1} IS NOT NULL`)).toBe(1);
      const more = bench.plan('r2', { tables: [wide(most + 1, type)] });
      await expect(sink.startRun(started.lease, more)).rejects.toMatchObject({
        code: 'SINK_INCOMPATIBLE',
        recovery: 'stop',
        message: expect.stringMatching(
          /no room for the table of news\/members: .*Declare fewer fields/,
        ) as string,
      });
    },
  );

  it('are refused by name and number before anything is made', async () => {
    const lease = await sink.acquire(identity());
    const start = async (table: EntityTable): Promise<unknown> =>
      await sink.startRun(lease, bench.plan('r1', { tables: [table] }));
    await expect(start(wide(1_590, 'boolean'))).rejects.toThrow(
      'it would have 1602 columns (1591 for fields, 11 of the program), and a table has 1600 at most',
    );
    await expect(start(wide(1_200, 'integer'))).rejects.toThrow(
      /a row whose 1201 fields are all there would take \d{4,5} bytes .* a row has 8160 at most/,
    );
    expect(await bench.count('_sync_tables')).toBe(0);
  });

  it('count columns that were dropped', async () => {
    const started = await begin(wide(10, 'boolean'));
    const names = columns(800, 'boolean').map(({ name }) => `other_${name}`);
    await bench.ledger(`ALTER TABLE news__members ${names.map((name) => `ADD ${name} boolean`).join(', ')}`);
    await bench.ledger(`ALTER TABLE news__members ${names.map((name) => `DROP ${name}`).join(', ')}`);
    const more = bench.plan('r2', { tables: [wide(800, 'boolean')] });
    await expect(sink.startRun(started.lease, more)).rejects.toThrow(/800 dropped or added by others/);
    const fewer = bench.plan('r3', { tables: [wide(780, 'boolean')] });
    await expect(sink.startRun(started.lease, fewer)).resolves.toMatchObject({ run: 'r3' });
  });

  it('leave undeclared fields in _extra that they have no column for', async () => {
    const most = columnsThatFit([], [...key, ...columns(1_600, 'boolean')], 0).length - key.length;
    const started = await begin(wide(most - 1, 'boolean'));
    const { id } = await onlyPartition(sink, started.lease);
    const extra = '{"more":true,"most":true}';
    const drift = ['more', 'most'].map((field) => ({
      entity: members,
      field,
      kind: 'undeclared' as const,
      type: 'boolean' as const,
    }));
    const one = record(wide(most - 1, 'boolean'), { id: 'a' }, { extra });
    await sink.commit(started.lease, [page(started, id, [one], { drift })]);
    const added = await sink.drift.evolve(started.lease, started.run, members);
    expect(added.map(({ name }) => name)).toEqual(['more']);
    expect(await bench.ledger('SELECT more, _extra::text AS extra FROM news__members')).toEqual([
      { more: true, extra: '{"most":true}' },
    ]);
    expect(await sink.drift.evolve(started.lease, started.run, members)).toEqual([]);
  });
});
