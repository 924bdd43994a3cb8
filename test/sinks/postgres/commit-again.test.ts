import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  counts,
  member,
  members,
  membersTable,
  onlyPartition,
  page,
  partition,
  record,
  sealed,
  type Started,
} from '../../contracts/sink/fixture.ts';

const kind = await postgresSinkKind();

describe('a commit to PostgreSQL', () => {
  let bench: Bench;
  let sink: Sink;
  let started: Started;
  let id: number;

  beforeEach(async () => {
    bench = new Bench(kind);
    sink = await bench.open();
    started = await bench.begin(sink, 'r1');
    ({ id } = await onlyPartition(sink, started.lease));
    await sink.commit(started.lease, [page(started, id, [member('1')])]);
  });

  afterEach(async () => {
    await bench.close();
  });

  /** The next write of the table fails, once: what takes a number of a sequence is not rolled back. */
  async function failOnce(table: string, code: string): Promise<void> {
    await bench.ledger(`CREATE SEQUENCE tries`);
    await bench.ledger(`CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF nextval(TG_TABLE_SCHEMA || '.tries') = 1 THEN RAISE EXCEPTION 'once' USING ERRCODE = '${code}'; END IF; RETURN NEW; END $$`);
    await bench.ledger(
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
      await failOnce(table, code);
      const [committed] = await sink.commit(started.lease, [
        page(started, id, [member('1', 'Eve'), member('2'), member('2')], {
          fetched: 4,
          refused: [{ entity: members, reason: 'key-missing', detail: 'no id', record: '{}' }],
          drift: [{ entity: members, field: 'nick', kind: 'undeclared', type: 'string' }],
          children: [partition(members, { n: 1 })],
          seal: sealed,
        }),
      ]);
      expect(await bench.ledger('SELECT last_value FROM tries')).not.toEqual([{ last_value: 1 }]);
      expect(committed).toEqual({
        counts: [
          {
            entity: members,
            counts: counts({ fetched: 4, quarantined: 1, inserted: 1, updated: 1, duplicate: 1 }),
          },
        ],
        newlyDue: 1,
      });
      expect(await bench.rows()).toMatchObject([
        { id: '1', name: 'Eve', _seq: 2 },
        { id: '2', _seq: 3 },
      ]);
      expect(await bench.ledger('SELECT rows, last_row FROM _sync_tables WHERE rows > 0')).toEqual([
        { rows: 2, last_row: 2 },
      ]);
      expect((await sink.nextPartitions(started.lease, 5)).map(({ params }) => params)).toEqual([{ n: 1 }]);
      expect((await sink.drift.known(started.lease.connector, [members])).get(members)?.fields).toEqual(
        new Set(['nick']),
      );
    },
  );

  it('that fails for another reason stores nothing, and the next one is stored', async () => {
    await failOnce('_sync_counts', '23514');
    const pages = [page(started, id, [member('2')])];
    await expect(sink.commit(started.lease, pages)).rejects.toMatchObject({
      code: 'SINK_FAILED',
      recovery: 'stop',
    });
    expect(await bench.rows()).toHaveLength(1);
    const [committed] = await sink.commit(started.lease, pages);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 1, inserted: 1 }));
  });

  it('of a value that no column can hold breaks off its copy, and the connection stays usable', async () => {
    const unfit = record(membersTable, { list_id: 'a', id: '3', visits: 1.5 });
    const many = Array.from({ length: 3_000 }, (_, index) => member(`m${index}`));
    await expect(sink.commit(started.lease, [page(started, id, [...many, unfit])])).rejects.toThrow(
      RangeError,
    );
    const broken = record(membersTable, { list_id: 'a', id: '3', address: '{"city":' });
    const failed = sink.commit(started.lease, [page(started, id, [...many, broken])]);
    await expect(failed).rejects.toMatchObject({ code: 'SINK_FAILED' });
    expect(await failed.catch((error: unknown) => inspect(error, { depth: 9 }))).not.toContain('city');
    const [committed] = await sink.commit(started.lease, [page(started, id, many)]);
    expect(committed?.counts[0]?.counts).toEqual(counts({ fetched: 3_000, inserted: 3_000 }));
  });
});
