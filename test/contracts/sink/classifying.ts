import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import type { PreparedRecord } from '../../../src/core/records.ts';
import {
  counts,
  liveIds,
  dayMs,
  hourMs,
  member,
  members,
  membersTable,
  onlyPartition,
  opens,
  opensTable,
  page,
  sealed,
  record,
  report,
  entityReport,
  type Bench,
  type SinkKind,
} from './fixture.ts';
import { useBench } from './use-bench.ts';

/** One whole run over the given pages; gives the counts of each page. */
async function runOf(bench: Bench, run: string, pages: readonly (readonly PreparedRecord[])[]) {
  const sink = await bench.open();
  const started = await bench.begin(sink, run);
  const { id } = await onlyPartition(sink, started.lease);
  const seen = [];
  for (const [index, records] of pages.entries()) {
    const seal = index === pages.length - 1 ? sealed : null;
    const [committed] = await sink.commit(started.lease, [page(started, id, records, { seal })]);
    seen.push(committed?.counts[0]?.counts ?? counts({}));
  }
  const total = seen.reduce((left, right) => ({
    fetched: left.fetched + right.fetched,
    filtered: 0,
    quarantined: 0,
    inserted: left.inserted + right.inserted,
    updated: left.updated + right.updated,
    duplicate: left.duplicate + right.duplicate,
    unchanged: left.unchanged + right.unchanged,
  }));
  await sink.finish(
    started.lease,
    started.run,
    report(started, { entities: [entityReport(members, total)] }),
  );
  await sink[Symbol.asyncDispose]();
  return seen;
}

/** Mixes records in the same way each time. */
function hashOf({ keyText }: PreparedRecord): string {
  return createHash('md5').update(keyText).digest('hex');
}

/** Nothing but its key came. */
function inPart(id: string): PreparedRecord {
  const partial = {
    entity: members,
    reason: 'partial',
    detail: 'without name',
    record: `{"id":"${id}"}`,
  } as const;
  return record(membersTable, { list_id: 'a', id }, { partial });
}

