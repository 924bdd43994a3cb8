import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RunId } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../../src/core/records.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
import { postgresSinkKind } from '../../contracts/postgres-sink-kind.ts';
import {
  Bench,
  hourMs,
  member,
  members,
  membersTable,
  onlyPartition,
  page,
  type Started,
} from '../../contracts/sink/fixture.ts';

const kind = await postgresSinkKind();
const wider: EntityTable = {
  ...membersTable,
  columns: [
    ...membersTable.columns,
    { name: 'text', type: 'string' },
    { name: 'whole', type: 'integer' },
    { name: 'real', type: 'number' },
    { name: 'flag', type: 'boolean' },
    { name: 'list', type: 'array' },
    { name: 'thing', type: 'object' },
    { name: 'more', type: 'any' },
  ],
};
const added = wider.columns.slice(membersTable.columns.length).map(({ name }) => name);

describe('values that a PostgreSQL table gets a column for', () => {
  let bench: Bench;
  let sink: Sink;
  let started: Started;

  beforeEach(async () => {
    bench = new Bench(kind);
    sink = await bench.open();
    started = await bench.begin(sink, 'r1');
  });

  afterEach(async () => {
    await bench.close();
  });

  const withExtra = (id: string, extra: string): PreparedRecord => member(id, 'Ada', { extra });

  /** Stores the records, then begins a run whose table declares their fields. */
  async function declareAfter(...records: readonly PreparedRecord[]): Promise<void> {
    const { id } = await onlyPartition(sink, started.lease);
    await sink.commit(started.lease, [page(started, id, records)]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, '["a","gone"]');
    bench.clock.advance(hourMs);
    await sink.startRun(started.lease, bench.plan('r2', { tables: [wider] }));
  }

  const stored = async (id: string): Promise<Readonly<Record<string, unknown>>> => {
    const [row] = await bench.ledger(
      `SELECT ${added.join(', ')}, _extra::text AS extra, _seq AS seq, _run_id AS run FROM news__members WHERE id = '${id}'`,
    );
    return Object.fromEntries(Object.entries(row ?? {}).filter(([, value]) => value !== null));
  };

  it('move there as they are, each row as one change', async () => {
    await declareAfter(
      withExtra(
        '1',
        '{"flag":false,"left":1.50,"list":[1.0,"\\u0000"],"more":1e400,"real":0.1,"text":"a\\u0000b","thing":{"b":1,"a":1},"whole":9223372036854775807}',
      ),
      withExtra('2', '{"text":"all of it"}'),
      withExtra('3', '{"texts":"text","n":{"text":1}}'),
    );
    expect(await stored('1')).toEqual({
      flag: false,
      list: [1, '\0'],
      more: Infinity,
      real: 0.1,
      text: 'a\0b',
      thing: { b: 1, a: 1 },
      whole: 9_223_372_036_854_775_807n,
      extra: '{"left":1.50}',
      seq: 4,
      run: 'r2',
    });
    const [texts] = await bench.ledger(
      `SELECT more::text AS more, list::text AS list FROM news__members WHERE id = '1'`,
    );
    expect(texts).toEqual({ more: '1e400', list: '[1.0,"\\u0000"]' });
    expect(await stored('2')).toEqual({ text: 'all of it', seq: 5, run: 'r2' });
    expect(await stored('3')).toEqual({ extra: '{"texts":"text","n":{"text":1}}', seq: 3, run: 'r1' });
  });

  it.each([
    '{"text":7}',
    '{"text":"\\ud800"}',
    '{"text":null}',
    '{"whole":1.0}',
    '{"whole":9223372036854775808}',
    '{"whole":"1"}',
    '{"real":9007199254740993}',
    '{"real":1e400}',
    '{"real":"0.1"}',
    '{"flag":1}',
    '{"list":{}}',
    '{"thing":[]}',
  ])('stay where they are if they do not fit: %s', async (extra) => {
    await declareAfter(withExtra('1', extra));
    expect(await stored('1')).toEqual({ extra, seq: 1, run: 'r1' });
  });

  it('move in tombstones too, which keep the number and the run of their deletion', async () => {
    await declareAfter(withExtra('gone', '{"text":"x","whole":-0}'));
    expect(await stored('gone')).toEqual({ text: 'x', whole: 0, seq: 2, run: 'r1' });
  });

  it('move in thousands of rows', async () => {
    const records = Array.from({ length: 2_500 }, (_, index) => withExtra(`m${index}`, `{"whole":${index}}`));
    await declareAfter(...records);
    expect(
      await bench.ledger(
        `SELECT count(*) AS rows, count(DISTINCT whole) AS values, count(DISTINCT _seq) AS seqs, count(_extra) AS extras FROM news__members`,
      ),
    ).toEqual([{ rows: 2_500, values: 2_500, seqs: 2_500, extras: 0 }]);
    await expect(
      sink.commit(started.lease, [page({ ...started, run: 'r2' as RunId }, 1, [])]),
    ).resolves.toHaveLength(1);
  });
});
