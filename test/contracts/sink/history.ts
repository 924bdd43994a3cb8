import { expect, it as everywhere } from 'vitest';
import { instant } from '../../../src/core/clock.ts';
import type { RunId } from '../../../src/core/names.ts';
import type { EntityTable, PreparedRecord, RecordFile } from '../../../src/core/records.ts';
import type { WantedFile } from '../../../src/sinks/files.ts';
import type { Partition } from '../../../src/sinks/partition.ts';
import type { ExpiredOf, ExpireRequest } from '../../../src/sinks/requests.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';
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
  refetch,
  resetScope,
  expireRequest,
  start,
  type LedgerRow,
  type SinkKind,
  lists,
  listsTable,
  partition,
  rootOf,
  page,
  type Started,
  sealed,
  withVolatile,
} from './fixture.ts';
import { RunInHand, useRuns, type Shown } from './run-in-hand.ts';
import { rulesOf, useBench } from './use-bench.ts';

type Undone = Awaited<ReturnType<Sink['repair']['undo']>>;

const plan: Partial<RunPlan> = { tables: [membersTable], versions: new Set([members]) };
const byHand = { ...refetch, kind: 'undo', window: 'undo', tables: [membersTable] } as const;

/** A condition for rows of a view of all versions: they were there at this moment. */
export function isThenAt(atMs: number): string {
  const at = `'${instant(atMs)}'`;
  return `_valid_from <= ${at} AND (_valid_to > ${at} OR _valid_to IS NULL) AND _deleted_at IS NULL`;
}