export function classifying(kind: SinkKind): void {
  const bench = useBench(kind);

  it('finds the row of each record, whatever the order of the page, what it lacks and what it adds', async () => {
    const all = Array.from({ length: 60 }, (_, index) => member(String(index), `Name ${index}`));
    const without = (leaves: (index: number) => boolean): readonly PreparedRecord[] =>
      all.filter((_, index) => !leaves(index));
    const mixed = all.toSorted((one, other) => (hashOf(one) < hashOf(other) ? -1 : 1));
    const pages = [
      all,
      all.toReversed(),
      mixed,
      without((index) => index % 4 === 3),
      without((index) => index > 10 && index < 40),
      [...all.slice(0, 7), member('new', 'New'), ...all.slice(7)],
      [...all.slice(0, 30), ...all.slice(40), ...all.slice(30, 40)],
    ];
    await runOf(bench(), 'r0', [all]);
    for (const [index, page] of pages.entries()) {
      const [seen] = await runOf(bench(), `r${index + 1}`, [page]);
      const inserted = index === 5 ? 1 : 0;
      expect(seen).toEqual(counts({ fetched: page.length, inserted, unchanged: page.length - inserted }));
    }
  });

  it('counts a new key as inserted and stores the record', async () => {
    const [first] = await runOf(bench(), 'r1', [[member('1'), member('2')]]);
    expect(first).toEqual(counts({ fetched: 2, inserted: 2 }));
    expect(await bench().rows()).toMatchObject([
      { list_id: 'a', id: '1', name: 'Ada', _run_id: 'r1', _seq: 1 },
      { list_id: 'a', id: '2', name: 'Ada', _run_id: 'r1', _seq: 2 },
    ]);
  });

  // Proves promise 6
  it('counts the same content in a later run as unchanged, and writes nothing', async () => {
    await runOf(bench(), 'r1', [[member('1'), member('2')]]);
    const before = await bench().rows();
    const [again] = await runOf(bench(), 'r2', [[member('1'), member('2')]]);
    expect(again).toEqual(counts({ fetched: 2, unchanged: 2 }));
    expect(await bench().rows()).toEqual(before);
  });

  it('counts another hash as updated, replaces the row and moves it to the end of the change feed', async () => {
    await runOf(bench(), 'r1', [[member('1'), member('2')]]);
    const [again] = await runOf(bench(), 'r2', [[member('1', 'Grace'), member('2')]]);
    expect(again).toEqual(counts({ fetched: 2, updated: 1, unchanged: 1 }));
    expect(await bench().rows()).toMatchObject([
      { id: '1', name: 'Grace', _seq: 3, _run_id: 'r2' },
      { id: '2', name: 'Ada', _seq: 2, _run_id: 'r1' },
    ]);
  });

  it('counts a record met twice as duplicate, in one page and across pages', async () => {
    const seen = await runOf(bench(), 'r1', [
      [member('1'), member('1')],
      [member('1'), member('2')],
    ]);
    expect(seen).toEqual([
      counts({ fetched: 2, inserted: 1, duplicate: 1 }),
      counts({ fetched: 2, duplicate: 1, inserted: 1 }),
    ]);
  });

  it('tells duplicate from unchanged: a stored record is unchanged once a run', async () => {
    await runOf(bench(), 'r1', [[member('1')]]);
    const [again] = await runOf(bench(), 'r2', [[member('1'), member('1')]]);
    expect(again).toEqual(counts({ fetched: 2, unchanged: 1, duplicate: 1 }));
  });

  it('counts a changed record as updated though the run has met it before', async () => {
    const [only] = await runOf(bench(), 'r1', [[member('1'), member('1', 'Grace')]]);
    expect(only).toEqual(counts({ fetched: 2, inserted: 1, updated: 1 }));
    expect(await bench().rows()).toMatchObject([{ id: '1', name: 'Grace', _seq: 2 }]);
  });

  it('revives a tombstoned row as updated though its content is the same', async () => {
    await runOf(bench(), 'r1', [[member('1')]]);
    await using sink = await bench().open();
    const { lease, run } = await bench().begin(sink, 'gone');
    expect(await sink.repair.tombstoneRecord(lease, run, members, member('1').keyText)).toBe(true);
    expect(await bench().rows()).toEqual([]);
    await lease[Symbol.asyncDispose]();
    const [again] = await runOf(bench(), 'r2', [[member('1')]]);
    expect(again).toEqual(counts({ fetched: 1, updated: 1 }));
    const [third] = await runOf(bench(), 'r3', [[member('1')]]);
    expect(third).toEqual(counts({ fetched: 1, unchanged: 1 }));
  });

  it('writes a row that differs only in volatile fields again when it is a day old, and counts it as unchanged', async () => {
    const withScore = (score: number, volatileHash: string): PreparedRecord =>
      record(membersTable, { list_id: 'a', id: '1', score }, { hash: 'same', volatileHash });
    await runOf(bench(), 'r1', [[withScore(1, 'one')]]);
    bench().clock.advance(dayMs - hourMs);
    expect(await runOf(bench(), 'r2', [[withScore(2, 'two')]])).toEqual([
      counts({ fetched: 1, unchanged: 1 }),
    ]);
    expect(await bench().rows()).toMatchObject([{ score: 1, _seq: 1 }]);
    bench().clock.advance(hourMs);
    expect(await runOf(bench(), 'r3', [[withScore(3, 'three')]])).toEqual([
      counts({ fetched: 1, unchanged: 1 }),
    ]);
    expect(await bench().rows()).toMatchObject([{ score: 3, _seq: 2, _run_id: 'r3' }]);
    bench().clock.advance(dayMs - 1);
    await runOf(bench(), 'r4', [[withScore(4, 'four')]]);
    expect(await bench().rows(), 'the day begins with the last write').toMatchObject([{ score: 3, _seq: 2 }]);
  });

  // Proves promise 7.1
  it('keeps a row of which only a part came as it is, and counts it as met', async () => {
    await runOf(bench(), 'r1', [[member('1', 'Ada'), member('2', 'Grace')]]);
    const before = await bench().rows();
    const [again] = await runOf(bench(), 'r2', [[inPart('1'), inPart('1'), member('2', 'Grace')]]);
    expect(again).toEqual(counts({ fetched: 3, unchanged: 2, duplicate: 1 }));
    expect(await bench().rows()).toEqual(before);
    expect(await bench().count('_sync_quarantine')).toBe(0);
  });

  // Proves promise 7.1
  it('stores nothing of a new record that came in part, and of a deleted one, but keeps them in quarantine', async () => {
    const { sink, started, commit } = await bench().walking();
    await commit([member('1')]);
    await sink.repair.tombstoneRecord(started.lease, started.run, members, member('1').keyText);
    const first = await commit([inPart('1'), inPart('2'), member('3')]);
    expect(first).toMatchObject({
      newlyDue: 0,
      counts: [{ counts: counts({ fetched: 3, quarantined: 2, inserted: 1 }) }],
    });
    const second = await commit([inPart('3'), member('2'), member('4')]);
    expect(second).toMatchObject({
      partial: 1,
      counts: [{ counts: counts({ fetched: 3, duplicate: 1, inserted: 2 }) }],
    });
    await sink[Symbol.asyncDispose]();
    expect(liveIds(await bench().rows())).toEqual(['2', '3', '4']);
    expect(await bench().ledger('SELECT reason, record FROM _sync_quarantine ORDER BY record')).toEqual([
      { reason: 'partial', record: '{"id":"1"}' },
      { reason: 'partial', record: '{"id":"2"}' },
    ]);
  });

  it('inserts exploded rows once, counts them on their own and never replaces them', async () => {
    const open = (at: string, hash: string): PreparedRecord => record(opensTable, { id: '1', at }, { hash });
    const { sink, started, id } = await bench().walking();
    const rows = (records: readonly PreparedRecord[]) => [
      { entity: members, records: [member('1')] },
      { entity: opens, records },
    ];
    const [first, second] = await sink.commit(started.lease, [
      page(started, id, [member('1')], {
        rows: rows([open('10:00', 'x'), open('10:00', 'x'), open('11:00', 'y')]),
      }),
      page(started, id, [member('1')], { rows: rows([open('11:00', 'another')]) }),
    ]);
    expect(first?.counts).toEqual([
      { entity: members, counts: counts({ fetched: 1, inserted: 1 }) },
      { entity: opens, counts: counts({ fetched: 3, inserted: 2, duplicate: 1 }) },
    ]);
    expect(second?.counts[1]).toEqual({ entity: opens, counts: counts({ fetched: 1, duplicate: 1 }) });
    await sink[Symbol.asyncDispose]();
    expect(await bench().rows(opensTable)).toMatchObject([{ at: '10:00' }, { at: '11:00' }]);
  });
}
