import { expect, it } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord } from '../../../src/core/records.ts';
import type { ExpiredOf, ExpireRequest } from '../../../src/sinks/purges.ts';
import type { RunPlan } from '../../../src/sinks/sink.ts';
import {
  counts,
  dayMs,
  hourMs,
  identity,
  member,
  members,
  membersTable,
  news,
  record,
  start,
  type LedgerRow,
  type SinkKind,
} from './fixture.ts';
import { RunInHand, useRuns } from './run-in-hand.ts';
import { useBench } from './use-bench.ts';

const plan: Partial<RunPlan> = { tables: [membersTable], versions: new Set([members]) };
const byHand = {
  kind: 'undo',
  window: 'undo',
  entities: [],
  roots: [],
  tables: [membersTable],
} as const;

export function versions(kind: SinkKind): void {
  const bench = useBench(kind);

  /** Each version as `id name from-to`, hours since the start and milliseconds; `-` stands for a deleted row. */
  const history = async (): Promise<readonly string[]> => {
    const rows = await bench().ledger(
      `SELECT id, name, _deleted_at, _seq, _seq_to, _valid_from, _valid_to FROM news__members__history ORDER BY id, _seq`,
    );
    return rows.map((row) => {
      const what = row['_deleted_at'] === null ? String(row['name']) : '-';
      return `${String(row['id'])} ${what} ${hours(row['_valid_from'])}-${hours(row['_valid_to'])}`;
    });
  };
  const seqs = async (): Promise<readonly unknown[]> =>
    (await bench().ledger('SELECT _seq, _seq_to FROM news__members__history ORDER BY _row, _seq')).map(
      ({ _seq, _seq_to }) => [_seq, _seq_to],
    );
  /** Asked in UTC, or on the clock of a zone that is so many hours ahead of it. */
  const asOf = async (hour: number, ahead = 0): Promise<readonly unknown[]> => {
    const wall = new Date(start + (hour + ahead) * hourMs).toISOString().slice(0, -1);
    const at = `${wall}+0${ahead}:00`;
    const from =
      kind.options('/nowhere').type === 'sqlite'
        ? `news__members__as_of WHERE _as_of = unixepoch('${at}')`
        : `news__members__as_of('${at}')`;
    return (await bench().ledger(`SELECT id, name FROM ${from} ORDER BY id`)).map(
      ({ id, name }) => `${String(id)} ${String(name)}`,
    );
  };
  const closed = async (): Promise<number> => Number(await bench().count('news__members__versions'));
  const showing =
    (...records: readonly PreparedRecord[]) =>
    () => ({ records });

  // Proves promise 14.1
  it('keeps each version of a row, with deletes, revivals and deletes taken back', async () => {
    const { sink, lease, begin, sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(member('1'), member('2')))).finish();
    expect(await closed(), 'a first load ends no version').toBe(0);
    await (await sweep('r2', showing(member('1', 'Grace'), member('2')))).finish();
    for (const [run, shown] of [
      ['r3', showing(member('1', 'Grace'))],
      ['r4', showing(member('1', 'Grace'), member('2'))],
      ['r5', showing(member('1', 'Grace'))],
    ] as const) {
      const hand = await sweep(run, shown);
      await hand.tombstone([members]);
      await hand.finish();
    }
    const hand = await begin('r6', byHand);
    const all = { entity: members, after: 0, limit: 10 };
    await sink.repair.undo(lease, hand.started.run, 'r5' as RunId, all);
    await hand.finish();
    expect(await history()).toEqual([
      '1 Ada 1-2',
      '1 Grace 2-',
      '2 Ada 1-3',
      '2 - 3-4',
      '2 Ada 4-5',
      '2 - 5-6',
      '2 Ada 6-',
    ]);
    expect(await seqs()).toEqual([
      [1, 3],
      [3, null],
      [2, 4],
      [4, 5],
      [5, 6],
      [6, 7],
      [7, null],
    ]);
    expect(await asOf(0.5)).toEqual([]);
    expect(await asOf(1)).toEqual(['1 Ada', '2 Ada']);
    expect(await asOf(3.5)).toEqual(['1 Grace']);
    expect(await asOf(3.5, 5)).toEqual(['1 Grace']);
    expect(await asOf(100)).toEqual(['1 Grace', '2 Ada']);
    const explained = await sink.history.explain(news, membersTable, '["a","1"]');
    expect(explained?.versions).toEqual([
      {
        seq: 3,
        validFrom: instant(start + 2 * hourMs),
        validTo: null,
        isDeleted: false,
        changed: ['name'],
      },
      {
        seq: 1,
        validFrom: instant(start + hourMs),
        validTo: instant(start + 2 * hourMs),
        isDeleted: false,
        changed: null,
      },
    ]);
  });

  it('writes no version for what did not change, for volatile fields alone, and for deletes that are withheld', async () => {
    const { sweep } = await useRuns(bench(), plan);
    const seen = (count: string, name?: string): PreparedRecord => member('1', name, { volatileHash: count });
    await (await sweep('r1', showing(seen('1')))).finish();
    await (await sweep('r2', showing(seen('1')))).finish();
    bench().clock.advance(dayMs);
    await (await sweep('r3', showing(seen('2')))).finish();
    expect(await bench().rows()).toMatchObject([{ _run_id: 'r3', _seq: 2 }]);
    await (await sweep('r4', showing())).finish();
    expect(await history()).toEqual(['1 Ada 1-']);
    expect(await seqs(), 'it began when it was stored first').toEqual([[1, null]]);
    await (await sweep('r5', showing(seen('3', 'Grace')))).finish();
    expect(await history()).toEqual(['1 Ada 1-29', '1 Grace 29-']);
    bench().clock.advance(dayMs);
    await (await sweep('r6', showing(seen('4', 'Grace')))).finish();
    expect(await history()).toEqual(['1 Ada 1-29', '1 Grace 29-']);
    expect(await closed()).toBe(1);
  });

  it('writes a delete once, however many runs do not find the record, and keeps what it held', async () => {
    const { sweep } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(member('1'), member('2')))).finish();
    for (const run of ['r2', 'r3', 'r4']) {
      const hand = await sweep(run, showing(member('2')));
      await hand.tombstone([members]);
      await hand.finish();
    }
    expect(await history()).toEqual(['1 Ada 1-2', '1 - 2-', '2 Ada 1-']);
    const deleted = 'SELECT id, name FROM news__members__history WHERE _deleted_at IS NOT NULL';
    expect(await bench().ledger(deleted)).toEqual([{ id: '1', name: 'Ada' }]);
  });

  it('adds a version for a change that comes late, and leaves the earlier ones as they were', async () => {
    const { sweep } = await useRuns(bench(), plan);
    const at = (visits: number) =>
      record(membersTable, { list_id: 'a', id: '1', name: `v${visits}`, visits });
    for (const [run, visits] of [5, 7, 2].entries()) {
      await (await sweep(`r${run}`, showing(at(visits)))).finish();
    }
    expect(await history()).toEqual(['1 v5 1-2', '1 v7 2-3', '1 v2 3-']);
  });

  it('ends each version after it began where the clock went back', async () => {
    const { sweep } = await useRuns(bench(), plan);
    bench().clock.advance(10 * hourMs);
    await (await sweep('r1', showing(member('1')))).finish();
    bench().clock.advance(-6 * hourMs);
    await (await sweep('r2', showing(member('1', 'Grace')))).finish();
    await (await sweep('r3', showing(member('1', 'Hedy')))).finish();
    bench().clock.advance(10 * hourMs);
    await (await sweep('r4', showing(member('1', 'Joan')))).finish();
    expect(await history()).toEqual([
      '1 Ada 11-11+1ms',
      '1 Grace 11+1ms-11+2ms',
      '1 Hedy 11+2ms-18',
      '1 Joan 18-',
    ]);
    expect(await asOf(11)).toEqual(['1 Ada']);
    expect(await asOf(12)).toEqual(['1 Hedy']);
  });

  it('begins with the rows that there are, and leaves what there is when it is switched off', async () => {
    const off = { versions: new Set<never>() };
    const { sweep } = await useRuns(bench(), { tables: [membersTable] });
    const changing = async (run: string, name: string, change: Partial<RunPlan>): Promise<void> =>
      await (await sweep(run, showing(member('1', name)), change)).finish();
    await changing('r1', 'Ada', {});
    await changing('r2', 'Grace', {});
    await changing('r3', 'Grace', plan);
    expect(await history()).toEqual(['1 Grace 2-']);
    await changing('r4', 'Hedy', {});
    expect(await history(), 'a run that does not say leaves it on').toEqual(['1 Grace 2-4', '1 Hedy 4-']);
    await changing('r5', 'Joan', off);
    await changing('r6', 'Mary', off);
    expect(await history()).toEqual(['1 Grace 2-4', '1 Mary 6-']);
    await changing('r7', 'Mary', plan);
    await changing('r8', 'Rosa', plan);
    expect(await history()).toEqual(['1 Grace 2-4', '1 Mary 6-8', '1 Rosa 8-']);
  });

  it('has the columns that the table gets later, and drops all with the data', async () => {
    const { sink, sweep, lease } = await useRuns(bench(), plan);
    await (await sweep('r1', showing(member('1', 'Ada', { extra: '{"city":"Kyiv"}' })))).finish();
    const wider: EntityTable = {
      ...membersTable,
      columns: [...membersTable.columns, { name: 'city', type: 'string' }],
    };
    const shown = record(wider, { list_id: 'a', id: '1', name: 'Ada', city: 'Lviv' });
    await (await sweep('r2', showing(shown), { tables: [wider] })).finish();
    const read = 'SELECT city, _extra FROM news__members__history ORDER BY _seq';
    const extra = (row: LedgerRow): unknown =>
      typeof row['_extra'] === 'string' ? JSON.parse(row['_extra']) : row['_extra'];
    expect((await bench().ledger(read)).map((row) => [row['city'], extra(row)])).toEqual([
      [null, { city: 'Kyiv' }],
      ['Kyiv', null],
      ['Lviv', null],
    ]);
    await lease[Symbol.asyncDispose]();
    const reset = {
      entity: members,
      tables: [membersTable],
      withData: true,
      now: bench().plan('r').startedAt,
    };
    await sink.repair.reset('news' as never, reset);
    await expect(bench().ledger(read)).rejects.toThrow(/no such table|does not exist/);
    const again = await useRuns(bench(), { ...plan, tables: [wider] });
    await (await again.sweep('r3', showing(shown))).finish();
    expect(await history()).toHaveLength(1);
  });

  it('removes versions by age, while versions are kept, and notes what a guard keeps', async () => {
    const { sink, lease, sweep } = await useRuns(bench(), plan);
    for (const [index, name] of ['Ada', 'Grace', 'Hedy', 'Joan'].entries()) {
      await (await sweep(`r${index}`, showing(member('1', name), member('2', name)))).finish();
    }
    await lease[Symbol.asyncDispose]();
    const before = (hour: number, withheld = 0): ExpireRequest => ({
      entities: [
        {
          entity: members,
          deletedBefore: null,
          publishedThrough: 0,
          quarantinedBefore: null,
          filesBefore: null,
          versionsBefore: instant(start + hour * hourMs),
          withheld,
        },
      ],
      isAsked: true,
      removeFile: () => Promise.resolve(),
      signal: AbortSignal.timeout(60_000),
    });
    const versionsIn = (expired: readonly ExpiredOf[]): readonly number[] =>
      expired.map(({ versions: gone }) => gone);
    const due = await sink.purges.expired(news, before(3.5));
    expect(due).toMatchObject([{ versions: 4, of: { rows: 2, versions: 8 } }]);
    expect(versionsIn(await sink.purges.expire(news, before(3.5, 7)))).toEqual([4]);
    const withheld = async () => (await sink.history.overview()).map((one) => one.withheldByAge);
    expect(await withheld()).toEqual([[{ entity: members, withheld: 7 }]]);
    expect(await history()).toEqual(['1 Hedy 3-4', '1 Joan 4-', '2 Hedy 3-4', '2 Joan 4-']);
    const again = await sink.acquire(identity());
    await (
      await RunInHand.begin(bench(), { sink, lease: again }, 'r5', { ...plan, versions: new Set() })
    ).finish();
    await again[Symbol.asyncDispose]();
    expect(versionsIn(await sink.purges.expire(news, before(100)))).toEqual([0]);
    expect(await withheld()).toEqual([[]]);
  });

  it('keeps one version of a row that a commit changes several times', async () => {
    const { sink, lease, begin } = await useRuns(bench(), plan);
    const hand = await begin('r1');
    await hand.walk(showing(member('1')));
    await hand.finish();
    const next = await begin('r2');
    await next.walk(showing(member('1', 'Grace'), member('1', 'Hedy')));
    await next.finish();
    expect(await history()).toEqual(['1 Ada 1-2', '1 Hedy 2-']);
    const refetch = await begin('r3', { ...byHand, kind: 'refetch', window: 'refetch' });
    const stored = await sink.repair.storeRecord(lease, refetch.started.run, members, member('1', 'Joan'));
    expect(stored).toEqual(counts({ fetched: 1, updated: 1 }));
    expect(await history()).toEqual(['1 Ada 1-2', '1 Hedy 2-3', '1 Joan 3-']);
  });
}

function hours(at: unknown): string {
  if (typeof at !== 'string') return '';
  const sinceMs = Date.parse(at) - start;
  const more = sinceMs % hourMs;
  return `${Math.floor(sinceMs / hourMs)}${more === 0 ? '' : `+${more}ms`}`;
}