export function versions(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

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
  const asOf = async (hour: number): Promise<readonly unknown[]> => {
    const then = isThenAt(start + hour * hourMs);
    return (
      await bench().ledger(`SELECT id, name FROM news__members__history WHERE ${then} ORDER BY id`)
    ).map(({ id, name }) => `${String(id)} ${String(name)}`);
  };
  const closed = async (): Promise<number> => Number(await bench().count('news__members__versions'));
  const showing =
    (...records: readonly PreparedRecord[]) =>
    () => ({ records });

  // Proves promise 14.1
  everywhere('keeps each version of a row, with deletes, revivals and deletes taken back', async () => {
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
    const seen = (visits: number, name = 'Ada'): PreparedRecord =>
      withVolatile('visits', record(membersTable, { list_id: 'a', id: '1', name, visits }));
    await (await sweep('r1', showing(seen(1)))).finish();
    await (await sweep('r2', showing(seen(1)))).finish();
    bench().clock.advance(dayMs);
    await (await sweep('r3', showing(seen(2)))).finish();
    expect(await bench().rows()).toMatchObject([{ _run_id: 'r3', _seq: 2 }]);
    await (await sweep('r4', showing())).finish();
    expect(await history()).toEqual(['1 Ada 1-']);
    expect(await seqs(), 'it began when it was stored first').toEqual([[1, null]]);
    await (await sweep('r5', showing(seen(3, 'Grace')))).finish();
    expect(await history()).toEqual(['1 Ada 1-29', '1 Grace 29-']);
    bench().clock.advance(dayMs);
    await (await sweep('r6', showing(seen(4, 'Grace')))).finish();
    expect(await history()).toEqual(['1 Ada 1-29', '1 Grace 29-']);
    expect(await closed()).toBe(1);
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

  everywhere('has the columns that the table gets later, and drops all with the data', async () => {
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
    await sink.repair.reset(news, resetScope({ entity: members, tables: [membersTable] }));
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
    const before = (hour: number, withheld = 0): ExpireRequest =>
      expireRequest(members, { versionsBefore: instant(start + hour * hourMs), withheld });
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

  everywhere('keeps one version of a row that a commit changes several times', async () => {
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

const planOfLists = {
  tables: [listsTable, membersTable],
  entities: [lists, members],
  roots: [rootOf(lists)],
};
const outside = { ...byHand, tables: planOfLists.tables };

/** Lists lead to members; `a` holds three. */
const showing =
  (ids: readonly string[]) =>
  ({ entity, params }: Pick<Partition, 'entity' | 'params'>): Shown =>
    entity === lists
      ? {
          records: ids.map((id) => record(listsTable, { id })),
          children: ids.map((id) =>
            partition(members, { list_id: id }, { rank: 1, parent: { entity: lists, keyText: `["${id}"]` } }),
          ),
        }
      : { records: params['list_id'] === 'a' ? ['1', '2', '3'].map((id) => member(id)) : [] };

export function undoing(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);
  const status = async (sink: Sink) =>
    (await sink.history.connectors())[0]?.entities.map(({ entity, rows, deleted }) => [
      entity,
      rows,
      deleted,
    ]);

  /** A list has gone with its members in run r2. */
  async function gone() {
    const runs = await useRuns(bench(), planOfLists);
    await (await runs.sweep('r1', showing(['a', 'b']))).finish();
    const hand = await runs.sweep('r2', showing(['b']));
    await hand.tombstone([lists, members]);
    await hand.finish();
    return runs;
  }

  it('stores and tombstones single records outside a walk, and counts them', async () => {
    const { sink, lease, begin } = await useRuns(bench(), planOfLists);
    const hand = await begin('r1', { ...outside, kind: 'refetch' });
    const { run } = hand.started;
    expect(await sink.repair.storeRecord(lease, run, members, member('1'))).toEqual(
      counts({ fetched: 1, inserted: 1 }),
    );
    expect(await sink.repair.storeRecord(lease, run, members, member('1', 'Grace'))).toEqual(
      counts({ fetched: 1, updated: 1 }),
    );
    hand.count(members, counts({ fetched: 2, inserted: 1, updated: 1 }));
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","9"]')).toBe(false);
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","1"]')).toBe(true);
    expect(await sink.repair.tombstoneRecord(lease, run, members, '["a","1"]')).toBe(false);
    expect(await status(sink)).toEqual([
      [lists, 0, 0],
      [members, 0, 1],
    ]);
    await hand.finish();
    expect(await bench().rows()).toEqual([]);
  });

  it('walks what lies below a record again that was stored back outside a walk', async () => {
    const { sink, lease, begin, sweep } = await gone();
    const hand = await begin('r3', { ...outside, kind: 'refetch' });
    await sink.repair.storeRecord(lease, hand.started.run, lists, record(listsTable, { id: 'a' }));
    hand.count(lists, counts({ fetched: 1, updated: 1 }));
    await hand.finish();
    const walked: unknown[] = [];
    const next = await sweep('r4', (one) => {
      walked.push(one.params['list_id'] ?? 'lists');
      return one.entity === lists ? { records: [], absence: null } : showing([])(one);
    });
    expect(walked).toContain('a');
    await next.finish();
    expect(await bench().rows(membersTable)).toHaveLength(3);
  });

  /** What an undo of all entities gives, in batches of two rows, by entity. */
  const undone = async (hand: RunInHand, of: string): Promise<Readonly<Record<string, Undone>>> => {
    const { sink, started } = hand;
    const all: Record<string, Undone> = {};
    for (const entity of [lists, members]) {
      for (let after: number | null = 0; after !== null;) {
        const place = { entity, after, limit: 2 };
        const batch: Undone = await sink.repair.undo(started.lease, started.run, of as RunId, place);
        const before = all[entity];
        const plus = (key: 'deleted' | 'revived' | 'restored'): number => (before?.[key] ?? 0) + batch[key];
        const keys = [...(before?.kept.keys ?? []), ...batch.kept.keys];
        all[entity] = {
          ...batch,
          deleted: plus('deleted'),
          revived: plus('revived'),
          restored: plus('restored'),
          kept: { rows: keys.length, keys },
        };
        after = batch.next;
      }
    }
    return all;
  };
  const names = async (): Promise<readonly string[]> =>
    (await bench().rows()).map((row) => `${row['id'] as string} ${row['name'] as string}`).toSorted();
  const nothing = { deleted: 0, revived: 0, restored: 0, kept: { rows: 0 } };

  everywhere('takes back nothing of a run that the ledger no longer knows', async () => {
    const { begin, sweep } = await useRuns(bench(), {
      ...planOfLists,
      versions: new Set([lists, members]),
    });
    await (await sweep('r1', showing(['a', 'b']))).finish();
    const hand = await begin('r2', outside);
    expect(await undone(hand, 'r0')).toMatchObject({ lists: nothing, members: nothing });
  });

  // Proves promise 13
  everywhere('takes back the tombstones of one run in batches', async () => {
    const { begin } = await gone();
    const before = (await bench().rows(listsTable)).length;
    const hand = await begin('r3', outside);
    expect(await undone(hand, 'r2')).toMatchObject({
      lists: { ...nothing, revived: 1 },
      members: { ...nothing, revived: 3 },
    });
    expect(await undone(hand, 'r2'), 'a second time').toMatchObject({ lists: nothing, members: nothing });
    await hand.finish();
    expect(await bench().rows(listsTable)).toHaveLength(before + 1);
    expect(await bench().rows()).toMatchObject(
      ['1', '2', '3'].map((id) => ({ id, name: 'Ada', _run_id: 'r3' })),
    );
    expect(await status(hand.sink)).toEqual([
      [lists, 2, 0],
      [members, 3, 0],
    ]);
    const next = await begin('r4');
    await next.walk(showing(['a', 'b']));
    await next.sweep();
    expect(await next.tombstone([lists, members]), 'and they stay').toEqual({ lists: 0, members: 0 });
  });

  /** The bytes of 1 are unknown. r1 stores 1 to 3; r2 changes 1 and 2, adds 4 and 5, deletes 3; r3 changes 2 and 5. */
  async function written(change: Partial<RunPlan> = {}) {
    const ofMembers = {
      ...change,
      tables: [listsTable, membersTable],
      entities: [members],
      roots: [rootOf(members)],
    };
    const runs = await useRuns(bench(), ofMembers);
    const hashless = { hash: '' };
    const shown =
      (...records: readonly PreparedRecord[]) =>
      () => ({ records });
    await (await runs.sweep('r1', shown(member('1', 'Ada', hashless), member('2'), member('3')))).finish();
    const eve = member('1', 'Eve', hashless);
    const wrong = [eve, member('2', 'Eve'), member('4', 'Eve'), member('5', 'Eve')];
    const second = await runs.sweep('r2', shown(...wrong));
    await second.tombstone([members]);
    await second.finish();
    const later = [eve, member('2', 'Grace'), member('4', 'Eve'), member('5', 'Grace')];
    await (await runs.sweep('r3', shown(...later))).finish();
    return { ...runs, shown };
  }

  // Proves promise 13.1
  it('marks what a run inserted as deleted, names what it cannot restore, and has that read again in full', async () => {
    const { begin, shown } = await written();
    const hand = await begin('r4', outside);
    const found = {
      deleted: 1,
      revived: 1,
      restored: 0,
      kept: { rows: 1, keys: ['["a","1"]'] },
    };
    expect((await undone(hand, 'r2'))['members']).toMatchObject(found);
    expect(await names()).toEqual(['1 Eve', '2 Grace', '3 Ada', '5 Grace']);
    expect((await undone(hand, 'r2'))['members'], 'a second time').toMatchObject({
      ...found,
      deleted: 0,
      revived: 0,
    });
    await hand.finish();
    const next = await begin('r5');
    const modes: unknown[] = [];
    await next.walk((one) => {
      modes.push(one.mode);
      return shown(member('1'), member('2', 'Grace'), member('3'))();
    });
    await next.finish();
    expect(modes).toEqual(['full']);
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
  });

  // Proves promise 13.1
  everywhere('restores what a run updated, deleted and revived from the versions that are kept', async () => {
    const { begin, sweep, shown } = await written({ versions: new Set([members]) });
    const hand = await begin('r4', { ...outside, versions: new Set([members]) });
    expect((await undone(hand, 'r2'))['members']).toMatchObject({
      deleted: 1,
      revived: 1,
      restored: 1,
      kept: { rows: 0 },
    });
    await hand.finish();
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
    const versions = await bench().ledger(
      `SELECT name, _deleted_at FROM news__members__history WHERE id = '1' ORDER BY _seq`,
    );
    expect(versions.map(({ name }) => name)).toEqual(['Ada', 'Eve', 'Ada']);
    // Its own hash: the same record is no change.
    const same = await sweep(
      'r5',
      shown(member('1'), member('2', 'Grace'), member('3'), member('5', 'Grace')),
    );
    await same.finish();
    expect(await bench().rows()).toMatchObject([{ id: '1', _run_id: 'r4' }, {}, {}, {}]);

    // r6 revives 4 with other content: undone, it is deleted again.
    const all = [
      member('1'),
      member('2', 'Grace'),
      member('3'),
      member('4', 'Mallory'),
      member('5', 'Grace'),
    ];
    await (await sweep('r6', shown(...all))).finish();
    const again = await begin('r7', { ...outside, versions: new Set([members]) });
    expect((await undone(again, 'r6'))['members']).toMatchObject({ ...nothing, deleted: 1 });
    await again.finish();
    expect(await names()).toEqual(['1 Ada', '2 Grace', '3 Ada', '5 Grace']);
  });

  it('restores no version that is not the one before the run', async () => {
    const { begin, shown } = await written({ versions: new Set([members]) });
    const now = [member('2', 'Grace'), member('4', 'Eve'), member('5', 'Grace')];
    // Without versions the row changes twice; only the second change is undone.
    for (const [run, name] of [
      ['r4', 'Ada'],
      ['r5', 'Mallory'],
    ] as const) {
      const hand = await begin(run, { versions: new Set() });
      await hand.walk(shown(member('1', name), ...now));
      await hand.finish();
    }
    const hand = await begin('r6', { ...outside, versions: new Set() });
    expect((await undone(hand, 'r5'))['members']).toMatchObject({
      restored: 0,
      kept: { keys: ['["a","1"]'] },
    });
    await hand.finish();
  });
}

const photo = (version: string, change: Partial<RecordFile> = {}): RecordFile => ({
  params: { member_id: 1 },
  version,
  name: 'photo.jpg',
  contentType: 'image/jpeg',
  size: 3,
  ...change,
});

const withFile = (id: string, file: RecordFile | null, name = 'Ada'): PreparedRecord =>
  member(id, name, { file });

/** What is known of the files of records: `Sink.files`. */
export function files(kind: SinkKind): void {
  const bench = useBench(kind);
  const it = rulesOf(kind);

  /** Another full walk, in a run of its own, that shows these records. */
  async function shown(
    sink: Sink,
    run: string,
    records: readonly PreparedRecord[],
    absence: 'nothing' | null = null,
  ): Promise<Started> {
    const { started, commit } = await bench().walking(run, { isFull: true }, { sink });
    const seal = { ...sealed, absence };
    await commit(records, { seal });
    return started;
  }

  async function ended(started: Started): Promise<void> {
    await started.lease[Symbol.asyncDispose]();
    bench().clock.advance(hourMs);
  }

  const wanted = (sink: Sink, { lease, run }: Started): Promise<readonly WantedFile[]> =>
    sink.files.next(lease, run, members, 10);
  /** Stores the first that is wanted, under this name. */
  const store = async (sink: Sink, { lease, run }: Started, file: string): Promise<WantedFile> => {
    const [first] = await sink.files.next(lease, run, members, 1);
    if (first === undefined) throw new Error('a file should be wanted');
    const stored = { file, bytes: 3, sha256: 'ab', contentType: 'image/jpeg' };
    await sink.files.stored(lease, run, first, stored);
    return first;
  };
  const keysOf = (found: readonly WantedFile[]): readonly string[] => found.map(({ keyText }) => keyText);
  // Proves promise 15
  everywhere(
    'are wanted from the commit on that stores their records, with all that asks for them',
    async () => {
      const sink = await bench().open();
      const started = await shown(sink, 'r1', [withFile('1', photo('v1')), withFile('2', null), member('3')]);
      expect(await wanted(sink, started)).toEqual([
        { id: 1, entity: members, keyText: '["a","1"]', ...photo('v1') },
      ]);
      expect(await sink.files.left(started.lease, started.run, [members])).toEqual([
        { entity: members, files: 1 },
      ]);
    },
  );

  it.each([
    ['v2', photo('v2')],
    ['no file', null],
  ] as const)('are what the last record of a key in a page says: %s', async (_what, last) => {
    const sink = await bench().open();
    const started = await shown(sink, 'r1', [withFile('1', photo('v1')), withFile('1', last, 'Bea')]);
    expect((await wanted(sink, started)).map(({ version }) => version)).toEqual(last === null ? [] : ['v2']);
  });

  // Proves promise 15
  everywhere('are not noted where the commit of their records fails', async () => {
    const { sink, started, id } = await bench().walking();
    const wrong = page(started, id, [withFile('1', photo('v1'))], { fetched: 7 });
    await expect(sink.commit(started.lease, [wrong])).rejects.toMatchObject({ code: 'ACCOUNTING' });
    expect(await wanted(sink, started)).toEqual([]);
    expect(await bench().rows()).toEqual([]);
  });

  it('are wanted again when their version comes back after another one was wanted', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    await store(sink, first, 'x-photo.jpg');
    await ended(first);
    // A run that is killed after it has given the bytes of v2 the name that those of v1 had.
    await ended(await shown(sink, 'r2', [withFile('1', photo('v2'))]));

    const third = await shown(sink, 'r3', [withFile('1', photo('v1'))]);
    expect(await wanted(sink, third)).toMatchObject([{ version: 'v1' }]);
  });

  it('are wanted no more once they are stored, until their version is another one', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    await store(sink, first, 'x-photo.jpg');
    expect(await wanted(sink, first)).toEqual([]);
    await ended(first);

    const second = await shown(sink, 'r2', [withFile('1', photo('v1', { name: 'other.jpg' }), 'Bea')]);
    expect(await wanted(sink, second)).toEqual([]);
    await ended(second);

    const third = await shown(sink, 'r3', [withFile('1', photo('v2', { name: 'other.jpg' }))]);
    const newer = await store(sink, third, 'x-other.jpg');
    expect(newer).toMatchObject({ version: 'v2', name: 'other.jpg' });
    const names = ['x-photo.jpg', 'x-other.jpg', 'x-never-noted.jpg'];
    expect(await sink.files.unknown(third.lease, third.run, members, names)).toEqual(['x-never-noted.jpg']);
    const replaced = await sink.files.replaced(third.lease, third.run, 10);
    expect(replaced).toEqual([
      { id: newer.id, entity: members, file: 'x-photo.jpg', current: 'x-other.jpg' },
    ]);
    await sink.files.removed(third.lease, third.run, replaced);
    expect(await sink.files.replaced(third.lease, third.run, 10)).toEqual([]);
    expect((await sink.history.connectors())[0]?.entities).toContainEqual(
      expect.objectContaining({ entity: members, files: { stored: 1, bytes: 3, wanted: 0, failed: 0 } }),
    );
  });

  it('cost no write where nothing about them has changed', async () => {
    const sink = await bench().open();
    await ended(await shown(sink, 'r1', [withFile('1', photo('v1'))]));
    await kind.refuseUpdates(bench().folder, '_sync_downloads');
    const second = await shown(sink, 'r2', [withFile('1', photo('v1'))]);
    expect(await wanted(sink, second)).toHaveLength(1);
  });

  it('that failed are left out of this run, wanted by the next, and come after what was never tried', async () => {
    const sink = await bench().open();
    const records = ['1', '2', '3'].map((id) => withFile(id, photo('v1')));
    const first = await shown(sink, 'r1', records);
    const [one] = await wanted(sink, first);
    if (one === undefined) throw new Error('a file should be wanted');
    const failure = {
      code: 'NOT_FOUND',
      recovery: 'skip-partition',
      message: 'gone',
      at: instant(start),
    } as const;
    await sink.files.setAside(first.lease, first.run, one, failure);
    expect(keysOf(await wanted(sink, first))).toEqual(['["a","2"]', '["a","3"]']);
    expect(await sink.history.fileFailures(news, 5)).toEqual([
      { entity: members, params: { member_id: 1 }, failure },
    ]);
    await ended(first);

    const second = await shown(sink, 'r2', records);
    expect(keysOf(await wanted(sink, second))).toEqual(['["a","2"]', '["a","3"]', '["a","1"]']);
    await ended(second);

    // Another version has not failed yet.
    const third = await shown(sink, 'r3', [withFile('1', photo('v2'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","1"]', '["a","2"]', '["a","3"]']);
    expect(await sink.history.fileFailures(news, 5)).toEqual([]);
  });

  // Proves promise 15
  it('of tombstoned records are not wanted, and are again when these come back', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1')), withFile('2', photo('v1'))]);
    await ended(first);
    const second = await shown(sink, 'r2', [withFile('1', photo('v1'))], 'nothing');
    await sink.deletes.sweep(second.lease, second.run, 100);
    await sink.deletes.tombstone(second.lease, second.run, members, 'all', 100);
    expect(keysOf(await wanted(sink, second))).toEqual(['["a","1"]']);
    await ended(second);
    const third = await shown(sink, 'r3', [withFile('1', null), withFile('2', photo('v1'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","2"]']);
  });

  it('of a record that is taken back are wanted again', async () => {
    const sink = await bench().open();
    const all = { entity: members, after: 0, limit: 10 };
    const started = await shown(sink, 'r0', [withFile('1', photo('v1'))]);
    await ended(started);
    const first = await shown(sink, 'r1', []);
    await sink.repair.tombstoneRecord(first.lease, first.run, members, '["a","1"]');
    expect(await wanted(sink, first)).toEqual([]);
    await sink.repair.undo(first.lease, first.run, first.run, all);
    expect(keysOf(await wanted(sink, first))).toEqual(['["a","1"]']);
    await ended(first);

    // It had lost its file before.
    const second = await shown(sink, 'r2', [withFile('1', null)]);
    await sink.repair.tombstoneRecord(second.lease, second.run, members, '["a","1"]');
    await sink.repair.undo(second.lease, second.run, second.run, all);
    expect(await wanted(sink, second)).toEqual([]);
    await ended(second);

    // And has one again.
    const third = await shown(sink, 'r3', [withFile('1', photo('v2'))]);
    expect(keysOf(await wanted(sink, third))).toEqual(['["a","1"]']);
  });

  everywhere('are forgotten with the records of their entity, and kept by a reset without data', async () => {
    const sink = await bench().open();
    const first = await shown(sink, 'r1', [withFile('1', photo('v1'))]);
    await store(sink, first, 'x');
    await ended(first);
    const scope = resetScope({ entity: members, tables: [membersTable] });
    const known = async (): Promise<unknown> =>
      (await sink.history.connectors())[0]?.entities.find(({ entity }) => entity === members)?.files ?? null;
    await sink.repair.reset(news, { ...scope, withData: false });
    expect(await known()).toMatchObject({ stored: 1, wanted: 0 });
    await sink.repair.reset(news, scope);
    expect(await known()).toBeNull();
  });
}
